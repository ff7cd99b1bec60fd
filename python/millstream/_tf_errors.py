"""Raises the errors of Millstream as TensorFlow's errors, where a program of TensorFlow expects these.

Owns the classes that are errors of both packages, so that ``except`` finds them by either name. Errors within a graph are those of
``_tf_failure``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from ._tf_failure import code_of
from .errors import MillstreamError

__all__ = ["raising_errors_of_tensorflow"]

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


def raising_errors_of_tensorflow(function: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
    """Returns a function whose errors of Millstream are also errors of TensorFlow."""

    @functools.wraps(function)
    def call(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
        try:
            return function(*args, **kwargs)
        except MillstreamError as error:
            raise _both(error) from error

    # AutoGraph then calls the function as it is, also in a `tf.function`.
    call.autograph_info__ = {}  # type: ignore[attr-defined]
    return call


def _both(error: MillstreamError) -> Exception:
    import tensorflow as tf

    of_tensorflow = tf.compat.v1.errors.exception_type_from_error_code(code_of(error))
    own: Any = type(error)
    made: Exception = _kind(of_tensorflow, own)(error)
    return made


@functools.cache
def _kind(of_tensorflow: Any, own: Any) -> Any:
    """Returns the class of an error of both packages."""

    def initialised(self: Any, error: MillstreamError) -> None:
        of_tensorflow.__init__(self, None, None, error.message)
        # The message is a property of TensorFlow's errors.
        self.__dict__.update({name: value for name, value in vars(error).items() if name != "message"})

    def reduced(self: Any) -> tuple[Any, ...]:
        rebuilt, (_, *details) = own.__reduce__(self)
        return (rebuilt, (own, *details))

    def shown(self: Any) -> str:
        return str(self.message)

    members = {"__init__": initialised, "__reduce__": reduced, "__str__": shown, "__module__": own.__module__, "__qualname__": own.__qualname__}
    return type(own.__name__, (own, of_tensorflow), members)
