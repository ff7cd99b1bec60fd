"""Nested structures, named as in ``tf.nest``: tuples, named tuples, lists and dicts, whose keys are taken in sorted order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

__all__ = ["assert_same_structure", "flatten", "is_nested", "map_structure", "pack_sequence_as"]


def is_nested(structure: Any) -> bool:
    """Returns whether a value is a tuple, a list or a dict.

    Args:
        structure: Any value.

    Example:
        >>> tf.nest.is_nested((1, 2)), tf.nest.is_nested(1)
        (True, False)
    """
    return isinstance(structure, tuple | list | Mapping)


def flatten(structure: Any, expand_composites: bool = False) -> list[Any]:
    """Returns the leaves of a structure.

    Args:
        structure: The structure.
        expand_composites: Must be false: ragged and sparse tensors are leaves.

    Example:
        >>> tf.nest.flatten({"b": (1, 2), "a": 0})
        [0, 1, 2]
    """
    return list(_leaves(structure))


def _leaves(structure: Any) -> Iterator[Any]:
    if isinstance(structure, Mapping):
        for key in sorted(structure):
            yield from _leaves(structure[key])
    elif isinstance(structure, tuple | list):
        for item in structure:
            yield from _leaves(item)
    else:
        yield structure


def pack_sequence_as(structure: Any, flat_sequence: Any, expand_composites: bool = False) -> Any:
    """Nests leaves as a structure is nested.

    Args:
        structure: The structure.
        flat_sequence: The leaves.
        expand_composites: Must be false: ragged and sparse tensors are leaves.

    Returns:
        The leaves, nested.

    Raises:
        ValueError: There are more leaves, or fewer.

    Example:
        >>> tf.nest.pack_sequence_as({"a": 0, "b": (0, 0)}, [1, 2, 3])
        {'a': 1, 'b': (2, 3)}
    """
    leaves, wanted = list(flat_sequence), len(flatten(structure))
    if len(leaves) != wanted:
        raise ValueError(f"pack_sequence_as: expected {wanted} leaves, found {len(leaves)}")
    return _packed(structure, iter(leaves))


def _packed(structure: Any, leaves: Iterator[Any]) -> Any:
    if isinstance(structure, Mapping):
        made = {key: _packed(structure[key], leaves) for key in sorted(structure)}
        return type(structure)((key, made[key]) for key in structure)  # type: ignore[call-arg]
    if isinstance(structure, tuple) and hasattr(structure, "_fields"):
        return type(structure)(*(_packed(item, leaves) for item in structure))
    if isinstance(structure, tuple | list):
        return type(structure)(_packed(item, leaves) for item in structure)
    return next(leaves)


def map_structure(func: Callable[..., Any], *structure: Any, **kwargs: Any) -> Any:
    """Applies a function to the leaves of structures.

    Args:
        func: A function of one leaf of each structure.
        *structure: Structures that are nested alike.
        **kwargs: ``expand_composites`` and ``check_types``, accepted as in TensorFlow; they have no effect.

    Returns:
        The results, nested as the first structure.

    Example:
        >>> tf.nest.map_structure(lambda x, y: x + y, (1, [2]), (10, [20]))
        (11, [22])
    """
    for other in structure[1:]:
        assert_same_structure(structure[0], other)
    return pack_sequence_as(structure[0], [func(*leaves) for leaves in zip(*map(flatten, structure), strict=True)])


def assert_same_structure(nest1: Any, nest2: Any, check_types: bool = True, expand_composites: bool = False) -> None:
    """Checks that two structures are nested alike.

    Args:
        nest1: A structure.
        nest2: A structure.
        check_types: Whether the types of containers are compared too.
        expand_composites: Must be false: ragged and sparse tensors are leaves.

    Raises:
        ValueError: The structures are nested otherwise.
        TypeError: Their containers have other types.

    Example:
        >>> tf.nest.assert_same_structure((1, 2), (3, 4))
    """
    if is_nested(nest1) != is_nested(nest2):
        raise ValueError(f"expected structures that are nested alike, found {nest1!r} and {nest2!r}")
    if not is_nested(nest1):
        return
    if isinstance(nest1, Mapping) != isinstance(nest2, Mapping) or (check_types and type(nest1) is not type(nest2)):
        raise TypeError(f"expected structures of one type, found {type(nest1).__name__} and {type(nest2).__name__}")
    if len(nest1) != len(nest2) or (isinstance(nest1, Mapping) and set(nest1) != set(nest2)):
        raise ValueError(f"expected structures that are nested alike, found {nest1!r} and {nest2!r}")
    pairs = [(nest1[key], nest2[key]) for key in nest1] if isinstance(nest1, Mapping) else zip(nest1, nest2, strict=True)
    for one, other in pairs:
        assert_same_structure(one, other, check_types, expand_composites)
