"""Pictures within functions of datasets, named as in ``tf.image``: the functions of ``millstream.image``."""

from __future__ import annotations

from ..image import *  # noqa: F403
from ..image import __all__ as _names

__all__ = list(_names)
