"""Sphinx configuration: `make docs` builds the site with warnings as errors."""

import importlib.metadata

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
]
myst_enable_extensions = ["dollarmath", "amsmath"]
autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_use_rtype = False
html_theme = "furo"
html_title = "hgplvm"
exclude_patterns = ["_build"]
