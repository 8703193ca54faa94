"""Settings of the documentation site. `make docs` builds it, offline and with warnings as errors."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(Path(__file__).parent))

import generate  # noqa: E402
from sphinx.application import Sphinx  # noqa: E402

import stablemiss  # noqa: E402

project = "stablemiss"
version = release = stablemiss.__version__
copyright = "the authors of stablemiss, BSD-3-Clause"
language = "en-GB"

extensions = [
    "mathml",
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "**/*.ipynb", "gallery/**/*.py", "gallery/**/*.json"]
# A drawing or a page that cannot be found, a broken link, a page outside the navigation: all are errors.
nitpicky = False
suppress_warnings = ["config.cache"]
smartquotes = False  # "default" is a string that one types
default_role = "code"  # single backticks in docstrings
toc_object_entries_show_parents = "hide"

# Existing Markdown pages are read as they are; headings are link targets, as on GitHub.
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]

autosummary_generate = True
autodoc_typehints = "none"  # types stand in the docstrings
autodoc_default_options = {
    "members": True,
    "inherited-members": True,
    # Metadata routing is scikit-learn's; its docstrings link to pages of scikit-learn.
    "exclude-members": "get_metadata_routing, set_fit_request, set_score_request, set_predict_request",
}
numpydoc_show_class_members = False  # autodoc shows them with their docstrings

sphinx_gallery_conf = {
    "examples_dirs": str(ROOT / "examples"),
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "ignore_pattern": r"__init__\.py",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "write_computation_times": False,  # its page loads scripts from the network
    "show_signature": False,
    "remove_config_comments": True,
    "within_subsection_order": "FileNameSortKey",
    "copyfile_regex": r".*\.ipynb",
    "thumbnail_size": (400, 280),
    "backreferences_dir": "gallery/backreferences",
    "doc_module": ("stablemiss",),
}

html_theme = "pydata_sphinx_theme"
html_title = f"stablemiss {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "stablemiss"},
    "navbar_align": "left",
    "navbar_persistent": ["search-button"],
    "header_links_before_dropdown": 6,
    "show_nav_level": 1,
    "navigation_depth": 3,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "back_to_top_button": False,
}
html_context = {"default_mode": "auto"}
html_sidebars = {"faq": [], "changelog": [], "deviations": []}
html_math_renderer = "mathml"

templates_path = ["_templates"]

generate.write_pages(Path(__file__).parent)


def setup(app: Sphinx) -> None:
    # Before numpydoc, which has priority 500.
    app.connect("autodoc-process-docstring", generate.mend_docstring, priority=400)
    app.connect("doctree-read", generate.name_empty_headers)
