"""Log messages of the logger ``millstream``, and warnings about lost data.

If the program configures no logging, the messages go to standard error.
"""

from __future__ import annotations

import logging
import warnings

from .errors import DataLossWarning

__all__ = ["log", "warn_of_loss"]

_logger = logging.getLogger("millstream")


def log(text: str) -> None:
    """Logs a message with the level warning."""
    _logger.warning(text)


def warn_of_loss(text: str) -> None:
    """Logs a loss of data, and issues a ``DataLossWarning``, which programs can filter."""
    _logger.warning(text)
    # The stack level makes the warning name the program's line that requested an element.
    warnings.warn(text, DataLossWarning, stacklevel=2)
