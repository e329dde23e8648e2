"""Errors and warnings that hgplvm raises under its own names."""

from __future__ import annotations

__all__ = [
    "DataWarning",
    "FitInterruptedWarning",
    "FlatDataWarning",
    "JitterWarning",
    "LongFitWarning",
    "MissingPackageError",
    "NotPositiveDefiniteError",
]


class NotPositiveDefiniteError(ArithmeticError):
    """A covariance matrix could not be factorised, even with jitter on its diagonal."""


class JitterWarning(RuntimeWarning):
    """A covariance matrix needed jitter on its diagonal to be factorised."""


class DataWarning(UserWarning):
    """Data, or a map of them, of which the user should know something."""


class FlatDataWarning(DataWarning):
    """Data that a plane explains as well as a curved space."""


class LongFitWarning(UserWarning):
    """A fit is going to take more than a few seconds; the text has an estimate."""


class FitInterruptedWarning(UserWarning):
    """A fit was interrupted from the keyboard and returned its best state so far."""


class MissingPackageError(ImportError):
    """A package that only some parts need is not installed; the text names the extra."""
