"""The catalogue as pages in Markdown, which code hosts, editors and the site show."""

from skewscope.kb.markdown.book import pages

__all__ = ["pages"]
