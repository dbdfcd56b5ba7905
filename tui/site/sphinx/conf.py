"""Sphinx settings of the catalogue's web site: no network access in the build and the browser."""

import os
from pathlib import Path

project = "Skewscope catalogue"
html_title = f"Skewscope catalogue {os.environ['SKEWSCOPE_CATALOGUE_VERSION']}"
language = "en"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
root_doc = "index"
exclude_patterns = ["static", "extra"]

html_search_scorer = str(Path(__file__).parent / "scorer.js")
html_theme = "furo"
html_static_path = ["static"]
html_extra_path = ["extra"]
html_css_files = ["skewscope.css"]
html_js_files = ["skewscope.js"]
html_theme_options: dict[str, list[str]] = {"top_of_page_buttons": []}
html_copy_source = False
html_show_copyright = False
html_show_sourcelink = False
html_show_search_summary = False  # pages opened as files cannot fetch others
html_show_sphinx = False
html_use_index = False
html_permalinks = False
pygments_style = "friendly"
pygments_dark_style = "monokai"
smartquotes = False

myst_enable_extensions: list[str] = []
myst_linkify_fuzzy_links = False
