"""What a report adds to a table on request: statistics over tasks, and what its searches tell."""
