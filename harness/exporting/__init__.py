"""A trained student outside the harness: opened, asked, written as a folder that others can use."""
