"""Answers for assistants by the Model Context Protocol: read-only, bounded, with evidence and doubt."""
