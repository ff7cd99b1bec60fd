"""Random pipelines of tf.data, each a program of one statement a line, that TensorFlow and ``millstream.compat`` can both run.

Owns which sources, operations and functions a program may have, how a program is written down, and the table of reasoned exceptions.
Refuses to know how programs are executed and compared: see ``differential_outcomes``.

The generator asks TensorFlow for the spec of the dataset after each line, so that most lines are valid. A seed names a program.
"""

from __future__ import annotations

import dataclasses
import random
import re
from collections.abc import Callable
from typing import Any

from differential_functions import Draw, condition, dims, number, structure, value
from differential_mistakes import WRONG
from differential_sources import source

__all__ = ["EXCEPTIONS", "OPERATIONS", "Exemption", "Line", "Program", "exempted", "written"]

#: The most operations of a program, and the most elements that its generator lets a line yield.
OPERATIONS_MAX, ELEMENTS_MAX = 8, 120

#: The share of lines that are mistakes on purpose.
MISTAKES = 0.03


@dataclasses.dataclass(frozen=True)
class Line:
    """One operation of a program.

    Attributes:
        name: The operation's name in ``OPERATIONS``.
        text: The statement, which reads ``d`` and assigns ``d``.
    """

    name: str
    text: str


@dataclasses.dataclass(frozen=True)
class Program:
    """A source and the operations on it.

    Attributes:
        seed: The seed that the program was generated from.
        source: The expression of the source.
        lines: The operations in their order.
    """

    seed: int
    source: str
    lines: tuple[Line, ...]

    @property
    def is_ordered(self) -> bool:
        """Whether upstream promises the order of the elements."""
        return not any(line.name in UNORDERED for line in self.lines)

    @property
    def divisible(self) -> int:
        """The number of leading operations that compute each element from one element of the source."""
        return min(self.dealt, next((at for at, line in enumerate(self.lines) if line.name not in DIVISIBLE), len(self.lines)))

    @property
    def is_dealt(self) -> bool:
        """Whether splits of the source can be dealt out. A generator has no positions."""
        return "from_generator" not in self.source

    @property
    def dealt(self) -> int:
        """The number of leading operations that a dataset may have whose splits are dealt out.

        An endless repetition of nothing does not end there: neither here nor upstream, because another worker may find an element.
        """
        return next((at for at, line in enumerate(self.lines) if re.search(r"\.repeat\((-\d)?\)", line.text)), len(self.lines))

    def statements(self) -> list[str]:
        """Returns the statements, of which the first makes the source."""
        return [f"d = {self.source}", *(line.text for line in self.lines)]

    def without(self, at: int) -> Program:
        """Returns the program without one operation."""
        return dataclasses.replace(self, lines=self.lines[:at] + self.lines[at + 1 :])


def _parallel(draw: Draw) -> str:
    return draw.rng.choice(["", "", "", ", num_parallel_calls=2", ", num_parallel_calls=tf.data.AUTOTUNE"])


def _is_sliceable(draw: Draw) -> bool:
    """Whether all tensors of the element have one leading dimension, as far as the spec says."""
    shapes = [dims(spec) for _, spec in draw.leaves()]
    if not all(shapes):
        return False
    leading = {shape[0] for shape in shapes}
    return len(leading) == 1 and (None not in leading or len(shapes) == 1)


def _is_regular(draw: Draw) -> bool:
    """Whether all elements have one shape, as far as the spec says."""
    return all(None not in dims(spec) for _, spec in draw.leaves())


def _leading(draw: Draw) -> int:
    return dims(draw.leaves()[0][1])[0] or 4


# Operations. Each writes a statement's right side and multiplies the bound, or finds that it does not fit.

Operation = Callable[[Draw], str | None]

#: All operations by name, with the weight of each.
OPERATIONS: dict[str, tuple[float, Operation]] = {}

#: After these, elements come in an order that upstream does not promise.
UNORDERED = {"shuffle", "sample_from_datasets"}

#: What may follow such an operation.
ORDERLESS = {"map", "map_that_may_fail", "filter", "flat_map", "unbatch", "cache", "prefetch", "repeat", "shuffle"}

#: Each element of these comes from one element of the source, so that a service may divide the source.
DIVISIBLE = {"map", "filter", "flat_map", "interleave", "unbatch", "prefetch", "shuffle", "repeat"}


def operation(weight: float = 1.0) -> Callable[[Operation], Operation]:
    """Lists a function of this module's as the operation of its name, without the underscore."""

    def listed(function: Operation) -> Operation:
        OPERATIONS[function.__name__.removeprefix("_")] = (weight, function)
        return function

    return listed


@operation(5)
def _map(draw: Draw) -> str:
    return f"d.map({draw.function(structure(draw))}{_parallel(draw)})"


@operation(1.2)
def _map_that_may_fail(draw: Draw) -> str | None:
    text, spec = draw.leaf()
    if dims(spec) or spec.dtype.name not in ("int32", "int64"):
        return None
    made = draw.rng.choice([f"12 // ({text} - {draw.small(0, 9)})", f"12 % {text}", f"tf.gather([3, 4, 5], tf.maximum({text}, 0))"])
    return f"d.map({draw.function(made)}{_parallel(draw)}){draw.maybe('.ignore_errors()', 0.5)}"


@operation(0.5)
def _apply(draw: Draw) -> str:
    size = draw.small()
    made = [
        "tf.data.experimental.enumerate_dataset(3)",
        f"tf.data.experimental.take_while({draw.function(condition(draw, draw.leaf()))})",
        "tf.data.experimental.ignore_errors()",
    ]
    if isinstance(draw.spec, dict):
        made += [f"tf.data.experimental.pad_to_cardinality({draw.small(0, 12)})"] * 2
    if _is_regular(draw):
        made += [f"tf.data.experimental.map_and_batch({draw.function(draw.element)}, {size}, drop_remainder=True)"]
    return f"d.apply({draw.rng.choice(made)})"


@operation(2)
def _filter(draw: Draw) -> str:
    return f"d.filter({draw.function(condition(draw, draw.leaf()))})"


@operation(2)
def _batch(draw: Draw) -> str | None:
    if not _is_regular(draw) and draw.rng.random() < 0.9:
        return None
    return f"d.batch({draw.small()}{draw.maybe(', drop_remainder=True')}{draw.maybe(', num_parallel_calls=2', 0.1)})"


@operation(1.5)
def _padded_batch(draw: Draw) -> str:
    leaves, size, rest = draw.leaves(), draw.small(), draw.maybe(", drop_remainder=True")
    padding = draw.rng.random()
    if len(leaves) == 1 and isinstance(draw.spec, draw.tf.TensorSpec) and padding < 0.6:
        known, dtype = dims(leaves[0][1]), leaves[0][1].dtype
        if padding < 0.3:
            return f"d.padded_batch({size}, padded_shapes={[size and size + draw.small(0, 2) for size in known]}{rest})"
        item = {"string": "'-'", "bool": "True"}.get(dtype.name, "7.0" if dtype.is_floating else "7")
        return f"d.padded_batch({size}, padding_values={item}{rest})"
    return f"d.padded_batch({size}{rest})"


@operation(2)
def _unbatch(draw: Draw) -> str | None:
    # TensorFlow 2.21 ends the process where the rows of an element are empty.
    if not _is_sliceable(draw) or not all(all(dims(spec)[1:]) for _, spec in draw.leaves()):
        return None
    draw.bound *= _leading(draw)
    return "d.unbatch()"


@operation(1.5)
def _take(draw: Draw) -> str:
    return f"d.take({draw.rng.choice([-1, 0, 1, 2, 3, 5, 8, 100])})"


@operation(1.5)
def _skip(draw: Draw) -> str:
    return f"d.skip({draw.rng.choice([-1, 0, 1, 2, 3, 5])})"


@operation(1.5)
def _repeat(draw: Draw) -> str:
    count = draw.rng.choice([0, 1, 2, 2, 2, 3, -1])
    if count < 0 and draw.is_ordered:
        draw.bound = 17
        return f"d.repeat().take({draw.bound})"
    draw.bound *= abs(count)
    return f"d.repeat({abs(count)})"


@operation(1)
def _shuffle(draw: Draw) -> str:
    reshuffles = draw.maybe(f", reshuffle_each_iteration={draw.rng.random() < 0.5}")
    return f"d.shuffle({draw.rng.choice([1, 2, 5, 100])}{draw.maybe(', seed=3', 0.5)}{reshuffles})"


@operation(1)
def _shard(draw: Draw) -> str:
    count = draw.small(1, 3)
    return f"d.shard({count}, {draw.rng.randrange(count)})"


@operation(1.5)
def _zip(draw: Draw) -> str:
    return draw.rng.choice(
        [
            "tf.data.Dataset.zip((d, d))",
            "tf.data.Dataset.zip(d, d.skip(1))",
            "tf.data.Dataset.zip((d, tf.data.Dataset.range(5)))",
            "tf.data.Dataset.zip({'a': d, 'b': tf.data.Dataset.range(3).repeat()})",
            "tf.data.Dataset.zip((d.take(4), {'c': d.skip(2)}))",
        ]
    )


@operation(1)
def _concatenate(draw: Draw) -> str:
    draw.bound *= 2
    made = ["d.concatenate(d)", "d.concatenate(d.take(2))", "d.skip(1).concatenate(d.take(1))"]
    made += ["d.batch(2).concatenate(d.batch(3))", "d.batch(2).concatenate(d.batch(3, drop_remainder=True))"] if _is_regular(draw) else []
    return draw.rng.choice(made)


@operation(1)
def _enumerate(draw: Draw) -> str:
    return f"d.enumerate({draw.rng.choice(['', '0', '5', '-3'])})"


@operation(1.5)
def _window(draw: Draw) -> str | None:
    spec = draw.spec
    size = draw.small()
    shift = draw.rng.choice(["", f", shift={draw.small(1, 3)}"])
    window = f"d.window({size}{shift}{draw.maybe(', stride=2')}{draw.maybe(', drop_remainder=True')})"
    draw.bound *= size
    if isinstance(spec, draw.tf.TensorSpec):
        bodies = ["w", "w.take(1)", "w.skip(1)"] + ([f"w.batch({size})", f"w.batch({size}, drop_remainder=True)", "w.padded_batch(2)"] if _is_regular(draw) else [])
        return f"{window}.flat_map(lambda w: {draw.rng.choice(bodies)})"
    if isinstance(spec, tuple) and all(isinstance(part, draw.tf.TensorSpec) for part in spec) and _is_regular(draw):
        names = [f"w{index}" for index in range(len(spec))]
        return f"{window}.flat_map(lambda {', '.join(names)}: tf.data.Dataset.zip(({', '.join(f'{name}.batch({size})' for name in names)},)))"
    if isinstance(spec, dict) and all(isinstance(part, draw.tf.TensorSpec) for part in spec.values()):
        return f"{window}.flat_map(lambda w: tf.data.Dataset.zip({{{', '.join(f'{name!r}: w[{name!r}].take(2)' for name in spec)}}}))"
    return None


def _opened(draw: Draw) -> str:
    """Writes a dataset that a function of an element opens."""
    count = draw.small(1, 3)
    opened = [(f"tf.data.Dataset.from_tensors({draw.element}).repeat({count})", count)]
    opened += [(f"tf.data.Dataset.from_tensors({draw.element})", 1), (f"tf.data.Dataset.range({count})", count)]
    leaf = draw.leaf()
    opened += [(f"tf.data.Dataset.from_tensors({value(draw, leaf)})", 1)]
    if isinstance(draw.spec, draw.tf.TensorSpec):
        opened += [("tf.data.Dataset.range(2).flat_map(lambda y: tf.data.Dataset.from_tensors(y).repeat(2))", 4)]
        opened += [(f"tf.data.Dataset.from_tensors(x).map(lambda y: {value(draw, ('y', draw.spec))}).repeat(2)", 2)]
    if dims(leaf[1]):
        opened += [(f"tf.data.Dataset.from_tensor_slices({leaf[0]})", dims(leaf[1])[0] or 4)] * 2
    if not dims(leaf[1]):
        opened += [(f"tf.data.Dataset.from_tensor_slices([{leaf[0]}, {leaf[0]}]).enumerate()", 2)]
    if _is_sliceable(draw):
        opened += [(f"tf.data.Dataset.from_tensor_slices({draw.element}).take(2)", 2)] * 2
    opened += _within(draw, leaf) if draw.rng.random() < 0.5 else []
    text, times = draw.rng.choice(opened)
    draw.bound *= times
    return text


def _within(draw: Draw, leaf: tuple[str, Any]) -> list[tuple[str, int]]:
    """Writes datasets whose functions use the outer element, too."""
    outer, count = number(draw, leaf), draw.small(1, 3)
    inner = f"tf.data.Dataset.range({count})"
    return [
        (f"{inner}.map(lambda y: (y, {leaf[0]}))", count),
        (f"{inner}.map(lambda y: y * 3 + {outer})", count),
        (f"{inner}.map(lambda y: {{'e': {draw.element}, 'y': y}})", count),
        (f"{inner}.filter(lambda y: y < {outer})", count),
        (f"{inner}.enumerate().take_while(lambda y, z: y + z < {outer})", count),
        (f"{inner}.flat_map(lambda y: tf.data.Dataset.from_tensors({leaf[0]}).repeat(2))", 2 * count),
        (f"{inner}.flat_map(lambda y: tf.data.Dataset.range(2).map(lambda z: (z + y, {outer})))", 2 * count),
        (f"{inner}.scan(np.int64(0), lambda s, y: (s + {outer}, (s, y)))", count),
        (f"{inner}.batch(2).map(lambda y: y + {outer})", count),
        (f"tf.data.Dataset.range(tf.clip_by_value({outer}, -2, {count}))", count),
        (f"tf.data.Dataset.range(tf.clip_by_value({outer}, -2, 2), {count}, {draw.small(1, 2)}).map(lambda y: y - {outer})", count + 2),
        (f"tf.data.Dataset.from_tensors({draw.element}).repeat({count}).enumerate().map(lambda y, *z: (y, {outer}, z))", count),
    ]


@operation(1.5)
def _flat_map(draw: Draw) -> str:
    return f"d.flat_map({draw.function(_opened(draw))})"


@operation(1.5)
def _interleave(draw: Draw) -> str:
    block = draw.maybe(f", block_length={draw.small()}", 0.6)
    return f"d.interleave({draw.function(_opened(draw))}, cycle_length={draw.small()}{block}{_parallel(draw)})"


@operation(1)
def _scan(draw: Draw) -> str:
    target = draw.leaf()
    # A tuple is one argument of this function.
    target = (re.sub(r"^x(\d+)", r"x[\1]", target[0]), target[1])
    counted = number(draw, target)
    made = draw.rng.choice([f"s + {counted}", "s", f"(s, {target[0]})", f"{{'s': s, 'x': {counted}}}"])
    return f"d.scan(np.int64({draw.small(0, 3)}), lambda s, x: (s + {counted}, {made}))"


@operation(0.6)
def _reduce(draw: Draw) -> str:
    target = draw.leaf()
    target = (re.sub(r"^x(\d+)", r"x[\1]", target[0]), target[1])
    counted = number(draw, target)
    made = draw.rng.choice([("np.int64(0)", f"s + {counted}"), ("(np.int64(0), np.int64(9))", f"(s[0] + 1, tf.minimum(s[1], {counted}))")])
    return f"tf.data.Dataset.from_tensors(d.reduce({made[0]}, lambda s, x: {made[1]}))"


@operation(0.6)
def _with_options(draw: Draw) -> str:
    return f"d.with_options(tf.data.Options()){draw.maybe('.prefetch(1)')}"


@operation(1)
def _take_while(draw: Draw) -> str:
    return f"d.take_while({draw.function(condition(draw, draw.leaf()))})"


@operation(1)
def _unique(draw: Draw) -> str | None:
    spec = draw.spec
    if not isinstance(spec, draw.tf.TensorSpec) or dims(spec) or spec.dtype.name not in ("int32", "int64", "string"):
        return None
    return "d.unique()"


@operation(1)
def _cache(draw: Draw) -> str:
    return "d.cache()"


@operation(1)
def _prefetch(draw: Draw) -> str:
    return f"d.prefetch({draw.rng.choice(['1', '3', 'tf.data.AUTOTUNE'])})"


@operation(2)
def _rebatch(draw: Draw) -> str | None:
    if not _is_sliceable(draw):
        return None
    draw.bound *= _leading(draw)
    return f"d.rebatch({draw.rng.choice(['1', '2', '3', '[1, 2]'])}{draw.maybe(', drop_remainder=True')})"


@operation(1.5)
def _group_by_window(draw: Draw) -> str:
    key = draw.function(f"{number(draw, draw.leaf())} % {draw.small(1, 3)}")
    size = draw.small()
    bodies = ["w", "w.take(2)"]
    if _is_regular(draw):
        bodies += [f"w.batch({size})", f"w.batch({size}, drop_remainder=True)", "w.padded_batch(2)"]
    sized = f"window_size={size}" if draw.rng.random() < 0.7 else f"window_size_func=lambda k: k + {size}"
    return f"d.group_by_window({key}, lambda k, w: {draw.rng.choice(bodies)}, {sized})"


@operation(1.5)
def _bucket_by_sequence_length(draw: Draw) -> str | None:
    text, spec = draw.leaf()
    if len(dims(spec)) != 1:
        return None
    first, second, size = draw.small(1, 2), draw.small(3, 4), draw.small()
    how = draw.rng.choice(["", ", drop_remainder=True", ", no_padding=True" if _is_regular(draw) else ""])
    length = draw.function(f"tf.shape({text})[0]")
    return f"d.bucket_by_sequence_length({length}, [{first}, {second}], [{size}, {draw.small()}, {draw.small()}]{how})"


@operation(1)
def _sample_from_datasets(draw: Draw) -> str:
    draw.bound *= 2
    return draw.rng.choice(
        [
            "tf.data.Dataset.sample_from_datasets([d, d.take(3)], seed=1)",
            "tf.data.Dataset.sample_from_datasets([d, d], weights=[0.5, 0.5], seed=1, stop_on_empty_dataset=False)",
            "tf.data.Dataset.sample_from_datasets([d, d.skip(1)], weights=[0.0, 1.0], seed=1, stop_on_empty_dataset=True)",
            "tf.data.Dataset.sample_from_datasets([d.take(0), d], weights=[1.0, 0.0], stop_on_empty_dataset=True)",
            "tf.data.Dataset.sample_from_datasets([d.take(2), d], weights=[1.0, 0.0], stop_on_empty_dataset=False)",
            "tf.data.Dataset.sample_from_datasets([d], stop_on_empty_dataset=True)",
        ]
    )


@operation(1)
def _choose_from_datasets(draw: Draw) -> str:
    draw.bound *= 2
    choices = [draw.rng.randrange(2) for _ in range(draw.small(0, 9))]
    stops = draw.rng.choice(["", ", stop_on_empty_dataset=True", ", stop_on_empty_dataset=False"])
    return (
        "tf.data.Dataset.choose_from_datasets([d, d.take(2)], "
        f"tf.data.Dataset.from_tensor_slices(np.array({choices}, np.int64)){stops})"
    )


@operation(0)
def _mistake(draw: Draw) -> str:
    return draw.rng.choice(WRONG)


# Programs.


def _line(draw: Draw, length: int, at: int) -> Line | None:
    if at == length - 1 and draw.is_ordered and draw.rng.random() < MISTAKES * length:
        return Line("mistake", f"d = {_mistake(draw)}")
    names = [name for name in OPERATIONS if draw.is_ordered or name in ORDERLESS]
    name = draw.rng.choices(names, [OPERATIONS[name][0] for name in names])[0]
    text = OPERATIONS[name][1](draw)
    return None if text is None else Line(name, f"d = {text}")


def written(seed: int, tf: Any, names: dict[str, Any]) -> Program:
    """Generates the program of a seed.

    Args:
        seed: The seed.
        tf: TensorFlow, which says what each line yields.
        names: The names that statements may use besides ``tf`` and ``d``.

    Returns:
        The program. TensorFlow refuses at most its last line.
    """
    rng = random.Random(seed)
    text, bound = source(rng)
    scope = {**names, "tf": tf}
    draw = Draw(rng, tf, eval(text, scope), bound)
    lines: list[Line] = []
    length = rng.randint(1, OPERATIONS_MAX)
    while len(lines) < length:
        before = draw.bound
        line = _line(draw, length, len(lines))
        if line is None or draw.bound > ELEMENTS_MAX:
            draw.bound = before
            continue
        scope["d"] = draw.dataset
        try:
            exec(line.text, scope)
        except Exception:
            if line.name == "mistake":
                lines.append(line)
                break
            draw.bound = before
            continue
        lines.append(line)
        draw.dataset = scope["d"]
        draw.is_ordered = draw.is_ordered and line.name not in UNORDERED
    return Program(seed, text, tuple(lines))


# Differences that stay.


@dataclasses.dataclass(frozen=True)
class Exemption:
    """A disagreement that is right as it is.

    Attributes:
        reason: The difference, in the words of docs/design/differences-from-tf-data.md.
        program: A pattern that a statement of the program must match.
        disagreement: A pattern that the description of the disagreement must match.
    """

    reason: str
    program: str
    disagreement: str


#: All reasoned exceptions. Each has a sentence in docs/design/differences-from-tf-data.md.
EXCEPTIONS: tuple[Exemption, ...] = (
    Exemption(
        "Millstream refuses a constant that does not fit the dtype of the tensor. TensorFlow truncates the constant.",
        r"x \+ np\.float32\(1\.5\)",
        r"error: expected no error, found InvalidDtypeError",
    ),
    Exemption(
        "An element that exceeds its padded shape raises `InvalidArgumentError`. TensorFlow raises `DataLossError`.",
        r"padded_shapes=",
        r"error: expected DataLossError: .*Attempted to pad to a smaller size.*found InvalidArgumentError",
    ),
    Exemption(
        "Millstream drops an incomplete last batch at once. TensorFlow stacks its rows first, and fails if their shapes differ.",
        r"batch\(\d, drop_remainder=True",
        r"error: expected InvalidArgumentError: .*Cannot add tensor to the batch.*, found no error",
    ),
    Exemption(
        "Rows of different shapes cannot be stacked, although they have equally many items. TensorFlow reshapes them.",
        r"batch\(",
        r"error: expected no error, found InvalidArgumentError: .*cannot stack .* to be \w+\[[^]]*\b0\b[^]]*\] as row 0 is, found \w+\[[^]]*\b0\b",
    ),
    Exemption(
        "`rebatch` of rows with different shapes raises `InvalidArgumentError`. TensorFlow raises `FailedPreconditionError`.",
        r"\.rebatch\(",
        r"error: expected FailedPreconditionError: .*MaybeMoveContiguousSlices.*, found InvalidArgumentError: .*rebatch: cannot join",
    ),
    Exemption(
        "A failed element raises its error although no window contains the element. TensorFlow skips such an element.",
        r"\.window\(\d, shift=\d",
        r"error: expected no error, found InvalidArgumentError: .*compute: ",
    ),
    Exemption(
        "The spec of a reshaped tensor without items has an unknown size. TensorFlow states the size 0.",
        r"tf\.reshape\(",
        r"^local: spec: expected .*\(0,\).*, found .*\(None,\)",
    ),
    Exemption(
        "Both take an endless repetition for infinite, although it may be empty. Only Millstream counts what `flat_map` makes of it.",
        r"\.repeat\(\)\.take",
        r"^local: cardinality: expected -2, found \d+$",
    ),
    Exemption(
        "Negative weights, and weights that are all 0, are refused when the dataset is built. TensorFlow accepts them.",
        r"weights=\[(-1\.0|0\.0, 0\.0)\]",
        r"error: expected no error, found InvalidArgumentError: operation .sample",
    ),
    Exemption(
        "A window size of 0 is refused when the dataset is built. TensorFlow refuses it when an element is read.",
        r"window_size=0",
        r"error: expected no error, found InvalidArgumentError: .* is not within",
    ),
    Exemption(
        "`assert_cardinality` counts all elements. With `distributed_epoch` no task sees all elements, so nothing is checked.",
        r"assert_cardinality",
        r"^splits for .*: error: expected FailedPreconditionError: .* elements.*, found no error",
    ),
    Exemption(
        "TensorFlow has no CPU kernel of some operations for some dtypes. Millstream computes them.",
        r"",
        r"error: expected \w+: .*(No OpKernel was registered|Could not find device for node|no registered kernel).*, found no error",
    ),
    Exemption(
        "Datasets chosen from others can be concatenated if a shape varies. TensorFlow 2.21 fails.",
        r"choose_from_datasets|sample_from_datasets",
        r"error: expected InvalidArgumentError: .*Incompatible shapes at component \d+: expected .* but got .*, found no error",
    ),
    Exemption(
        "A shuffled dataset that is repeated 0 times is empty. TensorFlow 2.21 fails, because it joins both operations.",
        r"\.repeat\(0\)",
        r"error: expected InvalidArgumentError: .*count must be greater than zero or equal to -1.*ShuffleAndRepeat",
    ),
)


def exempted(program: Program, disagreement: str) -> Exemption | None:
    """Returns the exception that covers a disagreement, if one does."""
    statements = program.statements()
    for known in EXCEPTIONS:
        if re.search(known.disagreement, disagreement) and any(re.search(known.program, statement) for statement in statements):
            return known
    return None
