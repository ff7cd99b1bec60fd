"""The names of ``tf.experimental`` that datasets use."""

from __future__ import annotations

from .._optional import Optional

__all__ = ["Optional"]
