"""Sphinx configuration: `make docs` builds the site with warnings as errors."""

import importlib.metadata
import logging
import warnings

from sphinx import addnodes

project = "hgplvm"
author = "The hgplvm developers"
copyright = "2026, The hgplvm developers"
release = importlib.metadata.version("hgplvm")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_gallery.gen_gallery",
    "sphinx-mathjax-offline",  # formulas need no network: MathJax is part of the site
]
myst_enable_extensions = ["dollarmath", "amsmath", "deflist"]
autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_use_rtype = False
html_theme = "furo"
html_title = "hgplvm"
exclude_patterns = ["_build", "examples", "images"]
# every script is run, and one that fails ends the build
sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "gallery",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "remove_config_comments": True,
    "image_srcset": ["2x"],
    "ignore_repr_types": r"matplotlib|list",  # axes are seen
}
warnings.filterwarnings("ignore", category=PendingDeprecationWarning)  # of scanpy's plots
# a dependency of the theme logs everything that any library has to say
logging.getLogger("hgplvm").setLevel(logging.ERROR)


def plain_types(app, doctree):  # noqa: ARG001
    """Leave words of a type as they are: "array of shape (n,)" is no link to things named shape."""
    for node in list(doctree.findall(addnodes.pending_xref)):
        if node.get("reftype") in ("class", "obj") and node.get("reftarget", "").islower():
            node.replace_self(node.children)


def setup(app):
    """Connect what Sphinx has no setting for."""
    app.connect("doctree-read", plain_types)
