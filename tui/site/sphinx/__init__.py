"""What Sphinx needs beside the pages: its settings, a style, a script."""
