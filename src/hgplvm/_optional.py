"""Packages that are needed in one place only, and what to install where one is missing."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from hgplvm.errors import MissingPackageError

__all__ = ["require"]


def require(owner: str, module: str, extra: str) -> Any:
    """Import a module, or say which extra brings it."""
    try:
        return import_module(module)
    except ImportError as error:
        package = error.name or module
        raise MissingPackageError(
            f"{owner} needs the package {package!r}, which is not installed. Install it with "
            f"pip install -c constraints.txt 'hgplvm[{extra}]'.",
            name=package,
        ) from error
