"""Files for Sphinx: settings, a style sheet, scripts."""
