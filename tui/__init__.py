"""Everything for a person at a terminal: command line, console, reports."""
