"""Functions of elements, as random programs write them: expressions over the tensors of an element.

Owns the choices of one program, and the expressions that a dtype and a shape allow. Refuses to know which operations take the functions.
"""

from __future__ import annotations

import random
from typing import Any

__all__ = ["Draw", "both", "condition", "dims", "number", "structure", "value"]


class Draw:
    """The choices of one program, and the dataset of TensorFlow that its lines have made so far."""

    def __init__(self, rng: random.Random, tf: Any, dataset: Any, bound: int) -> None:
        self.rng = rng
        self.tf = tf
        self.dataset = dataset
        #: At least the number of elements.
        self.bound = bound
        self.is_ordered = True

    @property
    def spec(self) -> Any:
        """The spec of an element."""
        return self.dataset.element_spec

    @property
    def params(self) -> list[str]:
        """The parameters of a function of an element."""
        return [f"x{index}" for index in range(len(self.spec))] if isinstance(self.spec, tuple) else ["x"]

    @property
    def element(self) -> str:
        """The element, as a function of these parameters writes it."""
        return f"({', '.join(self.params)},)" if isinstance(self.spec, tuple) else "x"

    def leaves(self) -> list[tuple[str, Any]]:
        """The tensors of an element: each as an expression over the parameters, with its spec."""
        return list(self._below(self.spec, "x")) if not isinstance(self.spec, tuple) else [
            leaf for param, part in zip(self.params, self.spec, strict=True) for leaf in self._below(part, param)
        ]

    def _below(self, spec: Any, text: str) -> Any:
        if isinstance(spec, dict):
            for name, part in spec.items():
                yield from self._below(part, f"{text}[{name!r}]")
        elif isinstance(spec, tuple):
            for index, part in enumerate(spec):
                yield from self._below(part, f"{text}[{index}]")
        else:
            yield text, spec

    def leaf(self) -> tuple[str, Any]:
        """Chooses a tensor of the element."""
        return self.rng.choice(self.leaves())

    def function(self, body: str) -> str:
        """Writes a function of an element."""
        return f"lambda {', '.join(self.params)}: {body}"

    def small(self, low: int = 1, high: int = 4) -> int:
        """Chooses a small number."""
        return self.rng.randint(low, high)

    def maybe(self, text: str, share: float = 0.3) -> str:
        """Chooses a text or none."""
        return text if self.rng.random() < share else ""



def dims(spec: Any) -> list[int | None]:
    """Returns the sizes of a tensor, ``None`` for those that vary."""
    return list(spec.shape.as_list())


def value(draw: Draw, leaf: tuple[str, Any]) -> str:
    """Writes an expression over a tensor of the element."""
    text, spec = leaf
    made = [text, f"tf.expand_dims({text}, 0)", f"tf.stack([{text}, {text}])", f"tf.size({text})", f"tf.shape({text})"]
    if spec.dtype.name == "string":
        made += _of_text(draw, text, spec)
    elif spec.dtype.is_bool:
        made += [f"tf.cast({text}, tf.{draw.rng.choice(_CASTS)})", f"tf.where({text}, 1, 0)", f"tf.where({text}, {text}, {text})"]
        made += [f"tf.logical_not({text})", f"tf.math.logical_xor({text}, True)"]
    else:
        made += _of_numbers(draw, text, spec) * 2
    if dims(spec):
        made += _of_axes(draw, text, spec) * 2
    return draw.rng.choice(made)


_CASTS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "float32", "float64")


def _of_numbers(draw: Draw, text: str, spec: Any) -> list[str]:
    number, dtype = draw.small(1, 3), spec.dtype
    made = [
        f"{text} + {number}",
        f"{text} * {number}",
        f"{text} - {text}",
        f"{text} * {text}",
        f"tf.square({text})",
        f"tf.maximum({text}, {number})",
        f"tf.minimum({text}, {number})",
        f"tf.clip_by_value({text}, 1, {number + 2})",
        f"tf.where({text} > {number}, {text}, {text} * 2)",
        f"{text} > {number}",
        f"{text} == {number}",
        f"({text} >= 1) & ({text} < {number + 2})",
        f"tf.cast(tf.clip_by_value({text}, 0, 100), tf.{draw.rng.choice(_CASTS)})",
        f"tf.zeros_like({text})",
        f"tf.ones_like({text})",
        f"tf.add({text}, {number})",
        f"tf.multiply({number}, {text})",
        f"tf.cast({text}, tf.bool)",
    ]
    if not dims(spec):
        made += [f"tf.fill([{number}], {text})", f"tf.cond({text} > {number}, lambda: {text}, lambda: {text} * 2)"]
    if not dtype.is_unsigned:
        made += [f"-{text}", f"tf.abs({text})", f"tf.sign({text})", f"{number} - {text}", f"{text} - {number}"]
    if dtype.is_integer:
        made += [f"{text} % {number + 1}", f"{text} // {number + 1}"]
    if dtype.name in ("int32", "int64"):
        made += [f"{text} / {number}", f"tf.one_hot({text} % 3, 3)", f"tf.math.floormod({text}, {number})", f"tf.pow({text}, 2)"]
        made += [f"tf.as_string({text})", f"tf.math.squared_difference({text}, {number})"]
    if dtype.is_floating:
        made += [f"{text} / 2", f"{text} % 2", f"{text} // 2", f"tf.floor({text})", f"tf.tanh({text})", f"tf.round({text})"]
        made += [f"tf.exp(-tf.abs({text}))", f"tf.sqrt(tf.abs({text}))", f"tf.saturate_cast({text}, tf.uint8)"]
        made += [f"tf.sigmoid({text})", f"tf.math.ceil({text})", f"tf.math.log1p(tf.abs({text}))", f"tf.math.is_nan({text})"]
        made += [f"tf.math.rsqrt(tf.abs({text}) + 1)", f"tf.math.expm1(-tf.abs({text}))"]
    return made


def _of_text(draw: Draw, text: str, spec: Any) -> list[str]:
    made = [
        f"tf.strings.lower({text})",
        f"tf.strings.upper({text})",
        f"tf.strings.strip({text})",
        f"tf.strings.length({text})",
        f"tf.strings.substr({text}, 0, {draw.small()})",
        f"tf.strings.regex_replace({text}, '[aeiou]', '-')",
        f"tf.strings.regex_full_match({text}, '[a-z]+')",
        f"{text} + '!'",
        f"{text} == 'three'",
        f"tf.strings.join([{text}, 'x', {text}], '-')",
    ]
    if dims(spec):
        made += [f"tf.strings.reduce_join({text})", f"tf.strings.reduce_join({text}, axis=-1, separator=' ')", f"tf.strings.reduce_join({text}, axis=0)"]
    return made + [f"tf.strings.split({text})"] * 3 if not dims(spec) else made


def _of_axes(draw: Draw, text: str, spec: Any) -> list[str]:
    sizes = dims(spec)
    made = [f"tf.reshape({text}, [-1])", f"{text}[::-1]", f"{text}[:1]", f"tf.concat([{text}, {text}], 0)", f"tf.transpose({text})"]
    made += [f"tf.reverse({text}, [0])", f"tf.tile({text}, {[2] * len(sizes)})", f"tf.slice({text}, {[0] * len(sizes)}, {[-1] * len(sizes)})"]
    made += [f"{text}[None]", f"{text}[..., :1]", f"tf.rank({text})"]
    if spec.dtype.is_integer or spec.dtype.is_floating:
        made += [f"tf.reduce_sum({text})", f"tf.reduce_sum({text}, axis=0)", f"tf.reduce_sum({text}, axis=-1, keepdims=True)"]
        if all(sizes):
            made += [f"tf.reduce_max({text})", f"tf.reduce_min({text}, axis=-1)", f"tf.argmax({text})", f"tf.argmin({text}, axis=-1)"]
            made += [f"tf.reduce_mean({text})", f"tf.math.reduce_variance({text})"] if spec.dtype.is_floating else []
        if len(sizes) == 1:
            made.append(f"tf.pad({text}, [[1, {draw.small(0, 2)}]])")
    if spec.dtype.is_bool:
        made += [f"tf.reduce_any({text})", f"tf.reduce_all({text}, axis=0)"]
    if sizes[0]:
        made += [f"{text}[0]", f"{text}[-1]", f"tf.gather({text}, [0, 0])", f"tf.stack(tf.unstack({text}))"]
        made += [f"tf.split({text}, {sizes[0]})[0]"]
    if sizes[0] == 1:
        made.append(f"tf.squeeze({text}, 0)")
    return made


def both(draw: Draw) -> str | None:
    """Writes an expression over two tensors of the element, or over one and a constant."""
    (a, spec), (b, other) = draw.leaf(), draw.leaf()
    dtype = spec.dtype
    if dtype.name == "string" or dtype.is_bool:
        return f"tf.where({b} > 2, {b}, {b})" if other.dtype.name not in ("string", "bool") else None
    constant = f"np.{dtype.name}({draw.small()})"
    made = [f"{a} + {constant}", f"tf.maximum({constant}, {a})", f"{constant} * {a}"]
    # Another dtype of constants.
    fits = draw.rng.choice(["int32", "int64", "float32", "float64"])
    made += [f"{a} + np.{fits}({draw.small()})", f"tf.minimum({a}, np.{fits}({draw.small()}))", f"np.array([1, 2], np.{fits})[:1] * {a}"]
    made += [f"{a} > np.{fits}({draw.small()})", f"tf.where(tf.size({b}) > 1, {a}, np.{fits}(3))", f"{a} + [{draw.small()}]"]
    made += [f"tf.stack([{a}, np.{fits}(2)])"] if not dims(spec) else [f"tf.concat([{a}, {a}], 0)"]
    if dtype != other.dtype:
        return draw.rng.choice([*made, f"{a} + tf.cast(tf.size({b}), {a}.dtype)", f"tf.where(tf.size({b}) > 1, {a}, {a} * 2)"])
    shapes = dims(spec), dims(other)
    if shapes[0] == shapes[1] and None not in shapes[0]:
        made += [f"{a} + {b}", f"tf.stack([{a}, {b}])", f"tf.where({a} > {b}, {a}, {b})", f"tf.minimum({a}, {b})", f"{a} == {b}"]
        made += [f"tf.concat([{a}, {b}], 0)"] if shapes[0] else []
    if not shapes[1]:
        made += [f"{a} * {b}", f"{b} - {a}", f"{a} <= {b}"]
    return draw.rng.choice(made)


def condition(draw: Draw, leaf: tuple[str, Any]) -> str:
    """Writes a Boolean scalar over a tensor of the element."""
    text, spec = leaf
    number, has_axes = draw.small(0, 4), bool(dims(spec))
    if spec.dtype.name == "string":
        made = [f"tf.size({text}) > {number}"] if has_axes else [f"tf.strings.length({text}) > {number}", f"{text} != 'three'"]
    elif spec.dtype.is_bool:
        made = [f"tf.reduce_any({text})", f"tf.reduce_all({text})"] if has_axes else [text]
    else:
        scalar = f"tf.reduce_sum({text})" if has_axes else text
        made = [f"{scalar} > {number}", f"{scalar} <= {number}", f"{scalar} != {number}", f"({scalar} < 2) | ({scalar} > {number})"]
        made += [f"{scalar} % 2 == 0"] if spec.dtype.is_integer else []
    return draw.rng.choice(made)


def number(draw: Draw, leaf: tuple[str, Any]) -> str:
    """Writes an ``int64`` scalar over a tensor of the element."""
    text, spec = leaf
    has_axes = bool(dims(spec))
    if spec.dtype.name == "string":
        return f"tf.cast(tf.size({text}), tf.int64)" if has_axes else f"tf.cast(tf.strings.length({text}), tf.int64)"
    if has_axes and spec.dtype.is_bool:
        return f"tf.cast(tf.reduce_any({text}), tf.int64)"
    scalar = f"tf.reduce_sum({text})" if has_axes else text
    return f"tf.cast(tf.clip_by_value({scalar}, 0, 100), tf.int64)" if spec.dtype.is_floating else f"tf.cast({scalar}, tf.int64)"


def structure(draw: Draw) -> str:
    """Writes what a function of ``map`` returns: expressions, perhaps in tuples and dicts."""

    def one() -> str:
        joined = both(draw) if draw.rng.random() < 0.3 else None
        return joined or value(draw, draw.leaf())

    shape = draw.rng.random()
    if shape < 0.55:
        return one()
    if shape < 0.75:
        return f"({', '.join(one() for _ in range(draw.small(2, 3)))})"
    if shape < 0.9:
        return f"{{'a': {one()}, 'b': {one()}}}"
    return f"({{'c': {one()}}}, ({one()}, {draw.rng.choice(['1', '2.5', one()])}))"
