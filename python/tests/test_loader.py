"""Tests of the loader: torch's arguments, the attributes that libraries use, and exact resumption from states."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import gc
import itertools
import json
import os
import pickle
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import millstream as ms
from millstream import DataLoader, Dataset, _code
from millstream._connection import connect

# Workers cannot import this module, so its functions and classes are pickled by value.
_code.cloudpickle.register_pickle_by_value(sys.modules[__name__])


class Numbers:
    """A dataset with indices, like a torch dataset."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> dict[str, Any]:
        if not 0 <= index < self.count:
            raise IndexError(index)
        return {"x": np.full(3, index, np.float32), "y": index}


def loader(count: int = 23, **arguments: Any) -> DataLoader:
    return DataLoader(Numbers(count), **{"batch_size": 4, "output": "numpy", "dp_rank": 0, "dp_size": 1, **arguments})


def ids(batches: Any) -> list[list[int]]:
    return [batch["y"].tolist() for batch in batches]


def sampled(batches: list[list[int]]) -> list[int]:
    return sorted(itertools.chain.from_iterable(batches))


def test_batches_are_those_of_a_data_loader() -> None:
    plain = loader()
    assert ids(plain) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12, 13, 14, 15], [16, 17, 18, 19], [20, 21, 22]]
    assert len(plain) == 6 and len(loader(drop_last=True)) == len(ids(loader(drop_last=True))) == 5
    assert plain.element_spec["x"] == ms.TensorSpec([None, 3], ms.float32)
    single = DataLoader(Numbers(2), batch_size=None, output="numpy")
    assert [int(sample["y"]) for sample in single] == [0, 1]
    with pytest.raises(ms.errors.InvalidArgumentError, match="exclude"):
        loader(shuffle=True, sampler=[1])
    assert ids(loader(sampler=[5, 3, 1], batch_size=2)) == [[5, 3], [1]]
    assert ids(loader(batch_sampler=[[1], [2, 3]], batch_size=1)) == [[1], [2, 3]]


def test_epochs_are_shuffled_differently_and_the_same_again() -> None:
    shuffled = loader(shuffle=True, seed=5)
    epochs = [ids(shuffled) for _ in range(3)]
    assert all(sampled(epoch) == list(range(23)) for epoch in epochs)
    assert len({str(epoch) for epoch in epochs}) == 3
    assert [ids(loader(shuffle=True, seed=5))] == epochs[:1]
    again = loader(shuffle=True, seed=5)
    again.set_epoch(2)
    assert ids(again) == epochs[2]


def test_iterators_are_lazy_and_independent() -> None:
    plain = loader(shuffle=True)
    iter(plain)
    iter(plain)
    assert (plain.epoch, plain.step) == (0, 0)
    one, two = iter(plain), iter(plain)
    first = [next(one), next(two), next(one)]
    # The second iterator reads the next epoch.
    assert plain.epoch == 1 and len(first) == 3
    rest = [ids([first[0], first[2], *one]), ids([first[1], *two])]
    assert [sampled(epoch) for epoch in rest] == [list(range(23))] * 2
    assert rest == [ids(again) for again in [loader(shuffle=True)] * 2]


def test_set_epoch_is_idempotent() -> None:
    plain = loader(shuffle=True)
    expected = [ids(plain) for _ in range(4)]
    for holder in (plain, plain.sampler, plain.dataset):
        for epoch in (3, 1, 2):
            for _ in range(2):
                holder.set_epoch(epoch)
            assert ids(plain) == expected[epoch] and plain.epoch == epoch
    reading = iter(plain)
    next(reading)
    plain.set_epoch(plain.epoch)
    # The running iterator of the epoch continues.
    assert plain.step == 1 and len(list(reading)) == 5
    plain.load_state_dict(plain.state_dict() | {"step": 3, "finished": False, "checksum": None})
    plain.set_epoch(plain.epoch)
    assert plain.step == 3


def test_a_finished_state_continues_with_the_next_epoch() -> None:
    reading = loader(shuffle=True, seed=3)
    expected = [ids(reading) for _ in range(2)]
    finished = reading.state_dict()
    assert (finished["epoch"], finished["finished"]) == (1, True)
    resumed = loader(shuffle=True, seed=3)
    resumed.load_state_dict(finished)
    assert (resumed.epoch, resumed.step, resumed.state_dict()) == (2, 0, finished)
    numbers = [resumed.epoch for _ in resumed]
    assert numbers == [2] * 6 and resumed.epoch == 2 and ids(reading) not in expected
    within = loader(shuffle=True, seed=3)
    within.load_state_dict(finished | {"step": 2, "finished": False, "checksum": None})
    assert (within.epoch, within.step, ids(within)) == (1, 2, expected[1][2:])


def test_an_unseeded_loader_takes_the_states_seed() -> None:
    reading = iter(seeded := loader(shuffle=True, seed=9))
    next(reading)
    state = seeded.state_dict()
    resumed = loader(shuffle=True)
    resumed.load_state_dict(state)
    assert resumed.state_dict() == state and ids(resumed) == ids(reading)
    with pytest.raises(ms.errors.InvalidArgumentError, match="the state has seed 9, this loader 8"):
        loader(shuffle=True, seed=8).load_state_dict(state)


def states(of: DataLoader, *, epochs: int = 2) -> Iterator[tuple[dict[str, Any], list[list[int]]]]:
    """Yields the state after each batch of several epochs, with the batches that were delivered before."""
    delivered: list[list[int]] = []
    yield of.state_dict(), list(delivered)
    for _ in range(epochs):
        for batch in of:
            delivered += ids([batch])
            yield of.state_dict(), list(delivered)
        yield of.state_dict(), list(delivered)


@pytest.mark.parametrize("arguments", [{}, {"shuffle": True, "seed": 9}, {"drop_last": True}, {"last_batch": "FILL"}])
def test_any_chain_of_states_is_one_run(arguments: dict[str, Any]) -> None:
    whole = list(itertools.chain.from_iterable(ids(epoch) for epoch in [loader(11, **arguments)] * 3))
    for state, before in states(loader(11, **arguments)):
        state = json.loads(json.dumps(state))
        assert len(json.dumps(state)) < 1024
        resumed = loader(11, **arguments)
        resumed.load_state_dict(state)
        assert resumed.state_dict() == state
        steps = len(resumed)
        # The state is saved and loaded again in the middle of the epoch.
        reading = iter(resumed)
        delivered = before + ids(itertools.islice(reading, 1))
        again = loader(11, **arguments)
        again.load_state_dict(resumed.state_dict())
        while len(delivered) < 3 * steps:
            delivered += ids(again)
        assert delivered == whole


def test_a_state_continues_with_other_trainers() -> None:
    def together(size: int, state: dict[str, Any] | None, stop: int) -> tuple[list[int], dict[str, Any]]:
        loaders = [
            DataLoader(Numbers(48), 12 // size, shuffle=True, seed=3, output="numpy", dp_rank=rank, dp_size=size)
            for rank in range(size)
        ]
        for one in loaders if state else []:
            one.load_state_dict(state or {})
        seen = [ids(itertools.islice(iter(one), stop)) for one in loaders]
        taken = [one.state_dict() for one in loaders]
        # The state is the same on all trainers.
        assert all(found == taken[0] for found in taken)
        return sampled([batch for batches in seen for batch in batches]), taken[0]

    for before, after in itertools.product((1, 2, 3, 4), repeat=2):
        first, state = together(before, None, 2)
        second, _ = together(after, state, 10)
        assert sorted(first + second) == list(range(48))
    with pytest.raises(ms.errors.InvalidArgumentError, match="not a whole number of steps"):
        other = DataLoader(Numbers(48), 7, shuffle=True, seed=3, output="numpy", dp_rank=0, dp_size=1)
        other.load_state_dict(state | {"step": 1, "global_batch": 12, "checksum": None})


def test_a_foreign_state_is_refused_by_name() -> None:
    state = loader(shuffle=True, seed=1).state_dict()
    for arguments, said in (({"seed": 2}, "seed 1, this loader 2"), ({"count": 24}, "samples 23, this loader 24")):
        other = loader(**{"shuffle": True, "seed": 1, **arguments})
        with pytest.raises(ms.errors.InvalidArgumentError, match=said):
            other.load_state_dict(state)
        other.load_state_dict(state, strict=False)
    with pytest.raises(ms.errors.InvalidArgumentError, match="version 9"):
        loader().load_state_dict({"version": 9})
    stream = DataLoader(Dataset.range(3))
    with pytest.raises(ms.errors.InvalidArgumentError, match="stream"):
        stream.load_state_dict(state)


def test_a_prefetching_trainer_says_how_far() -> None:
    ahead = loader()
    reading = iter(ahead)
    taken = ids(itertools.islice(reading, 3))
    resumed = loader()
    resumed.load_state_dict(ahead.state_dict(behind=1))
    assert taken[:2] + ids(resumed) == ids(loader())
    with pytest.raises(ms.errors.InvalidArgumentError, match="behind"):
        ahead.state_dict(behind=4)


def test_workers_deliver_samples_once_as_states_know(processes: ms.LocalService) -> None:
    reading = loader(203, shuffle=True, service=processes, in_order=False)
    batches = iter(reading)
    before = ids(itertools.islice(batches, 20))
    state = json.loads(json.dumps(reading.state_dict()))
    assert len(json.dumps(state)) < 1024 and reading.step == 20
    # The resumed loader reads undelivered batches again, on workers or in this process.
    for arguments in ({"service": processes}, {}):
        resumed = loader(203, shuffle=True, **arguments)
        resumed.load_state_dict(state)
        assert len(before) + len(after := ids(resumed)) == len(resumed)
        assert sampled(before + after) == list(range(203))
    assert sampled(before + ids(batches)) == list(range(203))
    assert reading.stats()["step"] == len(reading)
    if state["ahead"]:
        other = loader(203, shuffle=True, dp_rank=1, dp_size=2)
        with pytest.raises(ms.errors.InvalidArgumentError, match="dp_rank|dp_size"):
            other.load_state_dict(state)


SAMPLES = {
    "x": ms.TensorSpec([None, 3], ms.float32),
    "y": ms.TensorSpec([None], ms.int64),
    "is_slow": ms.TensorSpec([None], ms.bool),
}


class Uneven(Numbers):
    """A dataset whose samples are slow on the worker that computes the first sample."""

    def __init__(self, count: int, claim: Path) -> None:
        super().__init__(count)
        self.claim = claim

    def __getitem__(self, index: int) -> Any:
        worker = str(os.getppid())
        with contextlib.suppress(FileExistsError), self.claim.open("x") as claimed:
            claimed.write(worker)
        if self.claim.read_text() == worker:
            time.sleep(0.05)
        return {**super().__getitem__(index), "is_slow": self.claim.read_text() == worker}


def test_batches_of_uneven_workers_come_in_order(processes: ms.LocalService, tmp_path: Path) -> None:
    def read(**arguments: Any) -> tuple[DataLoader, list[Any]]:
        claim = tmp_path / f"claim{len(list(tmp_path.iterdir()))}"
        uneven = DataLoader(
            Uneven(120, claim), 2, service=processes, output="numpy", dp_rank=0, dp_size=1, element_spec=SAMPLES, **arguments
        )
        return uneven, list(uneven)

    ordered, batches = read()
    assert sampled(ids(batches)) == sum(ids(batches), []) == list(range(120))
    # Both workers computed samples, and the state lists no early steps.
    assert {bool(slow) for batch in batches for slow in batch["is_slow"]} == {False, True}
    assert ordered.state_dict()["ahead"] == []
    _, batches = read(in_order=False)
    assert sum(ids(batches), []) != sampled(ids(batches)) == list(range(120))


def test_workers_that_are_ahead_wait_for_the_others(processes: ms.LocalService, tmp_path: Path) -> None:
    begun, far = tmp_path / "begun", 200
    begun.mkdir()

    class Stuck(Numbers):
        """A dataset whose first sample waits until the other worker has begun too many samples, or a timeout has passed."""

        def __getitem__(self, index: int) -> Any:
            (begun / str(index)).touch()
            until = time.monotonic() + 1.5
            while index == 0 and time.monotonic() < until and len(list(begun.iterdir())) < far:
                time.sleep(0.01)
            return {"x": np.zeros(1 << 16, np.uint8), "y": index}

    spec = {"x": ms.TensorSpec([None, 1 << 16], ms.uint8), "y": ms.TensorSpec([None], ms.int64)}
    arguments: dict[str, Any] = {"num_workers": 2, "prefetch_factor": 2, "element_spec": spec, "dp_rank": 0, "dp_size": 1}
    reading = iter(DataLoader(Stuck(300), 1, service=processes, output="numpy", **arguments))
    assert ids([next(reading)]) == [[0]]
    assert len(list(begun.iterdir())) < far
    assert sum(ids(reading), []) == list(range(1, 300))


def test_workers_of_its_own_end_with_it() -> None:
    gc.collect()
    before = connections()
    with loader(20, num_workers=1, worker_init_fn=lambda worker: None) as own:
        assert sampled(ids(own)) == list(range(20))
        pids = own._own_service.pids
        assert pids and connections() > before
    assert own._own_service is None and own.stats()["delivered"] == 5
    until(lambda: connections() <= before)


def test_a_dropped_loader_ends_its_workers() -> None:
    gc.collect()
    before = connections()
    gc.disable()
    try:
        own = loader(20, num_workers=1)
        assert len(next(iter(own))["y"]) == 4
        pids = own._own_service.pids
        del own
        until(lambda: connections() <= before and not any(Path(f"/proc/{pid}/exe").exists() for pid in pids))
    finally:
        gc.enable()


def connections() -> int:
    """Returns the threads of this process that serve readers' connections."""
    names = []
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # A thread may end while it is looked at.
            names.append((task / "comm").read_text().strip())
    return names.count("reader")


def until(condition: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.01)


def test_epochs_that_are_left_leave_nothing_on_workers(cluster: Callable[..., str]) -> None:
    target = cluster(1)
    left = loader(1000, service=target, shuffle=True)
    for _ in range(5):
        for batch in left:
            assert len(batch["y"]) == 4
            break
    workers = connect(target.split("://")[1]).workers
    until(lambda: workers()[0]["tasks"] == 0)
    assert len(ids(left)) == 250


def mixed() -> Dataset:
    parts = [Dataset.range(10).repeat(2), Dataset.range(100, 110)]
    return Dataset.sample_from_datasets(parts, [0.7, 0.3], seed=2).shuffle(5, seed=4)


@pytest.mark.parametrize("native_dataset", [lambda: Dataset.range(30).shuffle(20, seed=4), mixed])
def test_native_datasets_go_on_where_they_were(native_dataset: Callable[[], Dataset]) -> None:
    def built() -> DataLoader:
        return DataLoader(native_dataset().batch(3), output="numpy")

    native = built()
    assert len(native) == 10
    epochs = [[batch.tolist() for batch in native] for _ in range(2)]
    reading = iter(native)
    for _ in range(3):
        next(reading)
    resumed = built()
    resumed.load_state_dict(native.state_dict())
    assert [b.tolist() for b in resumed] == [b.tolist() for b in reading]
    resumed.set_epoch(1)
    assert [b.tolist() for b in resumed] == epochs[1] and epochs[0] != epochs[1]
    # The resumed loader repeats draws without a seed.
    unseeded = Dataset.range(20).shuffle(20)
    one, other = DataLoader(unseeded, output="numpy"), DataLoader(Dataset.range(20).shuffle(20), output="numpy")
    reading = iter(one)
    taken = [int(next(reading)) for _ in range(5)]
    other.load_state_dict(one.state_dict())
    assert [int(x) for x in reading] == (left := [int(x) for x in other]) and sorted(taken + left) == list(range(20))


def test_unordered_loaders_resume_by_count_only(cluster: Any) -> None:
    target = cluster(1)

    def served() -> Dataset:
        return Dataset.range(10).apply(ms.service.distribute("distributed_epoch", target))

    for build in (served, lambda: served().map(lambda x: x + 1)):
        stream = DataLoader(build(), output="numpy")
        reading = iter(stream)
        next(reading)
        with pytest.raises(ms.errors.FailedPreconditionError, match="strict=False"):
            stream.load_state_dict(stream.state_dict())
        resumed = DataLoader(build(), output="numpy")
        resumed.load_state_dict(stream.state_dict(), strict=False)
        assert len(list(resumed)) == 9
        with pytest.raises(TypeError):
            len(stream)

    class RandomSampler(list[int]):
        """A sampler that draws a different order in each epoch."""

    with pytest.raises(ms.errors.FailedPreconditionError, match="RandomSampler"):
        drawn = loader(sampler=RandomSampler([1, 2]))
        drawn.load_state_dict(drawn.state_dict())


def test_an_iterable_is_a_stream() -> None:
    stream = DataLoader(lambda: ({"y": x} for x in range(7)), batch_size=2, output="numpy")
    assert ids(stream) == [[0, 1], [2, 3], [4, 5], [6]]
    with pytest.raises(TypeError, match="len"):
        len(stream)
    reading = iter(stream)
    next(reading)
    resumed = DataLoader(lambda: ({"y": x} for x in range(7)), batch_size=2, output="numpy")
    resumed.load_state_dict(stream.state_dict())
    assert ids(resumed) == ids(reading) == [[2, 3], [4, 5], [6]]
    with pytest.raises(ms.errors.InvalidArgumentError, match="iterated over"):
        DataLoader(iter([1]), shuffle=True)


def test_the_surface_that_trainers_look_for() -> None:
    full = loader(10, batch_size=4, dp_rank=1, dp_size=2, last_batch="FILL")
    assert (full.batch_size, full.total_batch_size, full.batch_sampler, full.drop_last) == (4, 8, None, False)
    assert (full.num_workers, full.pin_memory, full.prefetch_factor, full.persistent_workers) == (0, False, None, True)
    assert (full.timeout, full.worker_init_fn, full.generator, full.multiprocessing_context) == (0, None, None, None)
    assert full.in_order and callable(full.collate_fn) and (full.epoch, full.step, full.device) == (0, 0, None)
    assert full.last_batch_valid_count is None and bool(full)
    batches = [(ids([batch])[0], full.last_batch_valid_count) for batch in full]
    # The second step has only two of the ten samples, for the other trainer. This trainer repeats samples from the start.
    assert batches == [([4, 5, 6, 7], 4), ([2, 3, 4, 5], 0)]
    stub = full.dataset
    assert len(stub) == 10 and stub[3]["y"] == 3 and stub.count == 10 and stub.n_shards == stub.num_shards == 10
    whole = loader(10).dataset
    assert sampled([batch for shard in range(3) for batch in ids(whole.shard(3, shard))]) == list(range(10))
    assert stub.state_dict() == full.state_dict() == full.get_state()
    full.set_state(full.state_dict())
    for argument, said in (("timeout", -1), ("last_batch", "SOME"), ("batch_size", 0)):
        with pytest.raises(ValueError, match=argument):
            loader(**{argument: said})
    with pytest.warns(DeprecationWarning, match="pin_memory_device"):
        loader(pin_memory_device="cuda")


def test_repr_is_local_and_names_the_trainer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "8")
    # No process listens at this address.
    lonely = DataLoader(Numbers(5), service="localhost:9", replication=2, output="numpy")
    assert "localhost:9" in repr(lonely) and "trainer 1 of 4 (torchrun: RANK, WORLD_SIZE)" in repr(lonely)
    with pytest.raises(ValueError, match="replication=3"):
        DataLoader(Numbers(5), replication=3)


def test_a_loader_is_pickled_with_its_position() -> None:
    plain = loader(shuffle=True)
    reading = iter(plain)
    taken = ids(itertools.islice(reading, 2))
    copied = pickle.loads(pickle.dumps(plain))
    assert copied.state_dict() == plain.state_dict()
    assert ids(copied) == ids(reading) and sampled(taken) != []


def test_prefetching_begins_the_epoch() -> None:
    plain = loader()
    plain.start_prefetch()
    plain.start_prefetch()
    assert plain.step == 0
    plain.set_epoch(0)
    assert ids(plain) == ids(loader()) and plain.epoch == 0

    async def read() -> list[Any]:
        return [batch async for batch in plain]

    assert len(asyncio.run(read())) == 6 and plain.epoch == 1


def test_states_and_profiles_are_files(tmp_path: Path) -> None:
    plain = loader()
    with plain.profile(tmp_path / "trace.json"):
        next(iter(plain))
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert {event["name"] for event in events} >= {"wait", "work"}
    asyncio.run(plain.save(tmp_path))
    other = loader()
    asyncio.run(other.load(tmp_path))
    assert other.step == 1


def test_a_late_batch_is_an_error() -> None:
    def slow() -> Iterator[int]:
        yield 1
        # Code in this process cannot be killed, so the loader waits for its end after the timeout.
        time.sleep(3)

    waiting = DataLoader(slow, batch_size=None, timeout=0.2, element_spec=ms.TensorSpec((), ms.int64), output="numpy")
    reading = iter(waiting)
    assert next(reading) == 1
    with pytest.raises(ms.errors.DeadlineExceededError, match="timeout of 0.2 s"):
        next(reading)


class Broken(Numbers):
    """A dataset with one sample that cannot be read."""

    def __getitem__(self, index: int) -> Any:
        if index == 13:
            raise LookupError("no picture:\nthe file is empty")
        return super().__getitem__(index)


def test_an_error_names_worker_step_and_samples(
    processes: ms.LocalService, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ms.errors.UserFunctionError, match="no picture") as raised:
        list(DataLoader(Broken(23), 4, service=processes, output="numpy", dp_rank=0, dp_size=1))
    error = raised.value
    assert error.worker and isinstance(error.__cause__, LookupError)
    assert str(error.__cause__).startswith("no picture:\nthe file is empty")
    assert "at step 3 of epoch 0, of samples 12, 13, 14, 15" in error.remote_traceback
    assert "__getitem__" in error.remote_traceback and "millstream/_loading.py" not in error.remote_traceback
    monkeypatch.setenv("MILLSTREAM_FULL_TRACEBACK", "1")
    with pytest.raises(ms.errors.UserFunctionError) as raised:
        list(DataLoader(Broken(23), 4, output="numpy", dp_rank=0, dp_size=1))
    assert "millstream/_loading.py" in raised.value.remote_traceback


def test_a_user_keeps_every_batch(processes: ms.LocalService) -> None:
    large = DataLoader(Dataset.from_tensors(np.ones(1 << 18, np.float32)).repeat(96), service=processes, output="numpy")
    # The batches exceed the shared memory of the workers. Held batches are therefore copied, and no reader waits forever.
    kept = list(large)
    assert len(kept) == 2 * 96 or len(kept) == 96
    assert all(float(batch.sum()) == 1 << 18 for batch in kept)


def test_a_data_loader_of_torch_is_taken_over() -> None:
    torch = pytest.importorskip("torch")
    theirs = torch.utils.data.DataLoader(Numbers(10), batch_size=4, drop_last=True)
    ours = ms.wrap(theirs)
    assert [batch["y"].tolist() for batch in ours] == [batch["y"].tolist() for batch in theirs]
    assert all(isinstance(batch["x"], torch.Tensor) for batch in ours)


def test_anything_is_wrapped() -> None:
    assert [int(x) for x in ms.wrap(Dataset.range(3), output="numpy")] == [0, 1, 2]
    assert ids([sample for sample in ms.wrap(Numbers(2), output="numpy")]) == [0, 1]
    assert ids(ms.wrap(Numbers(4), batch_size=2, output="numpy")) == [[0, 1], [2, 3]]


class Large(Numbers):
    """A dataset with samples in memory that exceed the limit of a definition, optionally with an object that cannot be pickled."""

    def __init__(self, count: int, *, is_open: bool = False) -> None:
        super().__init__(count)
        self.samples = np.arange(count << 18, dtype=np.float64).reshape(count, -1)
        self.lock = threading.Lock() if is_open else None
        self.asked: list[int] = []

    def __getitem__(self, index: int) -> dict[str, Any]:
        self.asked.append(index)
        return {"x": self.samples[index, :2], "y": index}


def test_any_dataset_is_read_here_unchanged() -> None:
    large = Large(12, is_open=True)
    assert ids(DataLoader(large, batch_size=5, output="numpy")) == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9], [10, 11]]
    assert set(large.asked) == set(range(12))

    def made() -> Iterator[Any]:
        with large.lock or contextlib.nullcontext():
            yield from range(3)

    assert [batch.tolist() for batch in DataLoader(made, batch_size=2, output="numpy")] == [[0, 1], [2]]


def test_local_workers_read_large_datasets_from_here() -> None:
    with DataLoader(Large(12), batch_size=5, num_workers=2, output="numpy") as own:
        for _ in range(2):
            assert ids(own) == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9], [10, 11]]
        sent = own._loading._sent  # type: ignore[attr-defined]
        assert len(sent[1].code) < 4096
    with ms.local(workers=1, threads=1) as service:
        assert sampled(ids(ms.distribute(Large(4), service, batch_size=3))) == [0, 1, 2, 3]
        with pytest.raises(ms.errors.InvalidArgumentError, match="ms.local returns"):
            ms.distribute(Large(12), service.target, batch_size=3)
        copied = pickle.loads(pickle.dumps(DataLoader(Large(12), batch_size=8, service=service, output="numpy")))
        assert sampled(ids(copied)) == list(range(12))
    del copied
    del own, sent
    gc.collect()
    assert not [fd for fd in Path("/proc/self/fd").iterdir() if "millstream-shelf" in str(_target(fd))]


def _target(fd: Path) -> Path | None:
    with contextlib.suppress(OSError):
        return fd.readlink()
    return None


def test_samples_are_mappings_or_named() -> None:
    class Tokens:
        def __len__(self) -> int:
            return 3

        def __getitem__(self, index: int) -> Any:
            return collections.UserDict({"ids": np.full(2, index), "pair": [index, (index,)]})

    (batch,) = DataLoader(Tokens(), batch_size=3, output="numpy")
    assert batch["ids"].tolist() == [[0, 0], [1, 1], [2, 2]]
    assert isinstance(batch["pair"], list) and isinstance(batch["pair"][1], tuple)

    def padded(samples: list[Any]) -> Any:
        return collections.UserDict({"ids": np.stack([sample["ids"] for sample in samples])})

    (batch,) = DataLoader(Tokens(), batch_size=3, collate_fn=padded, output="numpy")
    assert batch["ids"].shape == (3, 2)
    with pytest.raises(TypeError, match="of type object.* is not a valid item of a tensor.*collate_fn"):
        list(DataLoader([object()], output="numpy"))


class Growing:
    """A dataset of sequences of different lengths."""

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> Any:
        return np.full(index + 1, index)


def padded(samples: list[Any]) -> Any:
    longest = max(len(sample) for sample in samples)
    return {"ids": np.stack([np.pad(sample, (0, longest - len(sample))) for sample in samples])}


@pytest.mark.parametrize("num_workers", [0, 1])
def test_collation_decides_a_batchs_length(num_workers: int) -> None:
    arguments: dict[str, Any] = {"num_workers": num_workers, "output": "numpy"}
    with DataLoader(Growing(), batch_size=2, collate_fn=padded, **arguments) as loader:
        assert [batch["ids"].shape for batch in loader] == [(2, 2), (2, 4), (2, 6)]
        assert loader.element_spec["ids"].dtype == ms.int64
    with DataLoader(lambda: iter(Growing()[index] for index in range(3)), batch_size=None, **arguments) as stream:
        assert [sample.shape for sample in stream] == [(1,), (2,), (3,)]
    said = DataLoader(Growing(), batch_size=None, element_spec=ms.TensorSpec([1], ms.int64), output="numpy")
    with pytest.raises(ms.errors.UserFunctionError, match=r"i64\[2\].*element_spec"):
        list(said)


def test_unbatchable_samples_say_what_to_do() -> None:
    for samples, says in (
        ([None, 1], "found None: replace"),
        ([[1], [1, 2]], r"found lengths \[1, 2\]: pad"),
        ([np.zeros(1), np.zeros(2)], r"shapes \(1,\) and \(2,\): pad"),
    ):
        with pytest.raises((TypeError, ValueError), match=f"{says}.*collate_fn"):
            list(DataLoader(samples, batch_size=2, output="numpy"))


@pytest.mark.parametrize(
    "arguments",
    [{"batch_size": 8}, {"shuffle": True}, {"sampler": [1]}, {"batch_sampler": [[1]]}, {"collate_fn": list}],
)
def test_datasets_of_batches_refuse_arguments_for_samples(arguments: dict[str, Any]) -> None:
    batches = ms.Dataset.range(16).batch(4)
    with pytest.raises(ms.errors.InvalidArgumentError, match=rf"{next(iter(arguments))}: an ms\.Dataset has no such arguments"):
        DataLoader(batches, **arguments)
    assert len(list(DataLoader(batches, batch_size=None, shuffle=False, output="numpy"))) == 4


def test_arguments_that_cannot_be_are_refused() -> None:
    for arguments, says in (
        ({"num_workers": -1}, "num_workers=-1"),
        ({"prefetch_factor": 0}, "prefetch_factor=0"),
        ({"batch_sampler": [[0]], "batch_size": 4}, "exclude"),
        ({"batch_sampler": [[0]], "drop_last": True}, "exclude"),
    ):
        with pytest.raises(ms.errors.InvalidArgumentError, match=says):
            DataLoader(Numbers(3), output="numpy", **arguments)  # type: ignore[arg-type]


def test_single_samples_are_collated_too() -> None:
    single = DataLoader(Numbers(3), batch_size=None, collate_fn=lambda sample: sample["y"] + 10, output="numpy")
    assert [int(sample) for sample in single] == [10, 11, 12]
    stream = DataLoader(lambda: iter(range(3)), batch_size=None, collate_fn=lambda sample: sample + 10, output="numpy")
    assert [int(sample) for sample in stream] == [10, 11, 12]


def test_what_begins_workers_is_not_called_here() -> None:
    def begin(worker: int) -> None:
        raise AssertionError(f"there is no worker {worker}")

    assert sampled(ids(loader(3, worker_init_fn=begin))) == [0, 1, 2]


class Epochs:
    """An iterable whose elements depend on the epoch of ``set_epoch``, like the datasets of Hugging Face."""

    epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        return iter([self.epoch, self.epoch + 10])


@pytest.mark.parametrize("num_workers", [0, 1])
def test_iterables_are_told_the_epoch(num_workers: int) -> None:
    with DataLoader(Epochs(), batch_size=2, num_workers=num_workers, output="numpy") as stream:
        assert [[batch.tolist() for batch in stream] for _ in range(2)] == [[[0, 10]], [[1, 11]]]
        stream.set_epoch(7)
        assert [batch.tolist() for batch in stream] == [[7, 17]]


def test_a_one_pass_iterator_is_refused() -> None:
    with pytest.raises(ms.errors.InvalidArgumentError, match="read only once.*function"):
        DataLoader(iter(range(3)), output="numpy")
