"""Runs the cases, and prints a table of the results."""

from __future__ import annotations

import argparse
import dataclasses
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .cases import CASES, ELEMENTS, KINDS
from .processes import Cluster
from .round import Round, Skipped
from .table import table
from .upgrades import UPGRADES

#: The exit status if rounds were skipped because a tool is missing, like that of ``deploy/check``.
SKIPPED = 77


def main() -> int:
    """Runs the rounds.

    Returns:
        0 if no round failed, 1 if a round failed, 2 for wrong arguments, and 77 if only rounds that need a missing tool did not run.
    """
    parser = argparse.ArgumentParser(prog="python -m chaos", description=sys.modules[__package__ or "chaos"].__doc__)
    parser.add_argument(
        "cases",
        nargs="*",
        default=[],
        metavar="CASE",
        help=f"one of {', '.join(CASES)}, or with --previous one of {', '.join(UPGRADES)}; the default is all cases",
    )
    parser.add_argument(
        "--rounds", type=int, default=3, help="number of rounds of each case; successive rounds and cases use the kinds of reader in turn"
    )
    parser.add_argument("--total", type=int, help="number of rounds of all cases together, which take turns; replaces --rounds")
    parser.add_argument("--kind", choices=ELEMENTS, help="the kind of reader in all rounds")
    parser.add_argument("--parallel", type=int, default=1, help="number of rounds that run at the same time; meaningful figures need 1")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32), help="the seed of all random draws")
    parser.add_argument("--keep", type=Path, help="a directory for the logs and ledgers of failed rounds")
    parser.add_argument("--keep-waits", type=float, metavar="S", help="also keep those of rounds in which a reader waited S seconds or longer")
    parser.add_argument("--previous", type=Path, help="a folder with the previous version, for the cases of two versions; see ci/upgrade")
    arguments = parser.parse_args()
    known = CASES if arguments.previous is None else UPGRADES
    unknown = set(arguments.cases) - set(known)
    if unknown:
        parser.error(f"unknown cases {', '.join(sorted(unknown))}: expected {', '.join(known)}")
    command = os.environ.get("MILLSTREAM_COMMAND") or shutil.which("millstream")
    if command is None:
        parser.error("the command millstream was not found: set MILLSTREAM_COMMAND, or install the wheel")

    print(f"seed {arguments.seed}", flush=True)
    cases = list(arguments.cases or known)
    total = arguments.total or arguments.rounds * len(cases)
    rounds = [(cases[at % len(cases)], at // len(cases)) for at in range(total)]
    with ThreadPoolExecutor(arguments.parallel) as pool:
        running = [
            pool.submit(
                _round,
                command,
                arguments.previous,
                case,
                arguments.kind or KINDS[(arguments.seed + cases.index(case) + number) % len(KINDS)],
                arguments.seed + number,
                Keep(arguments.keep, arguments.keep_waits),
            )
            for case, number in rounds
        ]
        done = [(case, one.result()) for (case, _), one in zip(rounds, running, strict=True)]
    print(table([(case, one) for case, one in done if isinstance(one, Round)]))
    return summary([one for _, one in done])


def summary(done: Sequence[Round | Skipped | None]) -> int:
    """Prints the numbers of rounds with each result. Returns the exit status."""
    skipped = [one for one in done if isinstance(one, Skipped)]
    good = sum(isinstance(one, Round) and one.is_good for one in done)
    failed = len(done) - good - len(skipped)
    print(f"{good} passed, {failed} failed" + (f", {len(skipped)} skipped" if skipped else ""))
    if failed:
        return 1
    return SKIPPED if any(one.is_missing for one in skipped) else 0


@dataclasses.dataclass(frozen=True)
class Keep:
    """The rounds whose logs and ledgers are kept, and the directory for them."""

    directory: Path | None
    #: The seconds for which a reader must have waited in a round that did not fail.
    waits_s: float | None

    def applies_to(self, done: Round | None, failure: str) -> bool:
        """Returns whether the round is kept."""
        return bool(failure) or (done is not None and self.waits_s is not None and done.wait_s >= self.waits_s)


def _round(command: str, previous: Path | None, case: str, kind: str, seed: int, keep: Keep) -> Round | Skipped | None:
    """Runs one round and prints its result. Returns nothing if the round could not finish."""
    directory = Path(tempfile.mkdtemp(prefix=f"chaos-{case}-"))
    done, skipped, failure = None, None, ""
    try:
        with Cluster(directory, command, previous) as cluster:
            done = (CASES if previous is None else UPGRADES)[case](cluster, kind, random.Random(f"{case} {seed}"))
    except Skipped as reason:
        print(f"{case} skipped: {reason}", flush=True)
        skipped = reason
    except Exception as error:  # Every other error is a finding, too.
        failure = str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
    if done is not None:
        noticed = "" if done.noticed_s is None else f", noticed after {done.noticed_s:.2f} s"
        print(
            f"{case} {kind} seed {seed}: {done.verdict}, longest wait {done.wait_s:.2f} s{noticed}, {done.outcomes}",
            flush=True,
        )
        failure = "" if done.is_good else "; ".join(done.messages) or "the ledger differs"
    if failure:
        print(f"{case} {kind} seed {seed} FAILED: {failure}", flush=True)
    if keep.directory is not None and keep.applies_to(done, failure):
        shutil.copytree(directory, keep.directory / directory.name, dirs_exist_ok=True)
    shutil.rmtree(directory, ignore_errors=True)
    return skipped or done


if __name__ == "__main__":
    sys.exit(main())
