"""Sphinx's configuration. Everything that a page needs lies beside it: it is opened from disk, without a network."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]

from docs_site.docstrings import on_docstring  # noqa: E402  # found by the line above

project = "mqlearn"
project_copyright = "The mqlearn developers"
html_title = "mqlearn"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
nitpicky = False

myst_heading_anchors = 3
myst_enable_extensions = ["deflist", "attrs_inline", "attrs_block"]

autodoc_inherit_docstrings = False  # what a rule only inherits stands with its base
autodoc_typehints = "none"  # the signatures in full are those of the source, which is a click away
autodoc_member_order = "bysource"
autodoc_class_signature = "mixed"
add_module_names = False
toc_object_entries = False  # a heading has the name already
python_maximum_signature_line_length = 90
default_role = "code"
viewcode_line_numbers = True

templates_path: list[str] = []
html_theme = "pydata_sphinx_theme"
html_static_path = [str(HERE / "static")]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_show_search_summary = False  # a summary is fetched, which no browser does from disk
html_last_updated_fmt = None
html_sidebars = {"index": [], "start": [], "glossary": [], "search": [], "genindex": []}
html_context = {"default_mode": "auto"}
html_theme_options = {
    "logo": {"text": "mqlearn"},
    "navbar_align": "left",
    "navbar_persistent": [],
    "navbar_end": ["search-button-field", "theme-switcher"],
    "header_links_before_dropdown": 9,
    "secondary_sidebar_items": ["page-toc"],
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "show_nav_level": 1,
    "footer_start": ["copyright"],
    "footer_end": [],
    "back_to_top_button": False,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}


def setup(app):
    app.connect("autodoc-process-docstring", on_docstring, priority=400)
