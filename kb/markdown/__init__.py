"""The catalogue as Markdown pages for code hosts, editors and the site."""

from skewscope.kb.markdown.page_builder import build_pages

__all__ = ["build_pages"]
