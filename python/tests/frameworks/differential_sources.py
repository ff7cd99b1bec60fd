"""Sources of random programs: ranges, arrays of several dtypes and structures, generators, and files of text.

Owns what sources read. Refuses to know what is done with their elements.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

__all__ = ["FILES", "source"]

#: The files that programs read, by their names in the folder ``FOLDER``.
FILES = {
    "a.txt": "one two\nthree\n\nfour five six\n",
    "b.txt": "Seven\neight nine",
    "empty.txt": "",
}

_DTYPES = ("int32", "int64", "float32", "float64", "int8", "uint8", "int16", "uint16", "uint32", "uint64", "float16")


def _array(rng: random.Random, rows: int, shape: Sequence[int] = ()) -> str:
    """Writes an array of some dtype."""
    kind = rng.choice([*_DTYPES, *_DTYPES[:6], "bool", "text", "list", "list"])
    sizes, count = [rows, *shape], int(np.prod([rows, *shape]))
    if kind == "text":
        items = [rng.choice(["one", "two 2", "Three", "", "four five"]) for _ in range(count)]
        return f"np.array({items}, object).reshape({sizes})" if rows == 0 or shape else str(items)
    numbers = [rng.randint(0, 6) if kind[0] == "u" else rng.randint(-4, 6) for _ in range(count)]
    if kind == "list":
        return str(numbers) if numbers and not shape else f"np.array({numbers}, np.int32).reshape({sizes})"
    items = [bool(item % 2) for item in numbers] if kind == "bool" else [item / 2 for item in numbers] if kind[0] == "f" else numbers
    return f"np.array({items}, np.{kind}_).reshape({sizes})" if kind == "bool" else f"np.array({items}, np.{kind}).reshape({sizes})"


def _arrays(rng: random.Random, rows: int) -> str:
    """Writes arrays of one leading dimension, perhaps nested."""

    def one() -> str:
        return _array(rng, rows, rng.choice([(), (), (), (2,), (3,), (2, 2), (0,)]))

    shape = rng.random()
    if shape < 0.5:
        return one()
    if shape < 0.75:
        return f"({one()}, {one()})"
    return f"{{'a': {one()}, 'b': {one()}}}" if shape < 0.9 else f"({one()}, {{'c': {one()}, 'd': ({one()},)}})"


def source(rng: random.Random) -> tuple[str, int]:
    """Writes the source of a program, and says how many elements it has at most."""
    rows = rng.choice([0, 1, 2, 3, 5, 7, 10])
    kind = rng.random()
    if kind < 0.3:
        start, step = rng.randint(-3, 3), rng.choice([1, 2, 3, -1])
        dtype = rng.choice(["", "", "", ", output_type=tf.int32", ", output_type=tf.float32"])
        texts = [f"{rows}", f"{start}, {start + rows * step}, {step}"]
        return f"tf.data.Dataset.range({rng.choice(texts)}{dtype})", rows
    if kind < 0.65:
        return f"tf.data.Dataset.from_tensor_slices({_arrays(rng, rows)})", rows
    if kind < 0.75:
        return f"tf.data.Dataset.from_tensors({_arrays(rng, min(rows, 4))})", 1
    if kind < 0.85:
        words = [rng.choice(["one", "two three", "", " four  five six ", "Seven"]) for _ in range(max(rows, 1))]
        return f"tf.data.Dataset.from_tensor_slices({words}).map(tf.strings.split)", len(words)
    if kind < 0.9:
        made = rng.choice([f"range({rows})", f"[{rows}] * 3", f"iter([1, {rows}])"])
        return f"tf.data.Dataset.from_generator(lambda: {made}, output_signature=tf.TensorSpec([], tf.int64))", max(rows, 3)
    if kind < 0.96:
        names = rng.sample(sorted(FILES), rng.randint(1, len(FILES)))
        return f"tf.data.TextLineDataset([{', '.join(f'FOLDER + {name!r}' for name in names)}])", 6
    return f"tf.data.Dataset.range({max(rows, 1)}).interleave(lambda x: tf.data.Dataset.from_tensors(x).repeat(2), cycle_length=2)", 2 * max(rows, 1)
