"""Runs programs with TensorFlow and with ``millstream.compat``, in the trainer and through services, and compares what they yield.

Owns the comparison, the search for the smallest program that still disagrees, and its print as a script.
Refuses to know which programs there are: see ``differential``.
"""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from differential import Program, exempted, written
from differential_sources import FILES

import millstream as ms
from millstream import compat
from millstream.service import distribute

__all__ = ["Disagreement", "Outcome", "Ways", "disagreements", "script", "shrunk"]

#: The most elements that are read of any dataset.
LIMIT = 3000

#: The relative error that floats may have, by the bytes of one.
TOLERANCES = {2: 1e-2, 4: 1e-5, 8: 1e-9}


@dataclasses.dataclass(frozen=True)
class Disagreement:
    """A difference between TensorFlow and Millstream.

    Attributes:
        way: Where Millstream ran the program: a name of ``Ways``.
        what: What differs: the spec, the cardinality, the elements, or the error.
        details: What was expected and found.
    """

    way: str
    what: str
    details: str

    def __str__(self) -> str:
        return f"{self.way}: {self.what}: {self.details}"


@dataclasses.dataclass
class Outcome:
    """What became of one program.

    Attributes:
        spec: The spec of an element as plain values; nothing if the dataset was not built.
        count: The cardinality.
        elements: The elements as plain structures of arrays.
        error: The error that ended building or reading.
    """

    spec: Any = None
    count: int | None = None
    elements: list[Any] = dataclasses.field(default_factory=list)
    error: BaseException | None = None


class Ways:
    """TensorFlow, the trainer, and two services that all programs share.

    Args:
        tf: TensorFlow.
        folder: An empty folder, for the files that programs read.
        ours: The module that stands for TensorFlow.
    """

    def __init__(self, tf: Any, folder: Path, ours: Any = compat) -> None:
        self.tf = tf
        self.ours = ours
        for name, text in FILES.items():
            (folder / name).write_text(text)
        self.names = {"np": np, "FOLDER": f"{folder}/"}
        self._services = [ms.local(workers=workers, inline=True) for workers in (1, 3)]

    def __enter__(self) -> Ways:
        return self

    def __exit__(self, *_: object) -> None:
        for service in self._services:
            service.close()

    def program(self, seed: int) -> Program:
        """Generates the program of a seed."""
        return written(seed, self.tf, self.names)

    def run(self, tf: Any, statements: list[str], applied: dict[int, Callable[[Any], Any]] | None = None) -> Outcome:
        """Executes a program.

        Args:
            tf: TensorFlow, or the module that stands for it.
            statements: The program.
            applied: The functions that are applied to the dataset, by the number of executed statements.
        """
        outcome = Outcome()
        scope = {**self.names, "tf": tf}
        try:
            for at, statement in enumerate(statements, 1):
                exec(statement, scope)
                if applied and at in applied:
                    scope["d"] = applied[at](scope["d"])
            dataset = scope["d"]
            outcome.spec, outcome.count = _spec(dataset.element_spec), int(dataset.cardinality())
            for element in itertools.islice(dataset.as_numpy_iterator(), LIMIT):
                outcome.elements.append(_plain(element))
        except Exception as error:
            outcome.error = error
        return outcome

    def through(self, service: int, policy: str) -> Callable[[Any], Any]:
        """Returns what reads a dataset through a service: the one of one worker, or the one of three."""
        return distribute(policy, self._services[service])


def _spec(spec: Any) -> Any:
    if isinstance(spec, dict):
        return {name: _spec(part) for name, part in spec.items()}
    if isinstance(spec, tuple | list):
        return tuple(_spec(part) for part in spec)
    name = spec.dtype.name
    shape = None if spec.shape is None or spec.shape.rank is None else tuple(spec.shape)
    return ("string" if name == "bytes" else name, shape)


def _plain(element: Any) -> Any:
    """Returns an element as numpy arrays, nested in tuples and dicts; text is bytes, as TensorFlow has it."""
    if isinstance(element, dict):
        return {name: _plain(part) for name, part in element.items()}
    if isinstance(element, tuple | list):
        return tuple(_plain(part) for part in element)
    array = np.asarray(element)
    if array.dtype.kind in "OUS":
        items = [item.encode() if isinstance(item, str) else item for item in np.array(element, object).ravel().tolist()]
        text = np.empty(len(items), object)
        text[:] = items
        return text.reshape(array.shape)
    return array


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_same(a[name], b[name]) for name in a)
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray) or a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.kind == "f":
        tolerance = TOLERANCES[a.dtype.itemsize]
        return bool(np.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True))
    return bool(np.array_equal(a, b))


def _key(element: Any) -> str:
    """Returns what elements are sorted by; floats count with few digits, which leaves room for their tolerance."""
    if isinstance(element, dict):
        return "{" + ",".join(f"{name}:{_key(element[name])}" for name in sorted(element)) + "}"
    if isinstance(element, tuple):
        return f"({','.join(map(_key, element))})"
    items = element.ravel().tolist()
    if element.dtype.kind == "f":
        items = [f"{item + 0.0:.3g}" for item in items]
    return f"{element.dtype}{element.shape}{items}"


def _difference(expected: list[Any], found: list[Any], is_ordered: bool) -> str | None:
    if not is_ordered:
        expected, found = sorted(expected, key=_key), sorted(found, key=_key)
        # Floats that differ within their tolerance may be sorted otherwise.
        found = _aligned(expected, found)
    at = next((at for at, pair in enumerate(zip(expected, found, strict=False)) if not _same(*pair)), None)
    if at is None and len(expected) == len(found):
        return None
    if at is None:
        at = min(len(expected), len(found))
    shown = [f"{elements[at]!r}" if at < len(elements) else "the end" for elements in (expected, found)]
    return f"expected {len(expected)} elements, found {len(found)}; at {at} expected {shown[0]:.200}, found {shown[1]:.200}"


def _aligned(expected: list[Any], found: list[Any]) -> list[Any]:
    """Returns the elements found in the order of equal expected ones, and the rest after them."""
    if all(map(_same, expected, found)):
        return found
    rest, ordered = list(found), []
    for element in expected:
        at = next((at for at, other in enumerate(rest) if _same(element, other)), None)
        if at is None:
            break
        ordered.append(rest.pop(at))
    return ordered + rest


def _is_kind(found: BaseException, expected: BaseException, tf: Any) -> bool:
    """Returns whether an error is of the class that TensorFlow has for it: by name, or a class of Python's."""
    if isinstance(expected, tf.errors.OpError):
        return type(expected).__name__ in [base.__name__ for base in type(found).__mro__]
    return isinstance(found, type(expected))


def _errors(expected: Outcome, found: Outcome, tf: Any) -> str | None:
    theirs, ours = expected.error, found.error
    if theirs is None and ours is None:
        return None
    if theirs is not None and ours is not None and _is_kind(ours, theirs, tf):
        return None
    return f"expected {_said(theirs)}, found {_said(ours)}"


def _said(error: BaseException | None) -> str:
    return "no error" if error is None else f"{type(error).__name__}: {' '.join(str(error).split()):.300}"


def _compared(way: str, expected: Outcome, found: Outcome, tf: Any, is_ordered: bool, times: int = 1) -> Iterator[Disagreement]:
    """Compares two outcomes: their errors, else their elements."""
    difference = _errors(expected, found, tf)
    if difference is not None:
        yield Disagreement(way, "error", difference)
    elif expected.error is None:
        difference = _difference(expected.elements * times, found.elements, is_ordered)
        if difference is not None:
            yield Disagreement(way, "elements", difference)


def _in_trainer(ways: Ways, program: Program, expected: Outcome) -> Iterator[Disagreement]:
    found = ways.run(ways.ours, program.statements())
    yield from _compared("local", expected, found, ways.tf, program.is_ordered)
    strange = next((element for element in found.elements if not _conforms(element, found.spec)), None)
    if strange is not None:
        yield Disagreement("local", "spec", f"expected elements of {found.spec}, found {strange!r:.200}")
    if expected.spec is not None and found.spec is not None:
        if not _is_narrower(found.spec, expected.spec):
            yield Disagreement("local", "spec", f"expected {expected.spec}, found {found.spec}")
        if expected.count != found.count and not _counts_better(expected, found):
            yield Disagreement("local", "cardinality", f"expected {expected.count}, found {found.count}")
    if expected.error is not None and found.error is not None and found.spec is not None and program.is_ordered:
        difference = _difference(expected.elements, found.elements, True)
        if difference is not None:
            yield Disagreement("local", "elements before the error", difference)


def _is_narrower(found: Any, expected: Any) -> bool:
    """Returns whether a spec is the expected one, but for dimensions that are known where TensorFlow does not know them."""
    if isinstance(found, dict) and isinstance(expected, dict):
        return found.keys() == expected.keys() and all(_is_narrower(found[name], expected[name]) for name in expected)
    if not isinstance(found, tuple) or not isinstance(expected, tuple) or len(found) != len(expected):
        return False
    if expected and isinstance(expected[0], str) and isinstance(found[0], str):
        (dtype, dims), (wanted, known) = found, expected
        if known is None or dims is None:
            return dtype == wanted and known is None
        return dtype == wanted and len(dims) == len(known) and all(b is None or a == b for a, b in zip(dims, known, strict=True))
    return all(map(_is_narrower, found, expected))


def _conforms(element: Any, spec: Any) -> bool:
    """Returns whether an element has the dtypes and the shapes of its spec."""
    if isinstance(element, dict):
        return element.keys() == spec.keys() and all(_conforms(element[name], spec[name]) for name in element)
    if isinstance(element, tuple):
        return len(element) == len(spec) and all(map(_conforms, element, spec))
    dtype, dims = spec
    found = "string" if element.dtype == object else element.dtype.name
    fits = dims is None or (len(dims) == element.ndim and all(size in (None, real) for size, real in zip(dims, element.shape, strict=True)))
    return found == dtype and fits


def _counts_better(expected: Outcome, found: Outcome) -> bool:
    """Returns whether Millstream knows a number that TensorFlow does not know, or for which TensorFlow has a wrong one."""
    if expected.error is not None:
        return expected.count == compat.data.UNKNOWN_CARDINALITY
    return found.count == len(expected.elements)


def _through_services(ways: Ways, program: Program, expected: Outcome) -> Iterator[Disagreement]:
    """Compares what a service of one worker and a service of three yield. One of them is dealt splits, by turns."""
    statements = program.statements()
    dealt = program.seed % 2
    if dealt == 0:
        # Operations after `place` run in the trainer. Through a service, the number of elements is not known.
        first = max(at for at, statement in enumerate(statements, 1) if at == 1 or "pad_to_cardinality" in statement)
        place = random.Random(program.seed).randint(first, len(statements))
        found = ways.run(ways.ours, statements, {place: ways.through(0, "parallel_epochs")})
        yield from _compared(f"one worker after statement {place}", expected, found, ways.tf, program.is_ordered)
    else:
        found = ways.run(ways.ours, statements, {len(statements): ways.through(1, "parallel_epochs")})
        yield from _compared("three workers", expected, found, ways.tf, False, times=3)
    if not program.is_dealt:
        return
    count = 1 + (program.dealt if dealt else program.divisible)
    if count < len(statements):
        expected = ways.run(ways.tf, statements[:count])
    found = ways.run(ways.ours, statements[:count], {count: ways.through(1 - dealt, "distributed_epoch")})
    is_ordered = program.is_ordered and dealt == 1
    yield from _compared(f"splits for {1 if dealt else 3} workers after statement {count}", expected, found, ways.tf, is_ordered)


def disagreements(ways: Ways, program: Program, *, all_ways: bool = True) -> list[Disagreement]:
    """Runs a program in every way.

    Args:
        ways: How programs are run.
        program: The program.
        all_ways: Whether services take part.

    Returns:
        The disagreements that no exception covers.
    """
    expected = ways.run(ways.tf, program.statements())
    found = list(_in_trainer(ways, program, expected))
    if all_ways:
        found += _through_services(ways, program, expected)
    return [disagreement for disagreement in found if exempted(program, str(disagreement)) is None]


def shrunk(ways: Ways, program: Program, disagreement: Disagreement) -> tuple[Program, Disagreement]:
    """Removes operations as long as the program still disagrees in the same way about the same.

    Returns:
        The smallest program found, and its disagreement.
    """
    at = 0
    while at < len(program.lines):
        smaller = program.without(at)
        found = disagreements(ways, smaller, all_ways=disagreement.way != "local")
        kind = (disagreement.way.split(" after ")[0], disagreement.what)
        again = next((other for other in found if (other.way.split(" after ")[0], other.what) == kind), None)
        if again is None:
            at += 1
        else:
            program, disagreement, at = smaller, again, 0
    return program, disagreement


def script(program: Program, disagreement: Disagreement) -> str:
    """Writes a program that a person can run."""
    body = "\n    ".join(program.statements())
    files = "".join(f'open(FOLDER + {name!r}, "w").write({text!r})\n' for name, text in FILES.items() if name in body)
    folder = f'import tempfile\n\nFOLDER = tempfile.mkdtemp() + "/"\n{files}' if files else ""
    return f'''
# Seed {program.seed}. {disagreement}
import numpy as np
import tensorflow
{folder}
import millstream as ms
from millstream import compat


def pipeline(tf):
    {body}
    return d


for tf in (tensorflow, compat):
    try:
        dataset = pipeline(tf)
        print(dataset.element_spec, int(dataset.cardinality()))
        print(list(dataset.as_numpy_iterator()))
    except Exception as error:
        print(type(error), error)
# Through a service: pipeline(compat).apply(ms.service.distribute("parallel_epochs", ms.local(workers=1)))
'''
