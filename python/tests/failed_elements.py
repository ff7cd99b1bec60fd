"""Datasets of which an element fails, and what TensorFlow 2.21 yields before and after."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

FAILED = "InvalidArgumentError"


def outcomes(dataset: Any) -> list[Any]:
    """Returns the elements, and the class of the error for each failed element. At most twelve, since a failure may stay."""
    elements, found = iter(dataset), []
    while len(found) < 12:
        try:
            found.append(_plain(next(elements)))
        except StopIteration:
            break
        # The class of the error is the outcome, whatever it is.
        except Exception as error:
            found.append(type(error).__name__)
    return found


def _plain(element: Any) -> Any:
    if isinstance(element, tuple):
        return tuple(map(_plain, element))
    return (element.numpy() if hasattr(element, "numpy") else element).tolist()


def _failing(of: Any, count: int = 4, at: int = 1) -> Any:
    """Numbers divided by their distance to one of them, which fails."""
    return of.range(count).map(lambda x: x // (x - at))


def _below(of: Any) -> Callable[[Any], Any]:
    return lambda _: of.range(3).map(lambda y: (y + 7) // (y - 1))


#: A dataset of a class of datasets, and what it yields.
CASES: dict[str, tuple[Callable[[Any], Any], list[Any]]] = {
    "map": (lambda of: _failing(of), [0, FAILED, 2, 1]),
    "parallel map": (lambda of: of.range(6).map(lambda x: x // (x - 1), num_parallel_calls=3), [0, FAILED, 2, 1, 1, 1]),
    "prefetch": (lambda of: _failing(of).prefetch(2), [0, FAILED, 2, 1]),
    "batch": (lambda of: _failing(of).batch(2), [FAILED, [2, 1]]),
    "batch of later rows": (lambda of: _failing(of, 6, 3).batch(2), [[0, -1], FAILED, [4, 2]]),
    "parallel batch": (lambda of: _failing(of, 6).batch(2, num_parallel_calls=2), [FAILED, [2, 1], [1, 1]]),
    "padded batch": (lambda of: _failing(of).padded_batch(2), [FAILED, [2, 1]]),
    "unbatch": (lambda of: of.range(4).batch(2).map(lambda x: x // (x - 1)).unbatch(), [FAILED, 2, 1]),
    "take": (lambda of: _failing(of).take(2), [0, FAILED, 2]),
    "skip": (lambda of: _failing(of).skip(1), [FAILED, 2, 1]),
    "shard": (lambda of: _failing(of, 6).shard(2, 1), [FAILED, 2, 1]),
    "repeat": (lambda of: _failing(of, 3).repeat(2), [0, FAILED, 2, 0, FAILED, 2]),
    "concatenate": (lambda of: _failing(of, 3).concatenate(of.range(2)), [0, FAILED, 2, 0, 1]),
    "zip": (lambda of: of.zip((_failing(of), of.range(10, 14))), [(0, 10), FAILED, (2, 12), (1, 13)]),
    "zip of a later input": (lambda of: of.zip((of.range(10, 14), _failing(of))), [(10, 0), FAILED, (12, 2), (13, 1)]),
    "enumerate": (lambda of: _failing(of).enumerate(), [(0, 0), FAILED, (2, 2), (3, 1)]),
    "filter": (lambda of: of.range(4).filter(lambda x: x // (x - 1) >= 0), [0, FAILED, 2, 3]),
    "take_while": (lambda of: of.range(4).take_while(lambda x: x // (x - 1) >= 0), [0, FAILED, 2, 3]),
    "scan": (lambda of: _scanned(of), [0, FAILED, 2, 1]),
    "flat_map": (lambda of: of.range(2).flat_map(_below(of)), [-7, FAILED, 9, -7, FAILED, 9]),
    "interleave": (lambda of: of.range(2).interleave(_below(of), cycle_length=2), [-7, -7, FAILED, 9, FAILED, 9]),
    "unique": (lambda of: _failing(of).unique(), [0, FAILED, 2, 1]),
    "group_by_window": (lambda of: _grouped(of), [FAILED, [0, 2], [1, 1], [1]]),
    "ignored errors": (lambda of: _failing(of).batch(2).ignore_errors(), [[2, 1]]),
    "choose": (lambda of: of.choose_from_datasets([_failing(of), of.range(10, 14)], of.range(4).map(lambda x: x % 2)), [0, 10, FAILED, 11]),
}


def _scanned(of: Any) -> Any:
    import numpy as np

    return of.range(4).scan(np.int64(0), lambda state, x: (state + x, x // (x - 1)))


def _grouped(of: Any) -> Any:
    return _failing(of, 6).group_by_window(lambda x: x % 2, lambda _, group: group.batch(2), 2)
