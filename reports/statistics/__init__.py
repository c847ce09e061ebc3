"""What a table may say of its numbers: how far they spread, and which differ."""

LEVEL = 0.05  # of every test and interval
POWER = 0.8
