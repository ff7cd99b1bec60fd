"""What these tests need of frameworks: quiet ones, and only processors."""

from __future__ import annotations

import contextlib
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

# TensorFlow and triton, which parts of torch import, bring an LLVM each. If TensorFlow's is there first, triton's ends
# the process; the other way round they bear each other.
with contextlib.suppress(ImportError):
    import triton  # noqa: F401
