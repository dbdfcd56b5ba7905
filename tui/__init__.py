"""The user interfaces: command line, console, reports, web site."""
