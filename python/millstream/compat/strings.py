"""Functions of text, named as in ``tf.strings``. Owns their signatures; refuses to know how they are executed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from .. import ops
from .._dtypes import int32
from .._tensor import Tensor, convert_to_tensor
from ..errors import InvalidArgumentError, UnimplementedError
from ._functions import finished, operands, traced
from ._refusal import refusal, refuses

__all__ = [
    "as_string", "bytes_split", "format", "join", "length", "lower", "reduce_join", "regex_full_match", "regex_replace", "split", "strip",
    "substr", "to_hash_bucket", "to_hash_bucket_fast", "to_hash_bucket_strong", "to_number", "unicode_decode", "upper",
]  # fmt: skip

_HASHES = "Millstream has SipHash only: use tf.strings.to_hash_bucket_strong(input, num_buckets, key=[0, 0])"

lower = traced("tf.strings.lower", "input, encoding='', name=None", lambda x, _: ops.strings_lower(x), "Converts text to small letters.",
               ">>> tf.strings.lower('Hi')\n'hi'", tensors=("input",),
               parameters={"encoding": "Accepted as in TensorFlow; ``str`` is Unicode, ``bytes`` are ASCII."})  # fmt: skip
upper = traced("tf.strings.upper", "input, encoding='', name=None", lambda x, _: ops.strings_upper(x), "Converts text to capitals.",
               ">>> tf.strings.upper('Hi')\n'HI'", tensors=("input",),
               parameters={"encoding": "Accepted as in TensorFlow; ``str`` is Unicode, ``bytes`` are ASCII."})  # fmt: skip
strip = traced("tf.strings.strip", "input, name=None", ops.strings_strip, "Removes white space at the ends of text.",
               ">>> tf.strings.strip(' a ')\n'a'", tensors=("input",))  # fmt: skip
length = traced("tf.strings.length", "input, unit='BYTE', name=None", lambda x, unit: ops.strings_length(x, unit).cast(int32),
                "Returns the lengths of texts.", ">>> int(tf.strings.length('abc'))\n3", tensors=("input",))  # fmt: skip
substr = traced("tf.strings.substr", "input, pos, len, unit='BYTE', name=None", ops.strings_substr, "Returns a part of each text.",
                ">>> tf.strings.substr('abcd', 1, 2)\n'bc'", tensors=("input",),
                parameters={"pos": "The start, from the end if negative.", "len": "The length."})  # fmt: skip
regex_full_match = traced("tf.strings.regex_full_match", "input, pattern, name=None",
                          lambda x, pattern: ops.regex_full_match(_text(x), pattern),
                          "Tells which whole texts match a pattern.", ">>> bool(tf.strings.regex_full_match('abc', 'a.c'))\nTrue",
                          tensors=("input",))  # fmt: skip
to_number = traced("tf.strings.to_number", "input, out_type='float32', name=None", ops.strings_to_number, "Parses decimal texts.",
                   ">>> float(tf.strings.to_number('1.5'))\n1.5", tensors=("input",))  # fmt: skip
regex_replace = traced(
    "tf.strings.regex_replace",
    "input, pattern, rewrite, replace_global=True, name=None",
    lambda x, pattern, rewrite, everywhere: _replaced(convert_to_tensor(x), pattern, _rewritten(rewrite), everywhere),
    "Replaces the matches of a pattern.",
    r">>> tf.strings.regex_replace('a1', '([a-z])([0-9])', r'\2\1')" + "\n'1a'",
    tensors=("input",),
    parameters={
        "rewrite": r"The replacement, in which ``\1`` to ``\9`` are groups and ``\0`` is the match.",
        "replace_global": "Whether all matches are replaced, or the first.",
    },
)


def _text(x: Any) -> Tensor:
    """Returns text in UTF-8, in which patterns are found."""
    tensor = convert_to_tensor(x)
    return tensor.cast("string") if tensor.dtype.code == "bytes" else tensor


def _replaced(x: Tensor, pattern: str, rewrite: str, everywhere: bool) -> Tensor:
    made = ops.regex_replace(_text(x), pattern, rewrite, everywhere)
    return made.cast("bytes") if x.dtype.code == "bytes" else made


def _rewritten(rewrite: str) -> str:
    """Returns a replacement of RE2 in the notation of the crate ``regex``, which names groups ``${1}``."""

    def group(match: re.Match[str]) -> str:
        found = match.group(0)
        if found == "$":
            return "$$"
        if found[1].isdigit():
            return "${" + found[1] + "}"
        if found[1] == "\\":
            return "\\"
        raise ValueError(f"rewrite {rewrite!r}: expected a digit or a backslash after a backslash, found {found[1]!r}")

    return re.sub(r"\$|\\(?s:.)", group, rewrite)


def split(input: Any, sep: str | None = None, maxsplit: int = -1, name: str | None = None) -> Any:
    """Splits one text into a vector.

    Args:
        input: A text. Vectors of texts are split by ``Dataset.split_ragged``.
        sep: The separator; white space of any length by default.
        maxsplit: The largest number of splits; -1 for all.
        name: Accepted as in TensorFlow; has no effect.

    Returns:
        The vector.

    Raises:
        UnimplementedError: The input is no single text.

    Example:
        >>> tf.strings.split("a b").tolist()
        ['a', 'b']
    """
    (given,) = operands(input)
    tensor = convert_to_tensor(given)
    shape = tensor.shape
    if shape is None or len(shape):
        raise UnimplementedError(
            f"tf.strings.split: expected a scalar, found shape {shape}; the parts of several texts are ragged: use Dataset.split_ragged"
        )
    if maxsplit >= 0:
        raise UnimplementedError("tf.strings.split: maxsplit is for vectors, by Dataset.split_ragged")
    return finished(ops.strings_split(tensor, sep or None))


def join(inputs: Sequence[Any], separator: str = "", name: str | None = None) -> Any:
    """Joins texts of several tensors, item by item.

    Args:
        inputs: Tensors of text, which broadcast.
        separator: The text between two items.
        name: Accepted as in TensorFlow; has no effect.

    Returns:
        The new tensor.

    Example:
        >>> tf.strings.join(["a", "b"], separator="-")
        'a-b'
    """
    first, *others = operands(*inputs)
    joined = convert_to_tensor(first)
    for other in others:
        joined = (joined + separator + other) if separator else joined + other
    return finished(joined)


def reduce_join(inputs: Any, axis: int | None = None, keepdims: bool = False, separator: str = "", name: str | None = None) -> Any:
    """Joins the texts along an axis.

    Args:
        inputs: A tensor of text.
        axis: The axis; all axes by default.
        keepdims: Whether the axis stays, with one item.
        separator: The text between two items.
        name: Accepted as in TensorFlow; has no effect.

    Returns:
        The new tensor.

    Raises:
        InvalidArgumentError: The tensor has no such axis.
        UnimplementedError: The rank of the tensor is unknown, and the axis is not the last one.

    Example:
        >>> tf.strings.reduce_join(["a", "b"], separator=" ")
        'a b'
    """
    (given,) = operands(inputs)
    tensor = convert_to_tensor(given)
    shape = tensor.shape
    if axis == -1:
        joined = tensor._made(tensor._expr.join(separator))
        return finished(ops.expand_dims(joined, -1) if keepdims else joined)
    if shape is None:
        raise UnimplementedError(f"tf.strings.reduce_join: expected the last axis of a tensor of unknown rank, found axis={axis}: give axis=-1")
    rank = len(shape)
    if axis is None:
        flat = ops.reshape(tensor, [-1])
        joined = flat._made(flat._expr.join(separator))
        return finished(ops.reshape(joined, [1] * rank) if keepdims else joined)
    if not -rank <= axis < rank:
        raise InvalidArgumentError(f"tf.strings.reduce_join: expected an axis of a tensor of shape {shape}, found axis={axis}")
    order = [at for at in range(rank) if at != axis % rank]
    last = ops.transpose(tensor, [*order, axis % rank])
    joined = last._made(last._expr.join(separator))
    return finished(ops.expand_dims(joined, axis % rank) if keepdims else joined)


def as_string(
    input: Any,
    precision: int = -1,
    scientific: bool = False,
    shortest: bool = False,
    width: int = -1,
    fill: str = "",
    name: str | None = None,
) -> Any:
    """Writes integers and Booleans as text.

    Args:
        input: A tensor of integers or Booleans.
        precision: Must be -1.
        scientific: Must be false.
        shortest: Has no effect on integers.
        width: Must be -1.
        fill: Must be empty.
        name: Accepted as in TensorFlow; has no effect.

    Returns:
        The texts.

    Raises:
        UnimplementedError: The tensor has floats, or a notation is asked for: TensorFlow's ``%f`` is not the notation of Millstream.

    Example:
        >>> tf.strings.as_string([1, 20]).tolist()
        ['1', '20']
    """
    (given,) = operands(input)
    tensor = convert_to_tensor(given)
    if tensor.dtype.code == "bool":
        return finished(ops.where(tensor, "true", "false"))
    if precision != -1 or scientific or width != -1 or fill or not tensor.dtype.is_integer:
        raise refusal("tf.strings.as_string", f"of {tensor.dtype!r} with notations: integers and Booleans only; format floats by map_python")
    return finished(tensor._unary("to_text"))


def to_hash_bucket_strong(input: Any, num_buckets: int, key: Sequence[int], name: str | None = None) -> Any:
    """Returns the number of a bucket for each text, by SipHash under a key of zeros.

    Args:
        input: A tensor of text.
        num_buckets: The number of buckets.
        key: Must be ``[0, 0]``.
        name: Accepted as in TensorFlow; has no effect.

    Returns:
        The numbers, as ``int64``.

    Raises:
        UnimplementedError: The key is another one.

    Example:
        >>> 0 <= int(tf.strings.to_hash_bucket_strong("a", 10, key=[0, 0])) < 10
        True
    """
    if list(key) != [0, 0]:
        raise refusal("tf.strings.to_hash_bucket_strong", f"with key={list(key)}: the key of Millstream's SipHash is [0, 0]")
    (given,) = operands(input)
    return finished(ops.strings_to_hash_bucket(given, num_buckets))


@refuses("tf.strings.to_hash_bucket", _HASHES)
def to_hash_bucket(input: Any, num_buckets: int, name: str | None = None) -> Any:
    """Is refused: Millstream has no MurmurHash.

    Args:
        input: A tensor of text.
        num_buckets: The number of buckets.
        name: Accepted as in TensorFlow.

    Returns:
        Nothing: it raises ``UnimplementedError``.
    """


@refuses("tf.strings.to_hash_bucket_fast", _HASHES)
def to_hash_bucket_fast(input: Any, num_buckets: int, name: str | None = None) -> Any:
    """Is refused: Millstream has no FarmHash.

    Args:
        input: A tensor of text.
        num_buckets: The number of buckets.
        name: Accepted as in TensorFlow.

    Returns:
        Nothing: it raises ``UnimplementedError``.
    """


@refuses("tf.strings.bytes_split", "the parts are ragged, and functions have no ragged tensors: use Dataset.map_python")
def bytes_split(input: Any, name: str | None = None) -> Any:
    """Is refused: functions of datasets have no ragged tensors.

    Args:
        input: A tensor of text.
        name: Accepted as in TensorFlow.

    Returns:
        Nothing: it raises ``UnimplementedError``.
    """


@refuses("tf.strings.unicode_decode", "the parts are ragged, and functions have no ragged tensors: use Dataset.map_python")
def unicode_decode(input: Any, input_encoding: str, errors: str = "replace", replacement_char: int = 65533, name: str | None = None) -> Any:
    """Is refused: functions of datasets have no ragged tensors.

    Args:
        input: A tensor of text.
        input_encoding: The encoding.
        errors: The treatment of invalid bytes.
        replacement_char: The character that replaces invalid bytes.
        name: Accepted as in TensorFlow.

    Returns:
        Nothing: it raises ``UnimplementedError``.
    """


@refuses("tf.strings.format", "a template writes tensors of any shape: join texts by tf.strings.join, or use Dataset.map_python")
def format(template: str, inputs: Any, placeholder: str = "{}", summarize: int = 3, name: str | None = None) -> Any:
    """Is refused: no native function writes whole tensors as text.

    Args:
        template: The text with placeholders.
        inputs: Tensors.
        placeholder: The placeholder.
        summarize: Items that are written of each tensor.
        name: Accepted as in TensorFlow.

    Returns:
        Nothing: it raises ``UnimplementedError``.
    """
