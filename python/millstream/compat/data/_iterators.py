"""The iterators of datasets, and the specs of datasets and iterators, named as in ``tf.data``.

Owns the comparison of specs. The protocol by which ``tf.function`` traces values is refused: nothing is traced here.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import Any

from ..._dataset import Dataset
from ..._millstream import Elements
from ..._numpy_iterator import NumpyIterator
from ..._spec import TensorSpec
from ..._statistics import Recording
from .._refusal import refuses

__all__ = ["DatasetSpec", "Iterator", "IteratorSpec", "NumpyIterator"]

_NOT_TRACED = "Millstream traces no functions of TensorFlow: a dataset is a value of Python, and a spec only describes it"


class Iterator(abc.ABC):
    """The type of the iterators that ``iter(dataset)`` returns. An iterator is one pass over a dataset.

    Example:
        >>> iterator = iter(tf.data.Dataset.range(2))
        >>> isinstance(iterator, tf.data.Iterator), int(iterator.get_next()), int(next(iterator))
        (True, 0, 1)
    """

    @property
    @abc.abstractmethod
    def element_spec(self) -> Any:
        """The specs of an element."""

    @abc.abstractmethod
    def get_next(self) -> Any:
        """Returns the next element.

        Raises:
            OutOfRangeError: There are no more elements.

        Example:
            >>> int(iter(tf.data.Dataset.range(2)).get_next())
            0
        """

    @abc.abstractmethod
    def get_next_as_optional(self) -> Any:
        """Returns the next element as an ``Optional``, which has no value at the end.

        Example:
            >>> iter(tf.data.Dataset.range(0)).get_next_as_optional().has_value()
            False
        """


Iterator.register(Elements)
Iterator.register(Recording)


class _Spec:
    """The common base of the specs of datasets and of iterators, which both describe elements."""

    #: The type of the values that the spec describes.
    _value_type: type = object

    def __init__(self, element_spec: Any) -> None:
        self._element_spec = element_spec

    @property
    def value_type(self) -> Any:
        """The type of the values that the spec describes.

        Example:
            >>> tf.data.DatasetSpec(tf.TensorSpec((), tf.int64)).value_type is tf.data.Dataset
            True
        """
        return self._value_type

    @property
    def element_spec(self) -> Any:
        """The specs of an element.

        Example:
            >>> tf.data.DatasetSpec(tf.TensorSpec((), tf.int64)).element_spec
            TensorSpec(shape=(), dtype=ms.int64, name=None)
        """
        return self._element_spec

    def is_compatible_with(self, spec_or_value: Any) -> bool:
        """Returns whether a value could have this spec, or a spec describes values that this one describes too.

        Args:
            spec_or_value: A spec, or a dataset or an iterator.

        Example:
            >>> tf.data.DatasetSpec(tf.TensorSpec((), tf.int64)).is_compatible_with(tf.data.Dataset.range(3))
            True
        """
        other = spec_or_value if isinstance(spec_or_value, _Spec) else _of(spec_or_value, type(self))
        return other is not None and type(other) is type(self) and _combined(self._element_spec, other._element_spec, _agree) is not _NONE

    def is_subtype_of(self, other: Any) -> bool:
        """Returns whether another spec describes all values that this one describes.

        Args:
            other: A spec.

        Example:
            >>> known, unknown = (tf.data.DatasetSpec(tf.TensorSpec(shape, tf.int64)) for shape in ([2], [None]))
            >>> known.is_subtype_of(unknown), unknown.is_subtype_of(known)
            (True, False)
        """
        return type(other) is type(self) and _combined(self._element_spec, other._element_spec, _within) is not _NONE

    def most_specific_common_supertype(self, others: Sequence[Any]) -> Any:
        """Returns the narrowest spec that describes all values of this one and of others; ``None`` if there is none.

        Args:
            others: Specs.

        Example:
            >>> one, other = (tf.data.DatasetSpec(tf.TensorSpec(shape, tf.int64)) for shape in ([2], [3]))
            >>> one.most_specific_common_supertype([other]).element_spec.shape
            (None,)
        """
        found = self._element_spec
        for other in others:
            found = _combined(found, other._element_spec, _relaxed) if type(other) is type(self) else _NONE
            if found is _NONE:
                return None
        return type(self)(found)

    def most_specific_compatible_type(self, other: Any) -> Any:
        """Returns the narrowest spec that describes all values of this one and of another.

        Args:
            other: A spec.

        Raises:
            ValueError: There is none.

        Example:
            >>> one, other = (tf.data.DatasetSpec(tf.TensorSpec(shape, tf.int64)) for shape in ([2], [3]))
            >>> one.most_specific_compatible_type(other).element_spec.shape
            (None,)
        """
        found = self.most_specific_common_supertype([other])
        if found is None:
            raise ValueError(f"expected a spec that is compatible with {self}, found {other}")
        return found

    @refuses("cast", _NOT_TRACED)
    def cast(self, value: Any, casting_context: Any) -> Any:
        """Is refused: Millstream traces no functions.

        Args:
            value: A value.
            casting_context: A context of TensorFlow.

        Returns:
            Nothing: it raises ``UnimplementedError``.
        """

    @refuses("flatten", _NOT_TRACED)
    def flatten(self) -> Any:
        """Is refused: Millstream traces no functions.

        Returns:
            Nothing: it raises ``UnimplementedError``.
        """

    @refuses("from_tensors", _NOT_TRACED)
    def from_tensors(self, tensors: Any) -> Any:
        """Is refused: Millstream traces no functions.

        Args:
            tensors: Tensors.

        Returns:
            Nothing: it raises ``UnimplementedError``.
        """

    @refuses("to_tensors", _NOT_TRACED)
    def to_tensors(self, value: Any) -> Any:
        """Is refused: Millstream traces no functions.

        Args:
            value: A value.

        Returns:
            Nothing: it raises ``UnimplementedError``.
        """

    @refuses("placeholder_value", _NOT_TRACED)
    def placeholder_value(self, placeholder_context: Any) -> Any:
        """Is refused: Millstream traces no functions.

        Args:
            placeholder_context: A context of TensorFlow.

        Returns:
            Nothing: it raises ``UnimplementedError``.
        """

    @refuses("experimental_as_proto", _NOT_TRACED)
    def experimental_as_proto(self) -> Any:
        """Is refused: Millstream has no messages of TensorFlow.

        Returns:
            Nothing: it raises ``UnimplementedError``.
        """

    @classmethod
    @refuses("experimental_from_proto", _NOT_TRACED)
    def experimental_from_proto(cls, proto: Any) -> Any:
        """Is refused: Millstream has no messages of TensorFlow.

        Args:
            proto: A message.

        Returns:
            Nothing: it raises ``UnimplementedError``.
        """

    @classmethod
    @refuses("experimental_type_proto", _NOT_TRACED)
    def experimental_type_proto(cls) -> Any:
        """Is refused: Millstream has no messages of TensorFlow.

        Returns:
            Nothing: it raises ``UnimplementedError``.
        """

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Spec) and type(other) is type(self) and bool(self._element_spec == other._element_spec)

    def __hash__(self) -> int:
        return hash((type(self), repr(self._element_spec)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._element_spec!r})"


class IteratorSpec(_Spec):
    """The spec of an iterator.

    Args:
        element_spec: The specs of an element.

    Example:
        >>> tf.data.IteratorSpec.from_value(iter(tf.data.Dataset.range(3)))
        IteratorSpec(TensorSpec(shape=(), dtype=ms.int64, name=None))
    """

    _value_type = Iterator

    @staticmethod
    def from_value(value: Any) -> IteratorSpec:
        """Returns the spec of an iterator.

        Args:
            value: The iterator.

        Example:
            >>> tf.data.IteratorSpec.from_value(iter(tf.data.Dataset.range(3))).element_spec
            TensorSpec(shape=(), dtype=ms.int64, name=None)
        """
        return IteratorSpec(value.element_spec)


class DatasetSpec(_Spec):
    """The spec of a dataset.

    Args:
        element_spec: The specs of an element.
        dataset_shape: Must be ``()``: there are no tensors of datasets.

    Example:
        >>> tf.data.DatasetSpec.from_value(tf.data.Dataset.range(3))
        DatasetSpec(TensorSpec(shape=(), dtype=ms.int64, name=None))
    """

    _value_type = Dataset

    def __init__(self, element_spec: Any, dataset_shape: Any = ()) -> None:
        if len(tuple(dataset_shape)):
            raise ValueError(f"DatasetSpec: expected dataset_shape=(), found {dataset_shape!r}: there are no tensors of datasets")
        super().__init__(element_spec)

    @staticmethod
    def from_value(value: Any) -> DatasetSpec:
        """Returns the spec of a dataset.

        Args:
            value: The dataset.

        Example:
            >>> tf.data.DatasetSpec.from_value(tf.data.Dataset.range(3)).element_spec
            TensorSpec(shape=(), dtype=ms.int64, name=None)
        """
        return DatasetSpec(value.element_spec)


def _of(value: Any, kind: type[_Spec]) -> _Spec | None:
    if kind is DatasetSpec and isinstance(value, Dataset):
        return DatasetSpec(value.element_spec)
    return IteratorSpec(value.element_spec) if kind is IteratorSpec and isinstance(value, Iterator) else None


#: Stands for no spec, because ``None`` is a spec.
_NONE: Any = object()

_Sizes = tuple[int | None, ...] | None


def _combined(one: Any, other: Any, shape: Callable[[_Sizes, _Sizes], Any]) -> Any:
    """Returns two specs that are nested alike as one, whose shapes a function makes; ``_NONE`` if they are not, or it returns that."""
    if isinstance(one, dict) and isinstance(other, dict):
        parts = [(name, _combined(one[name], other[name], shape) if name in other else _NONE) for name in one]
        return _NONE if len(one) != len(other) or any(part is _NONE for _, part in parts) else dict(parts)
    if isinstance(one, tuple | list) and type(one) is type(other):
        items = [_combined(*pair, shape) for pair in zip(one, other, strict=False)]
        return _NONE if len(one) != len(other) or any(item is _NONE for item in items) else type(one)(items)
    if isinstance(one, TensorSpec) and isinstance(other, TensorSpec):
        made = shape(one.shape, other.shape)
        return _NONE if made is _NONE or one.dtype != other.dtype else TensorSpec(made, one.dtype)
    return one if one == other else _NONE


def _agree(one: _Sizes, other: _Sizes) -> Any:
    if one is None or other is None:
        return None
    fits = len(one) == len(other) and all(a is None or b is None or a == b for a, b in zip(one, other, strict=True))
    return one if fits else _NONE


def _within(one: _Sizes, other: _Sizes) -> Any:
    if other is None:
        return one
    fits = one is not None and len(one) == len(other) and all(b is None or a == b for a, b in zip(one, other, strict=True))
    return one if fits else _NONE


def _relaxed(one: _Sizes, other: _Sizes) -> Any:
    if one is None or other is None or len(one) != len(other):
        return None
    return [a if a == b else None for a, b in zip(one, other, strict=True)]
