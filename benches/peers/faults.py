"""Records lost and repeated when processes die: Millstream, the tf.data service, MosaicML Streaming, torchdata and Grain in the same cases.

    python3 benches/peers/faults.py [--peers LIST] [--cases LIST] [--rounds 3] [--records 10080] [--package DIR] [--into FILE] [--report FILE]

The command creates a virtual environment (target/peers), installs the peers and builds Millstream. Each case reads one epoch with trainers in
separate processes, which take every step together. The case kills processes with SIGKILL after fixed parts of the epoch. A ledger compares the
index and the checksum of each record with the dataset. The ledger counts the surviving lineage: after a death of the trainers, their steps since
the last saved state do not count. The modules in ``fault_peers`` show the settings of each peer. ``--package`` names a folder with a built
Millstream package, so that nothing is built. ``--into`` stores the rounds in a file, and runs only the rounds that the file lacks.
``--report`` prints the rounds of a file.
"""

import argparse
import importlib.metadata
import json
import os
import pathlib
import statistics
import sys
import tempfile

from fault_peers.cases import CASES, PEERS, Run, peer, undisturbed
from fault_peers.trainer import Trainer, answer
from shared import environment, packaged, run_within

#: The columns of the table.
COLUMNS = ["case", "peer", "lost", "repeated", "same order", "state, bytes", "seconds to resume"]


def serve(settings: dict) -> None:
    """Prepares the files of a peer and starts its service, until standard input ends."""
    module = peer(settings["peer"])
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    if hasattr(module, "prepared"):
        module.prepared(settings["directory"], settings["records"])
    target, workers, _kept = module.serve() if hasattr(module, "serve") else ("", [], None)
    answers.write(json.dumps({"target": target, "workers": workers}) + "\n")
    sys.stdin.read()
    if hasattr(module, "cleaned"):
        module.cleaned(settings["directory"])
    # The processes of the service end with their standard input, and a server in this process may block the end of the interpreter.
    os._exit(0)


def measure(args: argparse.Namespace, names: list, cases: list) -> dict:
    """Runs the rounds that the file lacks, one peer after another in each round. Returns all outcomes by peer and case."""
    found = json.loads(args.into.read_text()) if args.into and args.into.exists() else {}
    steps = {}
    for number in range(args.rounds):
        for name in names:
            outcomes = found.setdefault(name, {})
            for case in cases:
                rounds = outcomes.setdefault(case, [])
                if len(rounds) > number or case in peer(name).REFUSED:
                    continue
                if name not in steps:
                    steps[name] = undisturbed(__file__, name, args.records)
                rounds.append(Run(__file__, name, args.records, steps[name]).epoch(CASES[case][1]))
                print(f"{name}, {case}, round {number + 1}: {rounds[-1]}", file=sys.stderr)
                if args.into:
                    args.into.write_text(json.dumps(found))
    return found


def cells(rounds: list) -> list:
    """Returns the cells of a row after its title: counts, order, size of the state, and seconds."""
    ended = sorted({one["ended"].split(":")[0] for one in rounds if "ended" in one})
    if ended:
        return ["job ends: " + ", ".join(ended), *["-"] * 4]
    seconds = [one["resume_s"] for one in rounds]
    state = "not offered" if any("unsaved" in one for one in rounds) else between([one.get("state_bytes", 0) for one in rounds])
    lost = [one["lost"] + one["damaged"] for one in rounds]
    order = {True: "yes", False: "no"}[all(one["same_order"] for one in rounds)]
    repeated = between([one["repeated"] for one in rounds])
    return [between(lost), repeated, order, state, f"{statistics.median(seconds):.2f} ({min(seconds):.2f}-{max(seconds):.2f})"]


def between(numbers: list) -> str:
    """Returns the median with the lowest and the highest number, or the only number."""
    low, high = min(numbers), max(numbers)
    return f"{low}" if low == high else f"{statistics.median(numbers):.0f} ({low}-{high})"


def report(found: dict) -> None:
    """Prints the table of all cases, the reasons of refusals and errors, and the settings of the peers."""
    print("| " + " | ".join(COLUMNS) + " |\n|" + "---|" * len(COLUMNS))
    for case, (title, _) in CASES.items():
        for name, outcomes in found.items():
            rounds = outcomes.get(case, [])
            if case in peer(name).REFUSED:
                row = ["not offered", *["-"] * 4]
            elif rounds:
                row = cells(rounds)
            else:
                continue
            print(f"| {title} | {peer(name).TITLE} | " + " | ".join(row) + " |")
    print()
    for name, outcomes in found.items():
        module = peer(name)
        firsts = [one["first_s"] for rounds in outcomes.values() for one in rounds if "first_s" in one]
        first = f"; {statistics.median(firsts):.2f} s to the first batch of a new epoch" if firsts else ""
        print(f"- {module.TITLE} {version(module.LIBRARY)}: {module.SETTING}{first}")
        for reason in [*module.REFUSED.values(), *sorted(errors(outcomes))]:
            print(f"  - {reason}")


def errors(outcomes: dict) -> set:
    """Returns the first error of each case that ended a job, and the first error of a request for a state."""
    found = {}
    for case, rounds in outcomes.items():
        for one in rounds:
            if "ended" in one:
                found.setdefault(case, f"{CASES[case][0]}: {one['ended']}")
            if "unsaved" in one:
                found.setdefault("state", f"a state is requested: {short(one['unsaved'])}")
    return set(found.values())


def short(error: str) -> str:
    """Returns the class and the message of an error without TensorFlow's name of the device."""
    kind, _, message = error.partition(": ")
    return f"{kind}: {message.rpartition('}} ')[2]}"


def version(library: str) -> str:
    """Returns the version of an installed library. Millstream's package states its version itself."""
    for name in (library, f"{library}-cpu"):
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    try:
        return str(importlib.import_module(library).__version__)
    except ImportError:
        return "of this source tree"


def main() -> None:
    """Runs the cases that the arguments name, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", default=",".join(PEERS), help="comma-separated beginnings of the names of peers")
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--records", type=int, default=10_080, help="a multiple of 36, so that all trainers have whole batches")
    parser.add_argument("--package", type=pathlib.Path, help="a folder with a built Millstream package")
    parser.add_argument("--into", type=pathlib.Path)
    parser.add_argument("--report", type=pathlib.Path)
    parser.add_argument("--trainer", help=argparse.SUPPRESS)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.trainer:
        settings = Trainer(**json.loads(args.trainer))
        return answer(settings, peer(settings.peer))
    if args.serve:
        return serve(json.loads(args.serve))
    names = [name for name in PEERS if name.startswith(tuple(args.peers.split(",")))]
    run_within(environment(sorted({package for name in names for package in peer(name).PACKAGES})), __file__)
    if args.report:
        return report(json.loads(args.report.read_text()))
    package = args.package.absolute() if args.package else packaged("release")
    sys.path.append(str(package))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(package), os.environ.get("PYTHONPATH"))))
    os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0", "CUDA_VISIBLE_DEVICES": ""}
    os.environ.pop("MILLSTREAM_KEY", None)
    with tempfile.TemporaryDirectory(prefix="millstream-faults-") as home:
        os.environ["XDG_DATA_HOME"] = home
        report(measure(args, names, args.cases.split(",")))
    return None


if __name__ == "__main__":
    main()
