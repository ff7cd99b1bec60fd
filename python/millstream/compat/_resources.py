"""Names of TensorFlow whose values change: variables and arrays of tensors. Functions of datasets have no such state, so they are refused."""

from __future__ import annotations

from typing import Any

from ._refusal import refuses

__all__ = ["TensorArray", "Variable"]


@refuses("tf.Variable", "functions of datasets have no state: use Dataset.scan, or a function of Dataset.map_python that holds an object")
class Variable:
    """Is refused: functions of datasets have no state.

    Args:
        initial_value: The first value.
        *args: The arguments of TensorFlow.
        **kwargs: The arguments of TensorFlow.
    """

    def __init__(self, initial_value: Any = None, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError


@refuses("tf.TensorArray", "functions of datasets are expressions of whole tensors: use tf.stack, tf.concat or tf.map_fn")
class TensorArray:
    """Is refused: functions of datasets are expressions of whole tensors.

    Args:
        dtype: The dtype of the tensors.
        *args: The arguments of TensorFlow.
        **kwargs: The arguments of TensorFlow.
    """

    def __init__(self, dtype: Any, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError
