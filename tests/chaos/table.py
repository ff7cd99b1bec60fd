"""The table of a run, with a row for each case and kind of reader."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .round import Round

_HEADER = (
    "case",
    "reading",
    "rounds",
    "with loss",
    "missing",
    "unreported",
    "twice",
    "wait p50",
    "p99",
    "max",
    "noticed p50",
    "max",
)


def table(rounds: Sequence[tuple[str, Round]]) -> str:
    """Returns the results of the rounds as a Markdown table. Times are in seconds."""
    groups: dict[tuple[str, str], list[Round]] = {}
    for case, done in rounds:
        groups.setdefault((case, done.kind), []).append(done)
    rows = [_HEADER, tuple("---" for _ in _HEADER)]
    rows += [_row(case, kind, group) for (case, kind), group in groups.items()]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def percentile(values: Sequence[float], share: float) -> float:
    """Returns the smallest of ``values`` that is not exceeded by a share of at least ``share`` of them."""
    ordered = sorted(values)
    return ordered[max(math.ceil(share * len(ordered)) - 1, 0)]


def _row(case: str, kind: str, rounds: Sequence[Round]) -> tuple[str, ...]:
    waits = [done.wait_s for done in rounds]
    noticed = [done.noticed_s for done in rounds if done.noticed_s is not None]
    seen = ("-", "-") if not noticed else (f"{percentile(noticed, 0.5):.2f}", f"{max(noticed):.2f}")
    return (
        case,
        kind,
        str(len(rounds)),
        str(sum(done.verdict.missing > 0 for done in rounds)),
        str(sum(done.verdict.missing for done in rounds)),
        str(sum(done.verdict.unreported for done in rounds)),
        str(sum(done.verdict.twice for done in rounds)),
        f"{percentile(waits, 0.5):.2f}",
        f"{percentile(waits, 0.99):.2f}",
        f"{max(waits):.2f}",
        *seen,
    )
