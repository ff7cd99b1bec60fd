"""What follows a failed element here is what TensorFlow yields."""

from __future__ import annotations

import pytest

pytest.importorskip("tensorflow")

import tensorflow as tf
from failed_elements import CASES, outcomes


@pytest.mark.parametrize("name", CASES)
def test_tensorflow_yields_what_is_expected_here(name: str) -> None:
    build, expected = CASES[name]
    assert outcomes(build(tf.data.Dataset)) == expected
