"""A table as text: for a terminal, Markdown, LaTeX, CSV, JSON and a page of HTML."""
