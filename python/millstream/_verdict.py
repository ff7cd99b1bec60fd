"""The answer to the first question about a loader: does the training loop wait for data, why, and what to change?

The module is pure: it reads measurements, and sends no requests.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

__all__ = ["LoaderStats", "Verdict", "verdict_of"]

#: The share of the time from which on a wait is named.
_WAITS = 0.05

#: The share of its time from which on a stage is named, although the pipeline waits for the loop more.
_BUSY = 0.3

#: The number of batches from which on the share of the waits is meaningful.
_BATCHES_MIN = 3

#: The operations that read files.
_READERS = frozenset(
    "arrow csv elements fixed_length image_folder json_lines mds npy npz parquet sqlite text_lines tfrecord webdataset chunks files snapshot".split()
)

#: The waits of readers, by the name of the part of the service, each with the cause and the remedy.
_OF_SERVICE = {
    "network": (
        "batches are still on their way over the network",
        'Place workers on the host of the trainer, pass compression="lz4", or raise or omit max_outstanding_requests.',
    ),
    "dispatcher": (
        "the dispatcher is out of reach, or has no further work for this trainer",
        "Look at the log of the dispatcher. Other trainers of the job may hold the remaining data.",
    ),
    "none: waiting for workers": ("no worker is ready", "Start workers: millstream worker --dispatcher HOST:PORT."),
}

#: The waits while an epoch is opened, by the place of the computation, each with the cause and the remedy.
_OPENING = {
    "here": (
        "this process is still opening the dataset",
        "Resume at a step whose position is known, or make the start of the dataset faster: a resumed epoch computes its first batches again.",
    ),
    "own workers": ("the workers of the loader are starting", "Look at the messages of the program: they name a worker that does not start."),
    "service": (
        "the service has not opened the epoch yet",
        "Check the address of the service and the key, for example with millstream doctor, and look at the log of the dispatcher.",
    ),
}


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The state of a loader in one sentence.

    Attributes:
        level: The urgency: ``"good"``, ``"warning"`` or ``"fault"``.
        sentence: The sentence.
        advice: The remedy; empty if nothing has to be done.
        bottleneck: The part that sets the speed: ``"trainer"``, a part of the service, ``"python"``, ``"storage"``, a stage,
            ``"start"`` while an epoch is opened, or ``"none"``.
    """

    level: str
    sentence: str
    advice: str = ""
    bottleneck: str = "none"


class LoaderStats(dict[str, Any]):
    """The measurements of a loader. Its text is the verdict, with the remedy."""

    @property
    def verdict(self) -> str:
        """The state of the loader in one sentence."""
        return str(self["verdict"])

    @property
    def advice(self) -> str:
        """The remedy; empty if nothing has to be done."""
        return str(self["advice"])

    def __str__(self) -> str:
        return f"{self.verdict} {self.advice}".strip()


def verdict_of(found: Mapping[str, Any]) -> Verdict:
    """Returns the verdict on a loader.

    Args:
        found: The measurements. ``where`` names the place of the computation: ``"here"``, ``"own workers"`` or ``"service"``. ``is_python`` says
            whether Python code computes the batches. The other entries are those of ``DataLoader.stats``; ``has_ended`` says whether the epoch
            has ended, and ``is_opening`` whether it is still being opened.

    Returns:
        The most serious finding.
    """
    if lost := int(found.get("lost_splits") or 0):
        return Verdict(
            "fault",
            f"The epoch has lost {_count(lost, 'split')} with workers that died.",
            'Read an ms.Dataset with visitation="exactly_once" if nothing may be lost, and look at the logs of the workers.',
        )
    batches = int(found.get("batches") or 0)
    if not batches:
        if not found.get("elapsed_s"):
            return Verdict("good", "The training loop has not requested a batch yet.")
        waited_s = float(found.get("waited_s") or 0.0)
        if found.get("waiting_s"):
            bottleneck, cause, advice = _cause(found)
            return Verdict("warning", f"The training loop has waited {_time(waited_s)} for its first batch, because {cause}.", advice, bottleneck)
        if found.get("has_ended"):
            return Verdict("good", "The epoch ended without a batch.")
        return Verdict("good", f"The training loop has waited {_time(waited_s)} for its first batch, and does not wait at present.")
    share, each_s = _steady(found, batches)
    if batches < _BATCHES_MIN and not found.get("waiting_s"):
        return Verdict("good", f"The training loop has received {_count(batches, 'batch', 'batches')}, which are too few for a verdict.")
    skipped = int(found.get("skipped_splits") or 0)
    if share < _WAITS and skipped:
        advice = "Look for the samples that end their workers: the logs of the workers name the splits."
        return Verdict("warning", f"The epoch has skipped {_count(skipped, 'split')} that ended several workers.", advice, "trainer")
    quarantined = int(found.get("quarantined_elements") or 0)
    if share < _WAITS and quarantined:
        advice = "Correct these elements or the function: the warnings in the log of this program name each element, its worker and its error."
        return Verdict("warning", f"The epoch has left out {_count(quarantined, 'element')} at which an operation failed.", advice, "trainer")
    if share < _WAITS:
        return Verdict("good", f"The training loop waits for data {share:.0%} of the time: the trainer sets the speed.", bottleneck="trainer")
    bottleneck, cause, advice = _cause(found)
    gain = f"Without these waits, training would be {_times(share)} as fast."
    sentence = f"The training loop waits for data {share:.0%} of the time, {_time(each_s)} for each batch, because {cause}."
    return Verdict("warning", sentence, f"{advice} {gain}", bottleneck)


def _steady(found: Mapping[str, Any], batches: int) -> tuple[float, float]:
    """Returns the share of the waits after the first batch, whose wait includes the start of the epoch, and the mean wait."""
    first_s, waited_s, elapsed_s = (float(found.get(name) or 0.0) for name in ("first_wait_s", "waited_s", "elapsed_s"))
    waited_s, elapsed_s = max(0.0, waited_s - first_s), elapsed_s - first_s
    share = min(1.0, waited_s / elapsed_s) if elapsed_s > 0 else 0.0
    return share, waited_s / max(1, batches - 1)


def _cause(found: Mapping[str, Any]) -> tuple[str, str, str]:
    """Returns the part that sets the speed, the reason of the waits, and the remedy."""
    where = str(found.get("where"))
    if found.get("is_opening") and where in _OPENING:
        return "start", *_OPENING[where]
    stage = str(found.get("stage") or "")
    waited_for = found.get("waited_for")
    transports = dict(found.get("transports") or {}).values()
    if waited_for == "network" and transports and "quic" not in transports:
        # Elements within a host do not cross a network, so the workers have none.
        waited_for = "workers"
    reads_service = waited_for is not None or where != "here"
    if reads_service and _operation(stage) in ("", "service", "consumer", "unknown"):
        return _of_service(waited_for, found)
    if bool(found.get("is_python")):
        return (
            "python",
            "this process computes every batch with Python code while the loop waits",
            "Pass num_workers, whose processes compute batches while the model trains, or a service.",
        )
    known = _stage(found)
    return _of_part(stage) if known is None else _of_stage(known)


def _stage(found: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Returns the measurements of the stage that sets the speed; ``None`` if no stage does. Several stages may have the same name."""
    stages = list(found.get("stages") or ())
    index = found.get("stage_index")
    if index is not None:
        return dict(stages[int(index)])
    if found.get("stage") == "consumer" and stages:
        # The loop waits although the pipeline does: a stage is slow in bursts, or the loop's waits are hand-overs.
        busiest = max(stages, key=lambda known: float(known["load"]))
        if float(busiest["load"]) >= _BUSY:
            return dict(busiest)
    return None


def _operation(stage: str) -> str:
    """Returns the name of a stage's operation, without its parameters."""
    return stage.partition("(")[0].partition(" ")[0]


def _of_service(waited_for: Any, found: Mapping[str, Any]) -> tuple[str, str, str]:
    if waited_for in _OF_SERVICE:
        return str(waited_for), *_OF_SERVICE[waited_for]
    number, is_python = int(found.get("num_workers") or 0), bool(found.get("is_python"))
    if number and found.get("where") == "own workers":
        of = f"Python code in {_count(number, 'process', 'processes')}" if is_python else f"the worker with its {_count(number, 'thread')}"
        advice = f"Raise num_workers, which is {number}, or read from a service."
        return "workers", f"{of} computes batches more slowly than the loop uses them", advice
    if found.get("where") == "here":
        return "workers", "the worker in this process has no batch ready", "Pass num_workers, or read from a service."
    if is_python:
        cause = "Python code on the workers computes batches more slowly than the loop uses them"
        return "workers", cause, "Run more workers, or make the dataset's Python code faster."
    return "workers", "the workers have no batch ready", "Run more workers, or make the slowest stage faster: millstream status names it."


def _of_part(part: str) -> tuple[str, str, str]:
    """Returns the finding on a part of the pipeline that is not a stage."""
    if part == "writing":
        advice = "Make elements smaller: decode, crop or cast them before batch()."
        return "writing", "copying elements into batches takes most of the time", advice
    if part == "consumer":
        advice = "Make batches larger, because each has a fixed cost, or give this process more processors."
        return "hand-over", "handing batches over to Python takes most of the time", advice
    return "none", "no measurement names the slow part", "Measure longer, or call Dataset.explain() to see the stages."


def _of_stage(known: Mapping[str, Any]) -> tuple[str, str, str]:
    """Returns the finding on a stage."""
    stage, threads = str(known["name"]), int(known["threads"])
    of = "its thread" if threads == 1 else f"its {threads} threads"
    load = f"{of} {float(known['load']):.0%}"
    if known["is_python"]:
        advice = "Pass a service, whose workers run Python code in several processes, or write the function with operations of ms.Dataset."
        return "python", f"Python code in stage {stage} keeps {load} busy", advice
    if _operation(stage) in _READERS:
        advice = "Read several files at once with interleave(num_parallel_calls=ms.AUTOTUNE), keep the data with cache(), or move it nearer."
        return "storage", f"reading from storage in stage {stage} keeps {load} busy", advice
    parallel = "Pass num_parallel_calls=ms.AUTOTUNE to this stage, or let" if threads == 1 else "Let"
    return stage, f"stage {stage} keeps {load} busy", f"{parallel} the workers of a service compute the dataset."


def _count(number: int, one: str, several: str | None = None) -> str:
    return f"{number} {one if number == 1 else several or one + 's'}"


def _time(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.1f} s"
    return f"{seconds * 1e3:.1f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.0f} µs"


def _times(share: float) -> str:
    return f"{1 / (1 - share):.1f} times" if share < 0.95 else "more than 20 times"
