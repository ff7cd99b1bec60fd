"""Tests of file datasets: files as their usual libraries write them, and damaged files."""

from __future__ import annotations

import io
import json
import sqlite3
import struct
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import millstream as ms
from millstream import Dataset, errors, files

#: The example files of the pipeline's tests, written by the usual library of each format, with five rows each.
FIXTURES = Path(__file__).parents[2] / "pipeline" / "tests" / "fixtures"
TEXTS = [f"row {row} é" for row in range(5)]


def told(dataset: Dataset) -> list[Any]:
    """Converts elements to Python's own values."""

    def plain(part: Any) -> Any:
        if isinstance(part, dict):
            return {name: plain(value) for name, value in part.items()}
        return np.asarray(part).tolist()

    return [plain(element) for element in dataset]


def csv(directory: Path) -> Dataset:
    path = directory / "a.csv"
    path.write_text("id,text\n0,zero\n1,\n")
    return files.csv(str(path), {"text": ms.string, "id": ms.int64}, defaults={"text": "none"}, header=True)


def json_lines(directory: Path) -> Dataset:
    path = directory / "a.jsonl"
    path.write_text("".join(json.dumps({"id": row, "pair": [row, row + 1]}) + "\n" for row in range(2)))
    fields = {"id": ms.TensorSpec([], ms.int64), "pair": ms.TensorSpec([2], ms.float32)}
    return files.json_lines(str(path), fields)


def npy(directory: Path) -> Dataset:
    np.save(directory / "a.npy", np.arange(4).reshape(2, 2))
    return files.npy(str(directory / "a.npy"))


def npz(directory: Path) -> Dataset:
    np.savez(directory / "a.npz", x=np.arange(2), y=np.ones((2, 1), np.float32), z=np.zeros(2))
    return files.npz([str(directory / "a.npz")], ["y", "x"])


def database(directory: Path) -> Dataset:
    with sqlite3.connect(directory / "a.db") as connection:
        connection.execute("CREATE TABLE points (x INTEGER, name TEXT)")
        connection.executemany("INSERT INTO points VALUES (?, ?)", [(1, "one"), (2, "two")])
    return files.sqlite(str(directory / "a.db"), "SELECT * FROM points", {"x": ms.int64, "name": ms.string})


def shard(directory: Path) -> Dataset:
    with tarfile.open(directory / "a.tar", "w") as tar:
        for name in ["0.txt", "0.cls", "1.txt", "1.cls"]:
            member = tarfile.TarInfo(name)
            member.size = len(name)
            tar.addfile(member, io.BytesIO(name.encode()))
    return files.webdataset(str(directory / "a.tar"), ["txt", "cls"])


def picture(value: int) -> bytes:
    """Returns a PNG with one grey pixel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes([0, value]))) + chunk(b"IEND", b"")


def pictures(directory: Path) -> Dataset:
    for value, name in enumerate(["cat", "dog"]):
        (directory / name).mkdir()
        (directory / name / "a.png").write_bytes(picture(value))
    decoded = files.image_folder(str(directory)).decode_image("image", channels=1)
    return decoded.map(lambda row: {"image": row["image"], "label": row["label"]})


def fixture(name: str) -> str:
    return str(FIXTURES / name)


READ: dict[str, tuple[Callable[[Path], Dataset], list[Any]]] = {
    "csv": (csv, [{"text": "zero", "id": 0}, {"text": "none", "id": 1}]),
    "json lines": (json_lines, [{"id": 0, "pair": [0, 1]}, {"id": 1, "pair": [1, 2]}]),
    "npy": (npy, [[0, 1], [2, 3]]),
    "npz": (npz, [{"y": [1], "x": 0}, {"y": [1], "x": 1}]),
    "sqlite": (database, [{"x": 1, "name": "one"}, {"x": 2, "name": "two"}]),
    "webdataset": (
        shard,
        [{"txt": b"0.txt", "cls": b"0.cls", "__key__": "0"}, {"txt": b"1.txt", "cls": b"1.cls", "__key__": "1"}],
    ),
    "image folder": (pictures, [{"image": [[[0]]], "label": 0}, {"image": [[[1]]], "label": 1}]),
    "parquet": (lambda _: files.parquet(fixture("table-zstd.parquet"), ["text"]), [{"text": text} for text in TEXTS]),
    "listed files": (
        lambda _: files.parquet(Dataset.list_files(fixture("table-zstd.parq*")), ["text"], batch_size=3),
        [{"text": TEXTS[:3]}, {"text": TEXTS[3:]}],
    ),
    "arrow": (lambda _: files.arrow(fixture("table.arrows"), ["text"]), [{"text": text} for text in TEXTS]),
    "shards of MosaicML": (lambda _: files.mds(fixture("samples-zstd.mds"), ["id"]), [{"id": row} for row in range(5)]),
    "indices of MosaicML": (
        lambda _: files.mds([fixture(f"shards-{kind}/index.json") for kind in ["plain", "zstd"]], ["id"]),
        [{"id": row} for row in [*range(5), *range(5)]],
    ),
}


@pytest.mark.parametrize("kind", READ)
def test_what_is_in_files_is_read(kind: str, tmp_path: Path) -> None:
    dataset, elements = READ[kind]
    assert told(dataset(tmp_path)) == elements


def test_broken_files_end_or_are_omitted(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"id": 0}\n{"id": \n{"id": 2}\n')

    def read(on_error: str) -> Dataset:
        return files.json_lines(str(tmp_path / "a.jsonl"), {"id": ms.TensorSpec([], ms.int64)}, on_error=on_error)

    with pytest.raises(ms.errors.DataLossError, match=r"a\.jsonl"):
        told(read("raise"))
    assert told(read("skip")) == [{"id": 0}, {"id": 2}]
    with pytest.raises(ValueError, match="'Skip': use raise or skip"):
        read("Skip")


def test_a_missing_file_is_not_found(cluster: Callable[..., str], tmp_path: Path) -> None:
    records = ms.TFRecordDataset([str(tmp_path / "missing")])
    for dataset in (records, records.apply(ms.service.distribute("parallel_epochs", cluster()))):
        with pytest.raises(ms.errors.NotFoundError, match="cannot open .*missing: No such file") as raised:
            list(dataset)
        assert isinstance(raised.value, FileNotFoundError)


def self_describing(directory: Path) -> dict[str, Dataset]:
    np.save(directory / "rows.npy", np.arange(10).reshape(5, 2))
    return {
        "parquet": files.parquet(fixture("table-zstd.parquet"), ["text"]),
        "listed parquet": files.parquet(Dataset.list_files(fixture("table-zstd.parq*")), ["text"]),
        "npy": files.npy(str(directory / "rows.npy")),
        "listed npy": files.npy(Dataset.list_files(str(directory / "*.npy"))),
    }


@pytest.mark.parametrize("mode", ["parallel_epochs", "distributed_epoch"])
def test_files_say_what_they_hold_to_services_too(mode: str, processes: ms.LocalService, tmp_path: Path) -> None:
    for name, dataset in self_describing(tmp_path).items():
        here = told(dataset)
        assert len(here) == 5, name
        served = told(dataset.apply(ms.service.distribute(mode, processes)))
        copies = 2 if mode == "parallel_epochs" else 1
        assert sorted(map(str, served)) == sorted(map(str, here * copies)), name


def test_patterns_are_refused_where_names_are_expected() -> None:
    for kind in (files.parquet, files.arrow, files.npy):
        with pytest.raises(ms.errors.InvalidArgumentError, match=r"wrap the pattern in ms.Dataset.list_files"):
            kind("p*.none")


def test_class_names_are_in_the_order_of_labels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "set [1]"
    for name in ("dog/deep/a.jpg", "cat/b.jpg", "Zebra/c.jpg", "stray.jpg"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"")
    (root / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    for spelt in (str(root), f"{root}/", "set [1]", "./set [1]"):
        names = files.class_names(spelt)
        assert names == ["Zebra", "cat", "dog"]
        folders = {Path(row["path"]).relative_to(Path(spelt)).parts[0]: int(row["label"]) for row in files.image_folder(spelt)}
        assert [names[folders[name]] for name in folders] == list(folders) and len(folders) == 3
    monkeypatch.chdir(root)
    assert files.class_names(".") == names and sorted(int(row["label"]) for row in files.image_folder(".")) == [0, 1, 2]
    chosen = files.image_folder(str(root), class_names=["dog", "rabbit", "cat", "Zebra"])
    assert sorted(int(row["label"]) for row in chosen) == [0, 2, 3]


def test_a_folder_without_classes_is_explained(processes: ms.LocalService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "flat").mkdir()
    (tmp_path / "flat" / "a.jpg").write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    layout = rf"cannot list the files .*: expected a folder for each class, .* {tmp_path}/flat/CLASS/NAME.jpg; found .* itself: 1; folders: 0"
    with pytest.raises(errors.MillstreamError, match=f"this process {layout}"):
        list(files.image_folder("flat"))
    with pytest.raises(errors.MillstreamError, match=f"the dispatcher {layout}"):
        list(files.image_folder(str(tmp_path / "flat")).apply(ms.service.distribute("distributed_epoch", processes)))


def test_an_error_names_the_absolute_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(errors.MillstreamError, match=f"this process cannot list .* the directory {tmp_path}/none does not exist"):
        list(Dataset.list_files("none/*.tar"))
    with pytest.raises(errors.MillstreamError, match=f"this process cannot list .* relative to the directory {tmp_path}"):
        list(Dataset.list_files("*.tar"))
