"""What a table is, how it is built of a study's results, and how it reads."""
