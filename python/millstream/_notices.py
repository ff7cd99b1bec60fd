"""Notices for a program that waits: lines of the logger ``millstream``, and warnings of lost data.

A program that configures no logging sees the lines on standard error.
"""

from __future__ import annotations

import logging
import warnings

from .errors import DataLossWarning

__all__ = ["log", "warn_of_loss"]

_logger = logging.getLogger("millstream")


def log(text: str) -> None:
    """Logs a line as a warning."""
    _logger.warning(text)


def warn_of_loss(text: str) -> None:
    """Logs that data was lost, and warns of it with the category that programs can filter."""
    _logger.warning(text)
    # From the line of the program that asked for an element.
    warnings.warn(text, DataLossWarning, stacklevel=2)
