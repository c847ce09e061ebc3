"""Our numbers beside those that papers print, and the works that a report cites."""
