"""Tests of formats that other libraries write, each read through its own library: ArrayRecord, LitData, Lance and Zarr.

``data/peers/make.py`` wrote the fixtures with these libraries. A test is skipped by name where its library is missing.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_hub import Hub

import millstream as ms
from millstream import errors, files
from millstream.service import distribute

FIXTURES = Path(__file__).parents[1] / "data" / "peers"
ROWS = 40
#: The module, the package and the extra of each format.
LIBRARIES = {
    "array_record": ("array_record.python.array_record_module", "array_record", "array-record"),
    "lance": ("lance", "pylance", "lance"),
    "litdata": ("litdata", "litdata", "litdata"),
    "zarr": ("zarr", "zarr", "zarr"),
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A copy of the fixtures, which tests may damage."""
    for name in FIXTURES.iterdir():
        if name.suffix == ".gz":
            (tmp_path / name.stem).write_bytes(gzip.decompress(name.read_bytes()))
        elif name.is_dir():
            shutil.copytree(name, tmp_path / name.name)
    return tmp_path


def plain(part: Any) -> Any:
    """Returns an element as plain Python, so that elements of all libraries compare."""
    if isinstance(part, dict):
        return {name: plain(value) for name, value in part.items()}
    if isinstance(part, tuple | list):
        return [plain(value) for value in part]
    if hasattr(part, "detach"):
        part = part.detach().numpy()
    if isinstance(part, memoryview):
        return bytes(part)
    return part.tolist() if isinstance(part, np.ndarray | np.generic) else part


def of_array_record(place: Path, **options: Any) -> tuple[ms.Dataset, list[Any]]:
    """Returns the dataset of a format, and the records as the library itself reads them."""
    module = pytest.importorskip(LIBRARIES["array_record"][0])
    found = []
    for path in sorted(place.glob("*.array_record")):
        reader = module.ArrayRecordReader(str(path))
        found += reader.read_all()
    return files.array_record(str(place / "rows-*.array_record"), **options), found


def of_lance(place: Path, **options: Any) -> tuple[ms.Dataset, list[Any]]:
    lance = pytest.importorskip("lance")
    columns = ["id", "text", "raw", "flag", "point", "tokens", "inside"]
    return files.lance(place / "rows.lance", columns, **options), lance.dataset(str(place / "rows.lance")).to_table(columns=columns).to_pylist()


def of_litdata(place: Path, **options: Any) -> tuple[ms.Dataset, list[Any]]:
    litdata = pytest.importorskip("litdata")
    columns = ["id", "text", "raw", "point", "tokens", "flag", "label"]
    library = litdata.StreamingDataset(str(place / "litdata"))
    expected = [{name: library[number][name] for name in columns} for number in range(ROWS)]
    return files.litdata(place / "litdata", columns, **options), [plain(record) for record in expected]


def of_pictures(place: Path, **options: Any) -> tuple[ms.Dataset, list[Any]]:
    litdata = pytest.importorskip("litdata")
    library = litdata.StreamingDataset(str(place / "litdata"))
    expected = [{"picture": plain(library[number]["picture"])} for number in range(ROWS)]
    return files.litdata(place / "litdata", ["picture"], **options), expected


def of_compressed(place: Path, **options: Any) -> tuple[ms.Dataset, list[Any]]:
    litdata = pytest.importorskip("litdata")
    library = litdata.StreamingDataset(str(place / "litdata-zstd"))
    return files.litdata(place / "litdata-zstd", **options), [plain(library[number]) for number in range(ROWS)]


def of_tokens(place: Path, **options: Any) -> tuple[ms.Dataset, list[Any]]:
    litdata = pytest.importorskip("litdata")
    library = litdata.StreamingDataset(str(place / "litdata-tokens"), item_loader=litdata.TokensLoader(block_size=8))
    return files.litdata(place / "litdata-tokens", block_size=8, **options), [plain(library[number]) for number in range(len(library))]


def _of_zarr(place: Path, version: int, options: dict[str, Any]) -> tuple[ms.Dataset, list[Any]]:
    zarr = pytest.importorskip("zarr")
    path = place / f"rows-v{version}.zarr"
    group = zarr.open(str(path), mode="r")
    assert group.metadata.zarr_format == version
    names = ["id", "data/point", "data/flag", "text"]
    expected = [{name: plain(group[name][number]) for name in names} for number in range(ROWS)]
    return files.zarr(path, names, **options), [{**record, "text": str(record["text"])} for record in expected]


def of_zarr_2(place: Path, **options: Any) -> tuple[ms.Dataset, list[Any]]:
    return _of_zarr(place, 2, options)


def of_zarr_3(place: Path, **options: Any) -> tuple[ms.Dataset, list[Any]]:
    return _of_zarr(place, 3, options)


Opened = Callable[..., tuple[ms.Dataset, list[Any]]]
FORMATS = [of_array_record, of_lance, of_litdata, of_pictures, of_compressed, of_tokens, of_zarr_2, of_zarr_3]
every_format = pytest.mark.parametrize("opened", FORMATS, ids=lambda opened: opened.__name__[3:])
each_library = pytest.mark.parametrize("format", LIBRARIES)


def dataset_of(format: str, place: Path) -> ms.Dataset:
    """Returns the dataset of a library's first fixture."""
    return {"array_record": of_array_record, "lance": of_lance, "litdata": of_litdata, "zarr": of_zarr_3}[format](place)[0]


def ordered(records: list[Any]) -> list[str]:
    return sorted(map(repr, records))


@every_format
def test_values_are_those_of_the_library(opened: Opened, place: Path) -> None:
    dataset, expected = opened(place)
    assert [plain(element) for element in dataset] == expected
    assert len(dataset) == len(expected)


@every_format
def test_records_are_read_by_index(opened: Opened, place: Path) -> None:
    dataset, expected = opened(place)
    records = dataset.records
    assert len(records) == len(expected)
    assert plain(records[7]) == expected[7] and plain(records[-1]) == expected[-1]
    assert [plain(record) for record in records.__getitems__([30, 2, 9])] == [expected[30], expected[2], expected[9]]
    with pytest.raises(IndexError, match="found 1000"):
        records[1000]


@every_format
def test_two_workers_deliver_each_record_once(opened: Opened, place: Path, processes: ms.LocalService) -> None:
    dataset, expected = opened(place)
    found = [plain(element) for element in dataset.apply(distribute("distributed_epoch", processes.target))]
    assert ordered(found) == ordered(expected)


@every_format
def test_threads_of_one_process_share_a_source(opened: Opened, place: Path) -> None:
    dataset, expected = opened(place, num_parallel_calls=4)
    with ms.local(workers=2, inline=True) as service:
        found = [plain(element) for element in dataset.apply(distribute("distributed_epoch", service.target))]
    assert ordered(found) == ordered(expected)


@every_format
def test_a_saved_state_resumes_exactly(opened: Opened, place: Path) -> None:
    dataset, expected = opened(place, shuffle=True, seed=3)
    for taken in (0, 1, 17, len(expected) - 1):
        iterator = dataset.as_numpy_iterator()
        first = [plain(next(iterator)) for _ in range(taken)]
        resumed = dataset.as_numpy_iterator()
        resumed.restore(iterator.save())
        assert ordered(first + [plain(element) for element in resumed]) == ordered(expected)


@each_library
def test_a_loader_resumes_exactly_on_workers(format: str, place: Path, processes: ms.LocalService) -> None:
    records = dataset_of(format, place).records

    def loader() -> ms.DataLoader:
        return ms.DataLoader(records, 4, shuffle=True, seed=5, collate_fn=repr, service=processes.target, output="numpy")

    whole = list(loader())
    begun = loader()
    batches = iter(begun)
    first = [next(batches) for _ in range(3)]
    resumed = loader()
    resumed.load_state_dict(json.loads(json.dumps(begun.state_dict())))
    assert first + list(resumed) == whole and len(whole) == -(-len(records) // 4)


@every_format
def test_a_shuffle_reads_every_record_once(opened: Opened, place: Path) -> None:
    def order(seed: int) -> list[Any]:
        return [plain(element) for element in opened(place, shuffle=True, seed=seed)[0]]

    expected = opened(place)[1]
    orders = [order(seed) for seed in range(4)]
    assert all(ordered(found) == ordered(expected) for found in orders)
    # A small file has few blocks, so that one seed may keep their order.
    assert any(found != expected for found in orders)
    assert order(2) == orders[2]


def test_specs_come_from_the_schema(place: Path) -> None:
    pytest.importorskip("lance")
    spec = of_lance(place)[0].element_spec
    assert spec["id"] == ms.TensorSpec((), ms.int64) and spec["flag"] == ms.TensorSpec((), ms.bool)
    assert spec["point"] == ms.TensorSpec((2,), ms.float32) and spec["tokens"] == ms.TensorSpec((None,), ms.int32)
    assert spec["raw"] == ms.TensorSpec((), ms.bytes) and spec["inside"]["b"] == ms.TensorSpec((), ms.string)


def test_zarr_states_specs(place: Path) -> None:
    pytest.importorskip("zarr")
    spec = of_zarr_3(place)[0].element_spec
    assert spec["id"] == ms.TensorSpec((), ms.int32) and spec["data/point"] == ms.TensorSpec((2,), ms.float32)
    assert spec["text"] == ms.TensorSpec((), ms.string)


def test_litdata_states_dtypes_and_declared_shapes(place: Path) -> None:
    pytest.importorskip("litdata")
    dataset = files.litdata(place / "litdata", ["id", "label"])
    assert dataset.element_spec == {"id": ms.TensorSpec((), ms.int64), "label": ms.TensorSpec((None,), ms.int64)}
    declared = {"id": ms.TensorSpec((), ms.int64), "label": ms.TensorSpec((3,), ms.int64)}
    fixed = files.litdata(place / "litdata", ["id", "label"], declared)
    assert fixed.element_spec == declared
    assert [plain(element) for element in fixed] == [plain(element) for element in dataset]


def test_litdata_yields_json_as_text(place: Path) -> None:
    pytest.importorskip("litdata")
    found = [record["about"] for record in files.litdata(place / "litdata", ["about"])]
    assert [json.loads(about["tags"]) for about in found] == [["a"] * (number % 2) for number in range(ROWS)]
    assert [float(about["score"]) for about in found] == [number / 2 for number in range(ROWS)]


def test_columns_are_selected(place: Path) -> None:
    pytest.importorskip("lance")
    dataset = files.lance(place / "rows.lance", ["flag", "id"])
    assert list(dataset.element_spec) == ["flag", "id"]
    assert [int(record["id"]) for record in dataset] == [number for number in range(ROWS) if number != 5]


def test_lance_reads_the_version_it_found(place: Path) -> None:
    lance = pytest.importorskip("lance")
    latest = files.lance(place / "rows.lance", ["id"])
    first = files.lance(place / "rows.lance", ["id"], version=1)
    lance.dataset(str(place / "rows.lance")).delete("id < 30")
    assert (len(list(latest)), len(list(first))) == (ROWS - 1, ROWS)
    assert len(list(files.lance(place / "rows.lance", ["id"]))) == 10


def test_lance_names_a_null(place: Path) -> None:
    pytest.importorskip("lance")
    with pytest.raises(errors.UserFunctionError, match="'maybe' of .*rows.lance has 1 nulls"):
        list(files.lance(place / "rows.lance", ["maybe"]))


def test_an_array_alone_yields_its_rows(place: Path) -> None:
    pytest.importorskip("zarr")
    assert [int(x) for x in files.zarr(place / "rows-v3.zarr" / "id")] == list(range(ROWS))


def test_components_are_named(place: Path) -> None:
    pytest.importorskip("zarr")
    dataset = files.zarr(place / "rows-v2.zarr", {"x": "data/point", "label": "id"})
    assert list(dataset.element_spec) == ["x", "label"]
    assert [int(record["label"]) for record in dataset.batch(7).unbatch()] == list(range(ROWS))


def test_arrays_of_other_lengths_are_refused(place: Path) -> None:
    pytest.importorskip("zarr")
    with pytest.raises(errors.InvalidArgumentError, match="meta/ends of 2"):
        files.zarr(place / "rows-v3.zarr")


@each_library
def test_a_missing_library_is_named(format: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module, package, extra = LIBRARIES[format]
    monkeypatch.setitem(sys.modules, module, None)
    expected = rf"ms.files.{format} needs the package {package}, .* pip install 'millstream\[{extra}\]'"
    with pytest.raises(errors.FailedPreconditionError, match=expected):
        getattr(files, format)(place / "rows.lance")


@each_library
def test_a_worker_without_the_library_is_named(
    format: str, place: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = dataset_of(format, place)
    module, package, _ = LIBRARIES[format]
    blocked = tmp_path_factory.mktemp("blocked")
    (blocked / f"{module.partition('.')[0]}.py").write_text("raise ImportError('blocked by a test')")
    # Workers search for modules where this process does.
    monkeypatch.syspath_prepend(str(blocked))
    with ms.local(workers=1) as service, pytest.raises(errors.UserFunctionError, match=rf"needs the package {package}, .*blocked by a test"):
        list(dataset.apply(distribute("distributed_epoch", service.target)))


@each_library
def test_a_path_that_is_missing_is_named(format: str, place: Path) -> None:
    pytest.importorskip(LIBRARIES[format][0])
    with pytest.raises(errors.NotFoundError, match="nowhere: no such file or directory"):
        getattr(files, format)(place / "nowhere")


@each_library
def test_another_format_is_refused(format: str, place: Path) -> None:
    pytest.importorskip(LIBRARIES[format][0])
    (place / "notes").mkdir()
    (place / "notes" / "file").write_text("text" * 1000)
    path = place / "notes" / "file" if format == "array_record" else place / "notes"
    with pytest.raises((errors.NotFoundError, errors.DataLossError), match="notes"):
        getattr(files, format)(path)


def test_patterns_without_files_are_named(place: Path) -> None:
    pytest.importorskip(LIBRARIES["array_record"][0])
    with pytest.raises(errors.NotFoundError, match="none-.* matches no file"):
        files.array_record(place / "none-*.array_record")


@pytest.mark.parametrize("format", ["lance", "litdata", "zarr"])
def test_a_missing_column_is_named(format: str, place: Path) -> None:
    pytest.importorskip(LIBRARIES[format][0])
    path = {"lance": "rows.lance", "litdata": "litdata", "zarr": "rows-v3.zarr"}[format]
    with pytest.raises(errors.NotFoundError, match="no (column|array) 'nothing'; the (columns|arrays) are .*id"):
        getattr(files, format)(place / path, ["id", "nothing"])


#: Files of each format that are overwritten after the dataset was built.
DAMAGED = {
    "array_record": "rows-00000-of-00002.array_record",
    "lance": "rows.lance/data/*.lance",
    "litdata": "litdata/chunk-0-1.bin",
    "zarr": "rows-v3.zarr/text/c/0",
}


@each_library
def test_a_corrupt_file_is_named(format: str, place: Path) -> None:
    dataset = dataset_of(format, place)
    for damaged in place.glob(DAMAGED[format]):
        damaged.write_bytes(damaged.read_bytes()[:60] + b"\xff" * 200)
    with pytest.raises(errors.MillstreamError, match=r"(rows|litdata).* (failed|not an ArrayRecord file)"):
        list(dataset)


def test_a_truncated_file_is_refused_when_built(place: Path) -> None:
    pytest.importorskip(LIBRARIES["array_record"][0])
    path = place / "rows-00000-of-00002.array_record"
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(errors.DataLossError, match="not an ArrayRecord file, or cut short"):
        files.array_record(path)


def test_other_files_on_a_worker_are_named(place: Path) -> None:
    dataset, _ = of_array_record(place)
    shutil.copy(place / "rows-00001-of-00002.array_record", place / "rows-00000-of-00002.array_record")
    with ms.local(workers=1) as service, pytest.raises(errors.UserFunctionError, match="expected 30 records, .* found 10"):
        list(dataset.apply(distribute("distributed_epoch", service.target)))


def test_folders_that_workers_would_change_are_refused(place: Path) -> None:
    pytest.importorskip("litdata")
    path = place / "litdata-zstd" / "index.json"
    index = json.loads(path.read_text())
    index["config"]["compression_level"] = None
    path.write_text(json.dumps(index))
    with pytest.raises(errors.UnimplementedError, match="compressed chunk by chunk"):
        files.litdata(place / "litdata-zstd")


def test_pickled_objects_are_refused(place: Path) -> None:
    pytest.importorskip("litdata")
    path = place / "litdata" / "index.json"
    index = json.loads(path.read_text())
    index["config"]["data_format"][0] = "pickle"
    path.write_text(json.dumps(index))
    with pytest.raises(errors.UnimplementedError, match="'pickle', which is refused: pickled objects run code"):
        files.litdata(place / "litdata")


def test_tokens_need_a_block_size(place: Path) -> None:
    pytest.importorskip("litdata")
    with pytest.raises(errors.InvalidArgumentError, match="TokensLoader: pass block_size"):
        files.litdata(place / "litdata-tokens")


def test_a_spec_that_does_not_fit_is_refused(place: Path) -> None:
    pytest.importorskip("litdata")
    with pytest.raises(errors.InvalidArgumentError, match=r"expected label of dtype i64 and shape \(4,\)"):
        files.litdata(place / "litdata", ["label"], {"label": ms.TensorSpec((4,), ms.int64)})


_LIST = """
import os, sys, huggingface_hub
hub = huggingface_hub.HfFileSystem(endpoint=os.environ["HF_ENDPOINT"], token=False)
print(*(hub.resolve_path(path).path_in_repo for path in hub.glob(sys.argv[1])), sep="\\n")
"""


@pytest.mark.parametrize("pattern", ["data/*.parquet", "**/*.parquet", "*.jsonl", "d?ta/train-0000[01]*", "data/train-00001*"])
def test_the_hubs_library_lists_the_same_files(pattern: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("huggingface_hub")
    hub = Hub({"org/open": FIXTURES / "hub"}, [], [])
    try:
        monkeypatch.setenv("HF_ENDPOINT", hub.address)
        # The library reads its settings when it is imported, and here it is offline.
        environment = {**os.environ, "HF_HUB_OFFLINE": "0", "HF_HOME": str(tmp_path)}
        asked = [sys.executable, "-c", _LIST, f"datasets/org/open@main/{pattern}"]
        expected = subprocess.run(asked, env=environment, capture_output=True, text=True, check=True).stdout.split()
        urls = list(ms.Dataset.list_files(f"hf://datasets/org/open/{pattern}", shuffle=False))
        assert [url.split("/", 8)[8] for url in urls] == sorted(expected) and expected
    finally:
        hub.close()
