"""Tests of loaders and structures of tensors on a GPU with torch. ``python/check --gpu`` runs these tests."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

import numpy as np
import pytest

import millstream as ms
from millstream._feed_torch import _REGISTRY
from millstream.service import distribute

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="torch finds no GPU, so these tests did not run"
)

#: The bytes of an element that is copied from registered shared memory.
LARGE_BYTES = 1 << 20


def numbered(count: int, size_bytes: int = LARGE_BYTES) -> ms.Dataset:
    """Returns a dataset whose element i is filled with the number i."""
    full = ms.TensorSpec((size_bytes // 4,), ms.int32)
    return ms.Dataset.range(count).map_python(lambda number: np.full(size_bytes // 4, int(number), np.int32), element_spec=full)


def first_items(batches: Any) -> list[list[int]]:
    """Returns the first item of each element of each batch, after a check that all items of an element are equal."""
    found = []
    for batch in batches:
        assert batch.is_cuda and bool((batch == batch[:, :1]).all())
        found.append(batch[:, 0].tolist())
    return found


def loader(service: ms.LocalService) -> ms.DataLoader:
    dataset = numbered(60).shuffle(20, seed=3).batch(4)
    return ms.DataLoader(dataset, batch_size=None, service=service, seed=5, device="cuda", visitation="exactly_once")


def test_structures_of_all_types_arrive_whole(processes: ms.LocalService) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    value = {
        "text": "späť",
        "flag": np.array([True, False]),
        "scalar": np.float64(2.5),
        "none": np.zeros((0, 3), np.int16),
        "half": np.arange(6, dtype=np.float16).reshape(2, 3),
        "brain": np.arange(100_000).astype(ml_dtypes.bfloat16),
        "pair": (np.arange(7, dtype=np.uint8), np.arange(200_000, dtype=np.int64)),
    }
    dataset = ms.Dataset.from_tensors(value).repeat(30).apply(distribute("parallel_epochs", processes))
    elements = list(ms.feed(dataset))
    assert len(elements) == 60
    for element in elements:
        assert element["text"] == "späť" and element["flag"].tolist() == [True, False]
        assert element["scalar"].is_cuda and element["scalar"].item() == 2.5
        assert element["none"].is_cuda and tuple(element["none"].shape) == (0, 3)
        assert element["half"].dtype == torch.float16 and element["half"].tolist() == [[0, 1, 2], [3, 4, 5]]
        assert element["brain"].dtype == torch.bfloat16
        assert torch.equal(element["brain"], torch.arange(100_000, device="cuda").to(torch.bfloat16))
        small, large = element["pair"]
        assert small.tolist() == list(range(7)) and torch.equal(large, torch.arange(200_000, device="cuda"))


def test_a_loader_resumes_on_the_gpu(processes: ms.LocalService) -> None:
    whole = first_items(loader(processes))
    assert sorted(item for batch in whole for item in batch) == list(range(60))
    for taken in (0, 1, 7, 14):
        interrupted = loader(processes)
        iterator = iter(interrupted)
        before = first_items(next(iterator) for _ in range(taken))
        # Batches that are prefetched to the device do not count as read.
        state = interrupted.state_dict()
        iterator.close()  # type: ignore[attr-defined]
        resumed = loader(processes)
        resumed.load_state_dict(state)
        assert before + first_items(resumed) == whole


def test_a_killed_worker_loses_nothing_on_the_gpu() -> None:
    with ms.local(workers=2) as service:
        found: list[int] = []
        for number, batch in enumerate(loader(service)):
            assert bool((batch == batch[:, :1]).all())
            found += batch[:, 0].tolist()
            if number == 3:
                # The memory of the dead worker stays mapped and registered while copies read it.
                os.kill(service.pids[1], signal.SIGKILL)
    assert sorted(found) == list(range(60))


def test_no_memory_stays_registered(processes: ms.LocalService) -> None:
    served = numbered(40).apply(distribute("distributed_epoch", processes))
    for number, _ in enumerate(ms.feed(served)):
        if number == 5:
            break
    with pytest.raises(ZeroDivisionError):
        for number, _ in enumerate(ms.feed(served)):
            assert _REGISTRY._mappings, "shared memory must be registered while a feed reads it"
            1 / (5 - number)
    assert not _REGISTRY._mappings


def test_feeds_in_several_threads_deliver_everything(processes: ms.LocalService) -> None:
    served = numbered(50).apply(distribute("parallel_epochs", processes))
    found: list[list[int]] = [[] for _ in range(3)]

    def read(mine: list[int]) -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            for tensor in ms.feed(served):
                assert bool((tensor == tensor[0]).all())
                mine.append(int(tensor[0]))

    threads = [threading.Thread(target=read, args=(mine,)) for mine in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # Each of the two workers reads the whole dataset.
    assert all(sorted(mine) == sorted([*range(50)] * 2) for mine in found)
    assert not _REGISTRY._mappings
