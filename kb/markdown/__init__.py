"""The catalogue as pages in Markdown, which code hosts, editors and the site show."""

from skewscope.kb.markdown.page_builder import build_pages

__all__ = ["build_pages"]
