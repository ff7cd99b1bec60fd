"""Tests of the lineage of batches: the records that a loader names are those that the batch itself has."""

from __future__ import annotations

import dataclasses
import json
import os
import pickle
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import millstream as ms
from millstream import Dataset, _exact
from millstream.errors import DeadlineExceededError, FailedPreconditionError, InvalidArgumentError, OutOfRangeError
from mixtures import STOPS

Start = Callable[..., str]


def numbers(count: int = 300) -> Dataset:
    return Dataset.range(count)


#: Datasets whose elements are their own indices, and whether the records of a batch are known exactly.
DATASETS: dict[str, tuple[Callable[[], Dataset], bool]] = {
    "in order": (lambda: numbers().batch(7), True),
    "shuffled": (lambda: numbers().shuffle(1000).batch(10), True),
    "blocks": (lambda: numbers().shuffle(40).map(lambda x: x + 0).prefetch(2).batch(8), True),
    "splits": (lambda: numbers().split_size(30).shuffle(20).batch(4), True),
    "single": (lambda: numbers().shuffle(50), True),
    "nested": (lambda: numbers().batch(2).batch(3), True),
    "filtered": (lambda: numbers().shuffle(50).filter(lambda x: x % 3 != 0).batch(6), False),
    "sparse": (lambda: numbers().split_size(20).filter(lambda x: x % 60 < 20).batch(6), False),
    "mixed": (lambda: numbers().batch(4).shuffle(5), False),
}

WITH_NAMES = pytest.mark.parametrize("name", list(DATASETS))


def loader(target: Any, dataset: Dataset, **options: Any) -> ms.DataLoader:
    return ms.DataLoader(dataset, service=target, **{"visitation": "exactly_once", "seed": 3, "output": "numpy", **options})


def check(lineage: ms.Lineage, batch: Any) -> bool:
    """Checks that a lineage names the records of a batch. Returns whether it names them exactly."""
    [part] = lineage.parts
    assert part.records is not None and part.first is not None and part.count is not None
    own = [int(x) for x in batch.reshape(-1)]
    assert own == list(part.records) if part.is_exact else set(own) <= set(part.records)
    assert part.is_exact or "decides which records" in part.note
    return part.is_exact


@WITH_NAMES
@pytest.mark.parametrize("size", [1, 3])
def test_lineage_names_the_records_of_batches(cluster: Start, name: str, size: int) -> None:
    (make, is_exact), target = DATASETS[name], cluster(2)
    seen: list[int] = []
    for rank in range(size):
        part = loader(target, make(), dp_rank=rank, dp_size=size)
        for epoch in range(2):
            for step, batch in enumerate(part):
                lineage = part.lineage(step)
                assert (lineage.epoch, lineage.step, lineage.rank) == (epoch, step, rank)
                assert check(lineage, batch) == is_exact
                seen += [] if epoch else [int(x) for x in batch.reshape(-1)]
    assert len(seen) == len(set(seen)) > 50


@WITH_NAMES
def test_steps_before_their_delivery_have_a_lineage(cluster: Start, name: str) -> None:
    part = loader(cluster(2), DATASETS[name][0]())
    foreseen = [part.lineage(step) for step in (0, 4, 9)]
    batches = list(part)
    for lineage in foreseen:
        check(lineage, batches[lineage.step])
        assert part.lineage(lineage.step, epoch=0) == lineage


@pytest.mark.parametrize("name", ["shuffled", "splits", "filtered"])
def test_lineage_holds_after_a_resume(cluster: Start, name: str) -> None:
    make, target = DATASETS[name][0], cluster(2)
    states = []
    for rank in range(2):
        part = loader(target, make(), dp_rank=rank, dp_size=2)
        for _, _batch in zip(range(3), part, strict=False):
            pass
        states.append(json.loads(json.dumps(part.state_dict())))
    for rank in range(3):
        part = loader(target, make(), dp_rank=rank, dp_size=3)
        part.load_state_dict(ms.joined_states(states, 3))
        with pytest.raises(InvalidArgumentError, match=r"step 1 of epoch 0 was delivered before step 3.*load a state that was saved before"):
            part.lineage(1)
        foreseen = part.lineage(3)
        for step, batch in enumerate(part, 3):
            check(part.lineage(step), batch)
            if step == 3:
                check(foreseen, batch)


def test_epochs_before_a_resume_have_no_lineage(cluster: Start) -> None:
    target = cluster(1)
    part = loader(target, DATASETS["shuffled"][0](), dp_rank=0, dp_size=2)
    list(part)
    next(iter(part))
    later = loader(target, DATASETS["shuffled"][0](), dp_rank=0, dp_size=1)
    later.load_state_dict(ms.joined_states([part.state_dict()] * 2, 1))
    with pytest.raises(InvalidArgumentError, match="step 4 of epoch 0 was delivered before step 1 of epoch 1.*ask a new loader"):
        later.lineage(4, epoch=0)
    assert later.lineage(4, epoch=2).step == 4


@pytest.mark.parametrize("name", ["shuffled", "filtered"])
def test_an_epoch_that_begins_again_forgets_its_state(cluster: Start, name: str) -> None:
    make, target = DATASETS[name][0], cluster(2)
    part = loader(target, make(), dp_rank=0, dp_size=2)
    for _, _batch in zip(range(5), part, strict=False):
        pass
    state = ms.joined_states([part.state_dict(), part.state_dict() | {"trainer": 1, "checksum": None}], 1) if name == "filtered" else part.state_dict()
    later, fresh = loader(target, make()), loader(target, make())
    later.load_state_dict(state)
    for epoch in (1, 0):
        later.set_epoch(epoch)
    check(later.lineage(1), list(fresh)[1])
    assert later.skip(7) == 7
    assert [batch.tolist() for batch in later] == [batch.tolist() for batch in loader(target, make())][7:]


def test_reading_for_an_answer_has_the_timeout(service: ms.LocalService) -> None:
    class Waits:
        def __call__(self, x: Any) -> Any:
            time.sleep(30)
            return x

    dataset = numbers(20).map_python(Waits(), element_spec=ms.TensorSpec((), ms.int64)).filter(lambda x: x % 2 == 0).batch(2)
    part = loader(service, dataset, timeout=0.3)
    with pytest.raises(DeadlineExceededError, match=r"within the timeout of 0.3 s"):
        part.lineage(2)


def test_dropped_last_batches_have_no_lineage(cluster: Start) -> None:
    parts = [loader(cluster(1), numbers(110).batch(10), dp_rank=rank, dp_size=2, last_batch="DROP") for rank in range(2)]
    assert [len(part) for part in parts] == [5, 5]
    for part in parts:
        for step, batch in enumerate(part):
            assert check(part.lineage(step), batch)
        with pytest.raises(OutOfRangeError, match="step 5: epoch 0 has 5 steps"):
            part.lineage(5)


def test_sources_that_are_read_again_have_unknown_records(cluster: Start) -> None:
    part = loader(cluster(1), numbers(40).shuffle(100, reshuffle_each_iteration=True).repeat(2).batch(4))
    [found] = part.lineage(3).parts
    assert found.records is None and "several times in different orders" in found.note


def test_forgotten_steps_are_read_again(cluster: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_exact, "_PLACES_MAX", 4)
    part = loader(cluster(2), DATASETS["filtered"][0]())
    batches = list(part)
    for step in (0, 2, len(batches) - 9, len(batches) - 1):
        check(part.lineage(step), batches[step])
    assert part.state_dict(behind=2)["step"] == len(batches) - 2, "known positions remain"
    monkeypatch.setattr(_exact, "_READ_MAX", 3)
    check(part.lineage(2), batches[2])
    with pytest.raises(InvalidArgumentError, match="3 batches after step 0.*at most 3 batches are read.*load a state"):
        part.lineage(3)


class Slow:
    """Computes an element in a few milliseconds, so that a worker is killed in the middle of a split."""

    def __call__(self, x: Any) -> Any:
        time.sleep(0.004)
        return x


def slow(keeps: Callable[[Any], Any] | None) -> Dataset:
    dataset = Dataset.range(600).split_size(25).shuffle(10).map_python(Slow(), element_spec=ms.TensorSpec((), ms.int64))
    return (dataset if keeps is None else dataset.filter(keeps)).batch(3)


@pytest.fixture
def service() -> Iterator[ms.LocalService]:
    with ms.local(workers=3) as service:
        yield service


@pytest.mark.parametrize(
    ("keeps", "in_order"), [(None, True), (lambda x: x % 5 != 0, True), (None, False)], ids=["counted", "filtered", "any order"]
)
def test_lineage_holds_after_a_worker_was_killed(service: ms.LocalService, keeps: Any, in_order: bool) -> None:
    part = loader(service, slow(keeps), in_order=in_order)
    for step, batch in enumerate(part):
        assert check(part.lineage(step), batch) == (keeps is None)
        if step == 20:
            os.kill(service.pids[1], signal.SIGKILL)
    assert step > 100


def test_delivered_steps_in_any_order_have_a_lineage(cluster: Start) -> None:
    target = cluster(3)
    for name in ("splits", "filtered"):
        part = loader(target, DATASETS[name][0](), in_order=False)
        batches = iter(part)
        for step in range(9):
            batch = next(batches)
            check(part.lineage(step), batch)
        with pytest.raises(InvalidArgumentError, match="step 9 of epoch 0 is not among the last.*delivered in any order"):
            part.lineage(9)
        part.set_epoch(0)
        next(iter(part))
        with pytest.raises(InvalidArgumentError, match="step 3"):
            part.lineage(3)


def test_wrong_steps_are_refused(cluster: Start) -> None:
    target = cluster(1)
    counted, filtered = (loader(target, DATASETS[name][0]()) for name in ("shuffled", "filtered"))
    shuffled = loader(target, DATASETS["shuffled"][0](), in_order=False)
    with pytest.raises(OutOfRangeError, match="step 30: epoch 0 has 30 steps on trainer 0"):
        counted.lineage(30)
    with pytest.raises(IndexError, match="step 30: epoch 0 has 30 steps"):
        shuffled.lineage(30)
    with pytest.raises(OutOfRangeError, match="step 60: epoch 0 has fewer steps on trainer 0"):
        filtered.lineage(60)
    for part in (counted, shuffled, filtered):
        for step, epoch in ((-1, 0), (0, -1)):
            with pytest.raises(OutOfRangeError, match=f"step {step} of epoch {epoch}: steps and epochs begin at 0"):
                part.lineage(step, epoch=epoch)


def test_files_are_named(cluster: Start, tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / f"{name}.txt").write_text("".join(f"{name}{line}\n" for line in range(4)))
    part = loader(cluster(2), ms.TextLineDataset(Dataset.list_files(str(tmp_path / "*.txt"), shuffle=False)).batch(3))
    for step, batch in enumerate(part):
        [found] = part.lineage(step).parts
        assert found.file is not None and Path(found.file).stem == batch[0][0]
        assert found.positions == (0 if batch[0].endswith("0") else 1,)
        assert (found.records, found.byte_range, found.note) == (None, None, "")
    assert step == 5
    for path in tmp_path.iterdir():
        path.unlink()
    assert part.lineage(0).parts[0].file is not None, "the files were listed already"
    unlisted = pickle.loads(pickle.dumps(part)).lineage(0, epoch=0).parts[0]
    assert unlisted.file is None and "this process" in unlisted.note


def test_lineage_of_indices_is_their_samples() -> None:
    part = ms.DataLoader(list(range(50)), batch_size=4, shuffle=True, seed=5, output="numpy", dp_rank=1, dp_size=2)
    for step, batch in enumerate(part):
        assert list(part.lineage(step).parts[0].records or ()) == batch.tolist()
    with pytest.raises(OutOfRangeError, match="step 7: an epoch has 7 steps"):
        part.lineage(7)
    with pytest.raises(FailedPreconditionError, match="sampler"):
        ms.DataLoader(list(range(5)), sampler=[3, 1]).lineage(0)
    with pytest.raises(FailedPreconditionError, match="stream"):
        ms.DataLoader(lambda: range(5)).lineage(0)


def test_a_lineage_is_plain_data(cluster: Start) -> None:
    part = loader(cluster(1), numbers().split_size(12).batch(4))
    lineage = part.lineage(4)
    assert repr(lineage) == "<millstream.Lineage of step 4 of epoch 0, trainer 0: batch 1 of split 1, records 16 to 19>"
    assert repr(lineage.parts[0]) == "<millstream.LineagePart batch 1 of split 1, records 16 to 19>"
    plain = json.loads(lineage.to_json())
    assert plain["parts"][0] | {"note": ""} == {
        "split": 1, "positions": [1], "first": 12, "count": 12, "records": [16, 17, 18, 19], "is_exact": True, "file": None, "byte_range": None, "note": ""
    }
    assert plain == json.loads(json.dumps(dataclasses.asdict(lineage)))
    assert pickle.loads(pickle.dumps(lineage)) == lineage
    assert pickle.loads(pickle.dumps(part)).lineage(4) == lineage
    with pytest.raises(dataclasses.FrozenInstanceError):
        lineage.step = 3  # type: ignore[misc]


@pytest.mark.parametrize("stop", STOPS)
def test_lineage_of_mixtures_names_component_and_records(cluster: Start, stop: str) -> None:
    components = {"a": numbers(120).shuffle(30).batch(5), "b": Dataset.range(1000, 1060).shuffle(1000).batch(5)}
    made = ms.mix(components, [2, 1], stop=stop, service=cluster(2), visitation="exactly_once", output="numpy", seed=3, with_names=True)
    for step, (name, batch) in enumerate(made):
        lineage = made.lineage(step)
        assert (lineage.component, lineage.step, made.component(step)) == (name, step, name)
        assert check(lineage, batch - (1000 if name == "b" else 0))
        if step == 20:
            earlier = made.lineage(10)
        if step == 70:
            break
    # The lineage of a step is the same later, and for a component that has begun another epoch.
    assert made.lineage(10) == earlier
    if stop != "never":
        with pytest.raises(IndexError, match="steps"):
            made.lineage(1000)


def test_endless_mixtures_name_records_after_a_resume(cluster: Start) -> None:
    def mixture(rank: int, size: int) -> ms.Mixture:
        parts = {
            name: loader(cluster(2), Dataset.range(start, start + 110).shuffle(1000).batch(5), dp_rank=rank, dp_size=size)
            for name, start in (("a", 0), ("b", 1000))
        }
        return ms.mix(parts, [2, 1], stop="never", seed=3, with_names=True)

    parts = [mixture(rank, 2) for rank in range(2)]
    for part in parts:
        for _ in zip(range(40), part, strict=False):
            pass
    later = mixture(2, 3)
    later.load_state_dict(ms.joined_states([part.state_dict() for part in parts], 3))
    foreseen = {step: later.lineage(step) for step in (40, 45, 60, 90)}
    for step, (name, batch) in zip(range(40, 91), later, strict=False):
        lineages = [later.lineage(step), *([foreseen[step]] if step in foreseen else [])]
        for lineage in lineages:
            assert lineage.component == name and check(lineage, batch - (1000 if name == "b" else 0))
    for step in (5, 25):
        with pytest.raises((InvalidArgumentError, OutOfRangeError)):
            later.lineage(step)


def test_streams_in_mixtures_have_no_lineage() -> None:
    made = ms.mix([lambda: range(9)], output="numpy")
    with pytest.raises(FailedPreconditionError, match="stream") as caught:
        made.lineage(0)
    assert any("component '0'" in note for note in caught.value.__notes__)


COMMAND = os.environ.get("MILLSTREAM_COMMAND") or shutil.which("millstream")


def commanded(service: ms.LocalService, *arguments: str) -> tuple[str, str]:
    """Runs the command ``millstream``, and returns its output and its errors."""
    command = [str(COMMAND), *arguments, "--dispatcher", service.target.partition("://")[2]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode == 0) == bool(done.stdout), done
    return done.stdout, done.stderr


def job_of(service: ms.LocalService, dataset: Dataset, **options: Any) -> tuple[ms.DataLoader, Any, str]:
    """Starts a loader. Returns the loader, its iterator, and the number of its job."""
    part = loader(service, dataset, **options)
    batches = iter(part)
    next(batches)
    jobs = json.loads(commanded(service, "status", "--json")[0])["jobs"]
    return part, batches, str(max(job["id"] for job in jobs))


@pytest.mark.skipif(COMMAND is None, reason="there is no command millstream: python/check builds it")
def test_the_command_explains_steps_of_a_job(processes: ms.LocalService) -> None:
    parts = [loader(processes, numbers().shuffle(40).batch(8), dp_rank=rank, dp_size=3) for rank in range(3)]
    _, batches, job = job_of(processes, numbers().shuffle(40).batch(8), dp_rank=1, dp_size=3)
    for step in (0, 7, 12):
        lines = commanded(processes, "explain", "--job", job, "--step", str(step))[0].splitlines()
        assert lines[0].startswith(f"step {step} of epoch 0 of job {job}: dataset ") and lines[0].endswith(", seed 3, 3 trainers")
        for rank, line in enumerate(lines[1:]):
            if step < len(parts[rank]):
                assert line == str(parts[rank].lineage(step)).replace(f"step {step} of epoch 0, ", "")
            else:
                assert line == f"trainer {rank}: no batch, because its epoch has 12 steps"
        assert len(lines) == 4
    error = commanded(processes, "explain", "--job", job, "--step", "13")[1]
    assert "--step 13: the epoch has 13 steps, so the last step is 12" in error
    batches.close()


@pytest.mark.skipif(COMMAND is None, reason="there is no command millstream: python/check builds it")
def test_the_command_refuses_other_jobs(processes: ms.LocalService) -> None:
    def error(job: str) -> str:
        return commanded(processes, "explain", "--job", job, "--step", "0")[1]

    assert "no job has the id 77" in error("77")
    _, filtered, job = job_of(processes, numbers().filter(lambda x: x % 2 == 0).batch(5))
    assert "a filter or the files decide how many batches" in error(job) and "loader.lineage(0)" in error(job)
    upstream = iter(numbers().batch(5).apply(ms.service.distribute("distributed_epoch", processes, job_name="shared")))
    next(upstream)
    [shared] = [job for job in json.loads(commanded(processes, "status", "--json")[0])["jobs"] if job["name"] == "shared"]
    assert f"job {shared['id']} is not an exactly-once job" in error(str(shared["id"]))
    resumed = loader(processes, numbers().batch(10), dp_rank=0, dp_size=1)
    resumed.skip(7)
    _batches = iter(resumed)
    next(_batches)
    jobs = json.loads(commanded(processes, "status", "--json")[0])["jobs"]
    output, note = commanded(processes, "explain", "--job", str(max(job["id"] for job in jobs)), "--step", "2")
    assert "trainer 0: batch 0 of split 2, records 20 to 29" in output
    assert "the job began at split 7, in the middle of the epoch" in note
    for batches in (filtered, _batches):
        batches.close()
