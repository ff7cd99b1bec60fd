"""Configures the frameworks for these tests: few log messages, and no GPU."""

from __future__ import annotations

import contextlib
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
# Two devices show where arrays are, and divide sharded arrays.
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=2")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

# TensorFlow and triton, which parts of torch import, each contain a copy of LLVM. The process crashes if TensorFlow is
# loaded before triton, and works if triton is loaded first.
with contextlib.suppress(ImportError):
    import triton  # noqa: F401
