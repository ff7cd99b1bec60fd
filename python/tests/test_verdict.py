"""Tests of the sentence of a loader: each cause of waits is named with a remedy, and the waits are those of the training loop."""

from __future__ import annotations

import json
import pickle
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import millstream as ms
from millstream._trace import Trace
from millstream._verdict import verdict_of
from millstream._waits import WaitClock

Start = Callable[..., str]

WAITS = {"batches": 11, "elapsed_s": 10.0, "waited_s": 5.0, "first_wait_s": 0.0, "where": "service", "is_python": False}


def waits(**found: Any) -> dict[str, Any]:
    return {**WAITS, **found}


def stage(name: str, load: float = 0.9, threads: int = 1, is_python: bool = False) -> dict[str, Any]:
    """Returns the measurements of a pipeline whose second stage sets the speed. The first stage has the same name."""
    stages = [{"name": name, "load": part, "threads": threads, "is_python": is_python} for part in (0.01, load)]
    return {"stage": name, "stage_index": 1, "stages": stages, "where": "here"}


def consumer(load: float) -> dict[str, Any]:
    return {"where": "here", "stage": "consumer", "stage_index": None, "stages": [{"name": "map", "load": load, "threads": 1, "is_python": False}]}


@pytest.mark.parametrize(
    ("found", "level", "bottleneck", "words"),
    [
        (waits(elapsed_s=0.0, batches=0), "good", "none", "has not requested"),
        (waits(batches=0, has_ended=True), "good", "none", "ended without a batch"),
        (waits(batches=0, has_ended=False), "good", "none", "has waited 5.0 s for its first batch, and does not wait"),
        (waits(batches=0, waiting_s=2.0), "warning", "workers", "has waited 5.0 s for its first batch, because the workers have no batch ready"),
        (waits(batches=0, waiting_s=2.0, is_opening=True), "warning", "start", "the service has not opened the epoch"),
        (waits(batches=0, waiting_s=2.0, is_opening=True, where="here"), "warning", "start", "this process is still opening the dataset"),
        (waits(batches=0, waiting_s=2.0, is_opening=True, where="own workers"), "warning", "start", "the workers of the loader are starting"),
        (waits(batches=2), "good", "none", "too few"),
        (waits(waited_s=0.1), "good", "trainer", "1% of the time: the trainer sets the speed"),
        (waits(lost_splits=2), "fault", "none", "lost 2 splits"),
        (waits(waited_s=0.0, skipped_splits=1), "warning", "trainer", "skipped 1 split"),
        (waits(waited_s=0.0, quarantined_elements=2), "warning", "trainer", "left out 2 elements at which an operation failed"),
        (waits(waited_for="workers"), "warning", "workers", "the workers have no batch ready"),
        (waits(waited_for="workers", is_python=True), "warning", "workers", "Python code on the workers"),
        (waits(waited_for="network", transports={"a:1": "quic"}), "warning", "network", "over the network"),
        (waits(waited_for="network", transports={"a:1": "shm"}), "warning", "workers", "no batch ready"),
        (waits(waited_for="dispatcher"), "warning", "dispatcher", "dispatcher is out of reach"),
        (waits(waited_for="none: waiting for workers", batches=0, waiting_s=3.0), "warning", "none: waiting for workers", "no worker is ready"),
        (waits(where="own workers", num_workers=2, is_python=True), "warning", "workers", "Python code in 2 processes"),
        (waits(where="own workers", num_workers=1), "warning", "workers", "the worker with its 1 thread"),
        (waits(is_python=True, where="here"), "warning", "python", "this process computes every batch"),
        (waits(**stage("map(python)", is_python=True)), "warning", "python", "Python code in stage map(python)"),
        (waits(**stage("parquet")), "warning", "storage", "reading from storage in stage parquet keeps its thread 90% busy"),
        (waits(**stage('text_lines(path: "python.txt")')), "warning", "storage", "reading from storage"),
        (waits(**stage("map(pythonic)")), "warning", "map(pythonic)", "stage map(pythonic) keeps its thread 90% busy"),
        (waits(**stage("decode_jpeg ×4", 0.99, 4)), "warning", "decode_jpeg ×4", "stage decode_jpeg ×4 keeps its 4 threads 99% busy"),
        (waits(where="here", stage="writing", stage_index=None), "warning", "writing", "copying elements"),
        (waits(**consumer(0.4)), "warning", "map", "stage map keeps its thread 40%"),
        (waits(**consumer(0.1)), "warning", "hand-over", "over to Python"),
        (waits(where="here", stage="unknown", stage_index=None), "warning", "none", "no measurement names"),
    ],
)
def test_each_cause_is_named(found: dict[str, Any], level: str, bottleneck: str, words: str) -> None:
    verdict = verdict_of(found)
    assert (verdict.level, verdict.bottleneck) == (level, bottleneck) and words in verdict.sentence, verdict
    assert bool(verdict.advice) == (level != "good")


def test_the_sentence_has_figures() -> None:
    verdict = verdict_of(waits(waited_for="workers"))
    assert "50% of the time, 500.0 ms for each batch" in verdict.sentence and "2.0 times as fast" in verdict.advice
    assert "more than 20 times" in verdict_of(waits(waited_s=9.9)).advice


def test_the_start_of_an_epoch_is_no_wait() -> None:
    started = verdict_of(waits(waited_s=5.0, first_wait_s=5.0))
    assert started.level == "good" and "0% of the time" in started.sentence


def test_a_slow_dataset_is_the_bottleneck() -> None:
    def slow() -> Iterator[int]:
        for number in range(6):
            time.sleep(0.02)
            yield number

    loader = ms.DataLoader(slow, batch_size=None, element_spec=ms.TensorSpec((), ms.int64), output="numpy")
    assert str(loader.stats()).startswith("The training loop has not requested")
    assert len(list(loader)) == 6
    stats = loader.stats()
    assert stats["bottleneck"] == "python" and stats["wait_share"] > 0.5 and stats["batches"] == 6
    assert stats["waited_s"] >= 0.1 and stats.verdict in str(stats) and stats.advice in str(stats)
    assert json.loads(json.dumps(stats))["verdict"] == stats.verdict


def test_a_slow_trainer_sets_the_speed(cluster: Start) -> None:
    loader = ms.DataLoader(ms.Dataset.range(40).batch(4), service=cluster(1), output="numpy")
    for _ in loader:
        time.sleep(0.05)
    stats = loader.stats()
    assert stats["bottleneck"] == "trainer" and "the trainer sets the speed" in stats.verdict
    assert stats["elapsed_s"] >= 9 * 0.05 and stats["waited_s"] - stats["first_wait_s"] < 0.05 * stats["elapsed_s"] and stats["batches"] == 10


@pytest.mark.parametrize("visitation", ["upstream", "exactly_once"])
def test_slow_workers_are_the_bottleneck(cluster: Start, visitation: str) -> None:
    def slowly(number: Any) -> Any:
        time.sleep(0.02)
        return number

    dataset = ms.Dataset.range(24).map_python(slowly).batch(2)
    loader = ms.DataLoader(dataset, service=cluster(1, python="inline"), visitation=visitation, output="numpy")
    assert len(list(loader)) == 12
    stats = loader.stats()
    assert stats["bottleneck"] == "workers" and stats["level"] == "warning", stats
    assert set(stats["transports"].values()) == {"memory"} and stats["bytes"] > 0


def test_a_slow_stage_of_this_process_is_named() -> None:
    def slowly(number: Any) -> Any:
        time.sleep(0.05)
        return number

    loader = ms.DataLoader(ms.Dataset.range(24).map_python(slowly).batch(2), output="numpy")
    assert len(list(loader)) == 12
    stats = loader.stats()
    assert stats["bottleneck"] == "python" and "stage map(python)" in stats.verdict
    assert [one["name"].partition("(")[0] for one in stats["stages"]] == ["batch", "map", "range"]
    assert [one["is_python"] for one in stats["stages"]] == [False, True, False]
    # On a machine that stops this process for a while, the consumer has the largest share, and no stage is the bottleneck.
    assert stats["stage_index"] in (1, None), stats


def test_stats_of_copies_are_their_own() -> None:
    loader = ms.DataLoader(list(range(8)), batch_size=2, output="numpy")
    assert len(list(loader)) == 4
    copied = pickle.loads(pickle.dumps(loader))
    assert loader.stats()["batches"] == 4 and copied.stats()["batches"] == 0
    assert len(list(copied)) == 4 and loader.stats()["bytes"] == copied.stats()["bytes"]


def test_recent_waits_are_a_share() -> None:
    clock = WaitClock()
    assert clock.recent_share() is None
    clock.begin()
    for _ in range(3):
        clock.ask()
        time.sleep(0.01)
        clock.got(True)
    share = clock.recent_share()
    assert share is not None and 0.5 < share <= 1.0
    time.sleep(0.1)
    later, measured = clock.recent_share(), clock.measured()
    assert later is not None and later < share
    assert measured["batches"] == 3 and 0.03 <= measured["waited_s"] < measured["elapsed_s"] - 0.1


def test_a_mixture_measures_its_components() -> None:
    mixture = ms.mix({"a": list(range(8)), "b": list(range(8))}, weights=[1, 1], batch_size=2, output="numpy")
    delivered = len(list(mixture))
    measured = mixture.stats()["components"]
    assert sum(component["batches"] for component in measured.values()) == delivered > 4
    assert all(component["batches"] == component["step"] > 0 for component in measured.values())


def spans(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    document = json.loads(path.read_text())
    return document, [event for event in document["traceEvents"] if event["ph"] == "X"]


def test_a_trace_is_valid(tmp_path: Path) -> None:
    def slowly(number: Any) -> Any:
        time.sleep(0.02)
        return number

    loader = ms.DataLoader(ms.Dataset.range(40).map_python(slowly).batch(1), output="numpy", name="train")
    batches = iter(loader)
    next(batches)
    with loader.profile(tmp_path / "trace.json"):
        for _ in batches:
            time.sleep(0.001)
    document, events = spans(tmp_path / "trace.json")
    assert {event["ph"] for event in document["traceEvents"]} == {"M", "X", "C"}
    for event in document["traceEvents"]:
        assert isinstance(event["name"], str) and isinstance(event["pid"], int) and isinstance(event["tid"], int) and event["ts"] >= 0
    assert len(events) == 2 * 39 and all(event["dur"] >= 0 for event in events)
    # The spans of a track follow one another: each begins when the one before it has ended.
    ends = [event["ts"] + event["dur"] for event in events]
    assert all(later["ts"] >= end - 1e-3 for later, end in zip(events[1:], ends, strict=False))
    assert [event["name"] for event in events[:4]] == ["work", "wait", "work", "wait"]
    named = {event["name"]: event["args"]["name"] for event in document["traceEvents"] if event["ph"] == "M"}
    assert named == {"process_name": "millstream train", "thread_name": "training loop"}
    counters = {event["name"]: event["args"] for event in document["traceEvents"] if event["ph"] == "C"}
    assert counters.keys() == {"stage 0 batch", "stage 1 map(python)", "stage 2 range"}
    assert all(list(counter) == ["busy threads"] for counter in counters.values())
    waited = sum(event["dur"] for event in events if event["name"] == "wait")
    assert waited > sum(event["dur"] for event in events if event["name"] == "work")


def test_a_trace_is_bounded(tmp_path: Path) -> None:
    loader, limit = ms.DataLoader(list(range(50)), output="numpy"), 10_000
    with pytest.warns(UserWarning, match=r"left out \d+ events from second 0\.\d on.*limit of 10000 bytes"), loader.profile(
        tmp_path / "trace.json", memory_bytes=limit
    ):
        assert len(list(loader)) == 50
    document, events = spans(tmp_path / "trace.json")
    dropped = document["otherData"]["dropped_events"]
    assert 0 < len(events) < 100 and len(events) + dropped == 2 * 50
    assert (tmp_path / "trace.json").stat().st_size < limit
    (full,) = [event for event in document["traceEvents"] if event["ph"] == "i"]
    assert f"{dropped} events" in full["name"] and full["ts"] >= events[-1]["ts"]
    with pytest.raises(ms.errors.InvalidArgumentError, match="memory_bytes=0"), loader.profile(tmp_path / "none.json", memory_bytes=0):
        pass


def test_the_memory_of_a_trace_is_counted() -> None:
    trace = Trace("train", 1 << 20)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for step in range(5000):
            trace.batch(time.perf_counter(), time.perf_counter(), time.perf_counter(), 0, step)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert trace._dropped > 0 and after - before < 1.2 * (1 << 20)


def test_an_error_does_not_end_the_clock() -> None:
    clock = WaitClock()
    clock.begin()
    clock.ask()
    clock.got(False)
    ended = clock.measured()["elapsed_s"]
    assert clock.measured()["elapsed_s"] == ended
    clock.ask()
    clock.got(True)
    running = clock.measured()["elapsed_s"]
    assert running > ended and clock.measured()["elapsed_s"] > running
