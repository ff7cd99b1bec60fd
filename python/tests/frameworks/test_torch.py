"""Tests with torch: tensors, training loops, and the loaders and trainers of libraries for torch."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import millstream as ms
from millstream import Dataset
from millstream._distribute import from_python
from millstream.service import distribute

torch = pytest.importorskip("torch")

#: The number of items in an array that is delivered as a view instead of a copy.
LARGE = 4096


def line(count: int = 256, batch: int = 16) -> Dataset:
    """Returns batches of points on the line y = 2 x + 1."""
    x = np.linspace(-1, 1, count, dtype=np.float32)[:, None]
    return Dataset.from_tensor_slices((x, 2 * x + 1)).shuffle(count).batch(batch)


def is_learnt(model: Any) -> bool:
    """Returns whether a linear model has learnt the line."""
    weight, bias = (float(value.detach().flatten()[0]) for value in model.parameters())
    return abs(weight - 2) < 0.1 and abs(bias - 1) < 0.1


def step(model: Any, optimizer: Any, x: Any, y: Any) -> None:
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()


@pytest.mark.parametrize(
    "dtype", ["bool", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16", "bfloat16", "float8_e4m3fn"]
)
@pytest.mark.parametrize("count", [6, LARGE])
def test_tensors_of_every_type_arrive_as_they_are(dtype: str, count: int, processes: ms.LocalService) -> None:
    numbers = np.arange(count).reshape(2, -1) % 100
    if dtype[0] in "bf" and dtype not in ("bool", "f2", "f4", "f8"):
        kind: Any = getattr(pytest.importorskip("ml_dtypes"), dtype)
        value, expected = numbers.astype(kind), getattr(torch, dtype)
    else:
        value = numbers.astype(dtype)
        expected = torch.from_numpy(value).dtype
    dataset = Dataset.from_tensors(value).repeat(3).apply(distribute("parallel_epochs", processes))
    for tensor in dataset.with_output("torch"):
        assert tensor.dtype == expected and tuple(tensor.shape) == value.shape
        assert tensor.data_ptr() % 64 == 0 and tensor.is_contiguous()
        assert np.array_equal(tensor.to(torch.complex128).numpy(), value.astype(np.complex128))


def test_tensors_own_private_writable_memory(processes: ms.LocalService) -> None:
    value = {"a": np.arange(LARGE, dtype=np.float32), "b": np.ones(3), "text": "späť"}
    dataset = Dataset.from_tensors(value).repeat(40).apply(distribute("parallel_epochs", processes))
    kept = list(dataset.with_output("torch"))
    for number, element in enumerate(kept):
        element["a"].fill_(number)
    gc.collect()
    assert all(bool((element["a"] == number).all()) for number, element in enumerate(kept))
    assert all(element["b"].tolist() == [1, 1, 1] and element["text"] == "späť" for element in kept)
    assert len({element["a"].data_ptr() for element in kept}) == len(kept)


def test_scalars_and_empty_tensors_keep_their_shapes() -> None:
    for value in (np.float32(3), np.zeros((0, 3)), np.zeros((3, 0), np.int32)):
        (tensor,) = Dataset.from_tensors(value).with_output("torch")
        assert tuple(tensor.shape) == np.shape(value) and tensor.tolist() == np.asarray(value).tolist()


def test_unknown_dtypes_are_refused_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = Dataset.from_tensors(np.ones(3)).repeat(2).with_output("torch")
    from millstream import _output

    def refuse(capsule: Any) -> Any:
        raise BufferError("no such type")

    monkeypatch.setattr(_output._Torch, "__call__", lambda self, capsule: refuse(capsule))
    elements = iter(dataset)
    for _ in range(2):
        with pytest.raises(BufferError, match="no such type"):
            next(elements)


def test_a_plain_loop_trains(processes: ms.LocalService) -> None:
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.3)
    batches = line().apply(distribute("distributed_epoch", processes)).with_output("torch")
    for _ in range(20):
        assert sum(len(x) for x, y in batches if step(model, optimizer, x, y) is None) == 256
    assert is_learnt(model)


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("library", ["torch", "torchdata"])
def test_loaders_of_processes_share_one_reading(library: str, num_workers: int, processes: ms.LocalService) -> None:
    if library == "torch":
        loader_class: Any = torch.utils.data.DataLoader
    else:
        loader_class = pytest.importorskip("torchdata.stateful_dataloader").StatefulDataLoader
    dataset = Dataset.range(100).batch(10).apply(distribute("distributed_epoch", processes))
    loader = loader_class(
        ms.torch.IterableDataset(dataset),
        batch_size=None,
        num_workers=num_workers,
        multiprocessing_context="spawn" if num_workers else None,
    )
    for _ in range(2):
        assert sorted(int(x) for batch in loader for x in batch) == list(range(100))


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_row_245_loaders_of_processes_however_they_start(method: str, begun: bool, processes: ms.LocalService) -> None:
    dataset = Dataset.range(60).batch(10).apply(distribute("distributed_epoch", processes))
    if begun:
        # This process already has a connection, and an iterator in the middle of an epoch.
        reading = iter(dataset)
        next(reading)
    loader = torch.utils.data.DataLoader(
        ms.torch.IterableDataset(dataset), batch_size=None, num_workers=2, multiprocessing_context=method, timeout=120
    )
    for _ in range(2):
        assert sorted(int(x) for batch in loader for x in batch) == list(range(60))


def test_loaders_divide_what_is_computed_by_themselves() -> None:
    for num_workers in (0, 2):
        dataset = ms.torch.IterableDataset(Dataset.range(30).batch(3))
        loader = torch.utils.data.DataLoader(
            dataset, batch_size=None, num_workers=num_workers, multiprocessing_context="spawn" if num_workers else None
        )
        assert sorted(int(x) for batch in loader for x in batch) == list(range(30))


class Squares(torch.utils.data.Dataset[Any]):
    """A dataset by index."""

    def __len__(self) -> int:
        return 50

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return torch.full((3,), float(index)), index * index


def test_a_data_loader_runs_on_the_workers(processes: ms.LocalService) -> None:
    import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    loader = torch.utils.data.DataLoader(Squares(), batch_size=8, shuffle=True)
    batches = ms.distribute(loader, processes).with_output("torch")
    found = {int(square): float(x[0]) for xs, squares in batches for x, square in zip(xs, squares, strict=True)}
    assert found == {index * index: float(index) for index in range(50)}


def test_lightning_fits_without_touching_the_loader(processes: ms.LocalService, tmp_path: Any) -> None:
    lightning = pytest.importorskip("lightning")

    class Line(lightning.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.model = torch.nn.Linear(1, 1)
            self.steps = 0

        def training_step(self, batch: Any, index: int) -> Any:
            self.steps += 1
            x, y = batch
            return torch.nn.functional.mse_loss(self.model(x), y)

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), 0.3)

    module = Line()
    batches = line().apply(distribute("distributed_epoch", processes)).with_output("torch")
    trainer = lightning.Trainer(
        max_epochs=20,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=tmp_path,
    )
    trainer.fit(module, batches)
    assert module.steps >= 20 * 16 and is_learnt(module.model)


@pytest.mark.parametrize("prepared", [False, True])
def test_accelerate_trains_with_and_without_preparing_the_loader(prepared: bool, processes: ms.LocalService) -> None:
    accelerate = pytest.importorskip("accelerate")
    accelerator = accelerate.Accelerator(cpu=True)
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.3)
    loader: Any = line().apply(distribute("distributed_epoch", processes)).with_output("torch")
    if prepared:
        loader = torch.utils.data.DataLoader(ms.torch.IterableDataset(loader), batch_size=None)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for _ in range(20):
        seen = 0
        for x, y in loader:
            optimizer.zero_grad()
            accelerator.backward(torch.nn.functional.mse_loss(model(x), y))
            optimizer.step()
            seen += len(x)
        assert seen == 256
    assert is_learnt(accelerator.unwrap_model(model))


def test_datasets_of_hugging_face_are_distributed(processes: ms.LocalService) -> None:
    datasets = pytest.importorskip("datasets")
    table = datasets.Dataset.from_dict({"x": list(range(40)), "text": [f"n{index}" for index in range(40)]})
    batches = ms.distribute(table, processes, batch_size=8, shuffle=True)
    found = sorted((int(x), text) for batch in batches for x, text in zip(batch["x"], batch["text"], strict=True))
    assert found == [(index, f"n{index}") for index in range(40)]
    streamed = table.to_iterable_dataset(num_shards=4)
    (one,) = [ms.distribute(streamed, processes, processing_mode="parallel_epochs")]
    assert sorted(int(row["x"]) for row in one) == sorted(list(range(40)) * 2)


def test_datasets_of_grain_are_distributed(processes: ms.LocalService) -> None:
    grain = pytest.importorskip("grain")
    by_index = grain.MapDataset.source(list(range(40))).map(lambda x: {"x": x, "square": x * x})
    batches = ms.distribute(by_index, processes, batch_size=8, shuffle=True)
    found = sorted((int(x), int(square)) for batch in batches for x, square in zip(batch["x"], batch["square"], strict=True))
    assert found == [(x, x * x) for x in range(40)]
    streamed = by_index.shuffle(seed=1).batch(10).to_iter_dataset()
    every = ms.distribute(streamed, processes)
    # Each of the two workers yields all elements.
    assert sorted(int(x) for batch in every for x in batch["x"]) == sorted(list(range(40)) * 2)


MODULE = """
import torch

class Rows(torch.utils.data.IterableDataset):
    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        for index in range(info.id, 30, info.num_workers):
            yield {"x": torch.tensor(index), "text": f"n{index}"}

def rows():
    return Rows()

def grown(x):
    return torch.full((3,), float(x))
"""


def test_functions_that_workers_have_are_named(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "of_the_workers.py").write_text(MODULE)
    # Workers find the module in this folder. This process does not import the module.
    monkeypatch.syspath_prepend(tmp_path)
    spec = {"x": ms.TensorSpec((), ms.int64), "text": ms.TensorSpec((), ms.string)}
    with ms.local(workers=1) as service:
        limits = ms.Limits(processes=3)
        rows = list(ms.distribute("of_the_workers:rows", service, element_spec=spec, limits=limits))
        assert sorted((int(row["x"]), row["text"]) for row in rows) == [(index, f"n{index}") for index in range(30)]
        grown = Dataset.range(5).map_python("of_the_workers:grown", element_spec=ms.TensorSpec((3,), ms.float32))
        found = list(grown.apply(distribute("distributed_epoch", service)).with_output("torch"))
        assert [tensor.tolist() for tensor in found] == [[index] * 3 for index in range(5)]
        with pytest.raises(ms.errors.MillstreamError, match="of_the_workers.*missing"):
            list(ms.distribute("of_the_workers:missing", service, element_spec=spec))


def test_the_hugging_face_trainer_takes_the_loader(processes: ms.LocalService, tmp_path: Any) -> None:
    transformers = pytest.importorskip("transformers")

    class Line(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = torch.nn.Linear(1, 1)

        def forward(self, x: Any, labels: Any) -> dict[str, Any]:
            return {"loss": torch.nn.functional.mse_loss(self.model(x), labels)}

    batches = (
        line()
        .map(lambda x, y: {"x": x, "labels": y})
        .apply(distribute("distributed_epoch", processes))
        .with_output("torch")
    )

    class Trainer(transformers.Trainer):  # type: ignore[misc, name-defined]
        def get_train_dataloader(self) -> Any:
            return batches

    model = Line()
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path), max_steps=320, learning_rate=0.05, use_cpu=True, report_to=[], disable_tqdm=True, save_strategy="no"
    )
    Trainer(model=model, args=arguments).train()
    assert is_learnt(model.model)


def test_a_generator_that_holds_elements_apart_keeps_them(processes: ms.LocalService) -> None:
    def doubled() -> Iterator[Any]:
        for index in range(10):
            yield torch.full((LARGE,), index)

    read = [tensor[0].item() for tensor in ms.distribute(doubled, processes).with_output("torch")]
    assert sorted(read) == sorted(list(range(10)) * 2)


class Sharded(torch.utils.data.IterableDataset):  # type: ignore[misc]
    """An iterable that divides itself among the loader's processes, as in torch's documentation."""

    def __iter__(self) -> Iterator[int]:
        info = torch.utils.data.get_worker_info()
        return iter(range(8) if info is None else range(info.id, 8, info.num_workers))


@pytest.mark.parametrize("num_workers", [0, 1, 2])
def test_a_self_dividing_iterable_is_read_once(num_workers: int) -> None:
    theirs = torch.utils.data.DataLoader(Sharded(), batch_size=2, num_workers=num_workers)
    with ms.wrap(theirs) as ours:
        assert sorted(int(x) for batch in ours for x in batch) == list(range(8))


class Told(torch.utils.data.Dataset):  # type: ignore[misc]
    """A dataset whose samples contain the number of the process that computed them."""

    begun = -1

    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> dict[str, int]:
        info = torch.utils.data.get_worker_info()
        return {"id": info.id if info else -1, "of": info.num_workers if info else 0, "begun": self.begun}


def _begin(worker: int) -> None:
    torch.utils.data.get_worker_info().dataset.begun = worker


def test_loader_processes_are_numbered() -> None:
    with ms.DataLoader(Told(), batch_size=2, num_workers=3, worker_init_fn=_begin) as loader:
        for batch in loader:
            assert set(batch["of"].tolist()) == {3} and set(batch["id"].tolist()) <= {0, 1, 2}
            assert batch["begun"].tolist() == batch["id"].tolist()


def test_samplers_are_kept_or_refused() -> None:
    data = torch.utils.data.TensorDataset(torch.arange(10))
    batches = torch.utils.data.DataLoader(data, batch_sampler=[[0, 1, 2], [5, 6]])
    assert [batch[0].tolist() for batch in ms.wrap(batches)] == [[0, 1, 2], [5, 6]]
    repeating = torch.utils.data.RandomSampler(data, replacement=True, num_samples=30)
    drawn = torch.utils.data.DataLoader(data, sampler=repeating, batch_size=10)
    assert [len(batch[0]) for batch in ms.wrap(drawn)] == [10, 10, 10]
    for loader, named in ((batches, "batch_sampler list"), (drawn, "sampler RandomSampler")):
        with pytest.raises(ms.errors.InvalidArgumentError, match=f"{named}.*ms.wrap"):
            from_python(loader)
    single = torch.utils.data.DataLoader(data, batch_size=None, collate_fn=lambda sample: sample[0] + 100)
    assert [int(x) for x in from_python(single)] == [int(x) for x in ms.wrap(single)] == list(range(100, 110))
    assert [type(batch) for batch in ms.wrap(torch.utils.data.DataLoader(data))][:1] == [list]


def test_a_batchs_text_is_a_list() -> None:
    texts = [{"text": f"word {index}", "raw": bytes([index])} for index in range(3)]
    (batch,) = ms.DataLoader(texts, batch_size=3)
    assert batch == {"text": ["word 0", "word 1", "word 2"], "raw": [b"\0", b"\1", b"\2"]}
    assert batch == next(iter(torch.utils.data.DataLoader(texts, batch_size=3)))
    assert list(Dataset.from_tensor_slices(["a", "b"]).batch(2).with_output("torch")) == [["a", "b"]]
