"""Tests of ``benches/peers/faults.py``: the ledger detects each kind of fault, and the program runs with Millstream alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import millstream as ms

PEERS = Path(__file__).parents[2] / "benches" / "peers"
sys.path.append(str(PEERS))

from fault_peers.ledger import Generation, Verdict, is_same_order, judge

#: The seconds within which the program must end: ten times its usual time.
PROGRAM_MAX_S = 250
#: A small multiple of 36 records: 60 steps of two trainers.
RECORDS = 720

UNDISTURBED = [[[0, 1], [2, 3]], [[4, 5], [6, 7]]]


@pytest.mark.parametrize(
    ("generations", "expected"),
    [
        ([Generation(UNDISTURBED)], Verdict(0, 0, 0, True)),
        ([Generation(UNDISTURBED, damaged=1)], Verdict(0, 0, 1, True)),
        ([Generation(UNDISTURBED[:1])], Verdict(4, 0, 0, False)),
        ([Generation(UNDISTURBED), Generation(UNDISTURBED[1:])], Verdict(0, 4, 0, False)),
        ([Generation([[[2, 3], [0, 1]], UNDISTURBED[1]])], Verdict(0, 0, 0, False)),
        ([Generation(UNDISTURBED, saved_steps=1), Generation(UNDISTURBED[1:])], Verdict(0, 0, 0, True)),
        ([Generation(UNDISTURBED, saved_steps=0), Generation(UNDISTURBED[1:])], Verdict(4, 0, 0, False)),
    ],
    ids=["whole", "damaged", "lost", "repeated", "other order", "rolled back", "lost with the rollback"],
)
def test_a_ledger_detects_every_fault(generations: list[Generation], expected: Verdict) -> None:
    assert judge(generations, UNDISTURBED, 8) == expected


@pytest.mark.parametrize(
    ("steps", "is_same"),
    [
        ([[[0, 1, 2, 3]], [[4, 5, 6, 7]]], True),
        ([[[3, 2, 1, 0]], [[4, 5, 6, 7]]], True),
        ([[[0, 1, 2]], [[3, 4, 5]], [[6, 7]]], True),
        ([[[0, 1, 2, 4]], [[3, 5, 6, 7]]], False),
    ],
    ids=["same steps", "same sets", "other sizes", "other sets"],
)
def test_orders_compare_with_other_trainers(steps: list[list[list[int]]], is_same: bool) -> None:
    assert is_same_order(steps, UNDISTURBED) == is_same


def test_millstream_loses_nothing_in_any_case() -> None:
    package = str(Path(ms.__file__).parents[1])
    options = ["--peers", "millstream", "--rounds", "1", "--records", str(RECORDS), "--package", package]
    ran = subprocess.run(
        [sys.executable, str(PEERS / "faults.py"), *options],
        env={**os.environ, "MILLSTREAM_PEERS_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=PROGRAM_MAX_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in ran.stdout.splitlines() if "| Millstream |" in line]
    assert len(rows) == 4, ran.stdout
    # Other numbers of trainers have other batches in a step, so that case promises no order.
    assert [row[2:5] for row in rows] == [["0", "0", "yes"]] * 2 + [["0", "0", rows[2][4]]] + [["0", "0", "yes"]], ran.stdout
