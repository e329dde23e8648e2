"""The command line: reads options, runs commands, and reports errors in one line.

What takes long to import (torch, matplotlib, anndata) is imported within the commands, so that
help, completion and most errors come at once.
"""

from hgplvm.cli import _ask, _embed, _look, _paper, _placing  # they add their commands to the app
from hgplvm.cli._app import app, main

__all__ = ["app", "main"]

_ = (_ask, _embed, _look, _paper, _placing)
