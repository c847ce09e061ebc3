"""What `import harness` gives: the command line's words as Python's arguments, and its results as objects."""
