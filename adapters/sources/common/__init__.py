"""What several kinds of source share: queue and supervision, mapping of series, HTTP, discovery, reading of files."""
