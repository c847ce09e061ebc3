"""What a table may say of its numbers: how far they spread, and which differ."""
