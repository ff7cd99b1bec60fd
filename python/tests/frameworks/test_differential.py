"""Random pipelines yield with ``millstream.compat`` what they yield with TensorFlow, in the trainer and through services.

``MILLSTREAM_DIFFERENTIAL_CASES`` sets the number of pipelines, and ``MILLSTREAM_DIFFERENTIAL_SEED`` the first seed. A pipeline that
disagrees is made as small as possible, and printed as a program.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

tf = pytest.importorskip("tensorflow")

from differential import EXCEPTIONS, OPERATIONS, Line, Program, exempted  # noqa: E402
from differential_mistakes import WRONG  # noqa: E402
from differential_outcomes import Ways, disagreements, script, shrunk  # noqa: E402
from differential_sources import FILES  # noqa: E402

from millstream import compat  # noqa: E402

CASES = int(os.environ.get("MILLSTREAM_DIFFERENTIAL_CASES", "100"))
FIRST = int(os.environ.get("MILLSTREAM_DIFFERENTIAL_SEED", "0"))

#: The seeds of one test, which must end long before the watchdog does.
BLOCK = 25


@pytest.fixture(scope="module")
def ways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ways]:
    # Functions are compiled from text, which AutoGraph cannot read and need not read.
    tf.autograph.set_verbosity(0)
    tf.get_logger().setLevel("ERROR")
    with Ways(tf, tmp_path_factory.mktemp("files")) as made:
        yield made


def blocks() -> list[range]:
    return [range(first, min(first + BLOCK, FIRST + CASES)) for first in range(FIRST, FIRST + CASES, BLOCK)]


def scripts(ways: Ways, program: Program) -> list[str]:
    """Runs a program in every way, and returns the scripts of the smallest programs that disagree."""
    return [script(*shrunk(ways, program, found)) for found in disagreements(ways, program)[:1]]


@pytest.mark.parametrize("seeds", blocks(), ids=lambda seeds: f"seeds {seeds[0]} to {seeds[-1]}")
def test_random_pipelines_agree_with_tensorflow(ways: Ways, seeds: range) -> None:
    found = []
    for seed in seeds:
        # Of a test that hangs, the last line says where.
        print("seed", seed, flush=True)
        found += scripts(ways, ways.program(seed))
    assert not found, "\n".join(found)


@pytest.mark.parametrize("source", ["tf.data.Dataset.range(4)", "tf.data.Dataset.from_tensor_slices(([1.5, 2.5], ['a', 'b']))"])
def test_mistakes_fail_as_in_tensorflow(ways: Ways, source: str) -> None:
    found = []
    for text in WRONG:
        program = Program(0, source, (Line("mistake", f"d = {text}"),))
        found += [script(program, disagreement) for disagreement in disagreements(ways, program, all_ways=False)]
    assert not found, "\n".join(found)


def test_hundred_seeds_use_every_operation(ways: Ways) -> None:
    programs = [ways.program(seed) for seed in range(100)]
    used = {line.name for program in programs for line in program.lines}
    assert used == set(OPERATIONS)
    assert any(name in program.source for program in programs for name in FILES)
    assert max(len(program.lines) for program in programs) == 8
    # Most programs are valid.
    assert sum(ways.run(tf, program.statements()).error is None for program in programs) >= 75


def test_a_seed_names_one_program(ways: Ways) -> None:
    assert ways.program(3) == ways.program(3) != ways.program(4)


def test_a_planted_difference_is_found_and_shrunk(ways: Ways, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = compat.data.Dataset.take
    monkeypatch.setattr(compat.data.Dataset, "take", lambda self, count, name=None: taken(self, count + 1))
    lines = ("d = d.map(lambda x: x + 1)", "d = d.take(2)", "d = d.prefetch(1)")
    program = Program(0, "tf.data.Dataset.range(5)", tuple(Line("other", line) for line in lines))
    [first, *others] = disagreements(ways, program)
    assert first.what == "elements" and {other.way.split()[0] for other in others} >= {"one"}
    smallest, found = shrunk(ways, program, first)
    assert smallest.statements() == ["d = tf.data.Dataset.range(5)", "d = d.take(2)"]
    printed = script(smallest, found)
    compile(printed, "printed", "exec")
    assert "expected 2 elements, found 3" in printed


def test_the_documentation_lists_all_exceptions() -> None:
    page = (Path(__file__).parents[3] / "docs" / "design" / "differences-from-tf-data.md").read_text()
    listed = re.findall(r"^- (.*?)(?=^- |\Z)", page.split("## Comparison with TensorFlow")[1], re.DOTALL | re.MULTILINE)
    assert [" ".join(entry.split()) for entry in listed] == [known.reason for known in EXCEPTIONS]


@pytest.mark.parametrize("known", EXCEPTIONS, ids=lambda known: known.reason[:60])
def test_exceptions_are_narrow(known: Any) -> None:
    program = Program(0, "tf.data.Dataset.range(3)", (Line("map", "d = d.map(lambda x: x)"),))
    assert exempted(program, "local: elements: expected 3 elements, found 2; at 2 expected array(2), found the end") is None
    assert exempted(program, "local: error: expected no error, found InternalError: a defect") is None
