"""Writes the fixtures of the tests of other libraries' formats: each file is written by the library whose format it is.

Run in a Python with ``array_record``, ``datasets``, ``litdata``, ``pylance`` and ``zarr``: ``python make.py``. The script replaces all fixtures.
"""

from __future__ import annotations

import gzip
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
ROWS = 40


def row(number: int) -> dict[str, Any]:
    """Returns one record, which the formats hold as far as they can."""
    return {
        "id": number,
        "text": f"row {number} é",
        "raw": bytes([number]) * (number % 3),
        "point": np.arange(2, dtype=np.float32) + number,
        "tokens": np.arange(number % 4, dtype=np.int32),
        "flag": number % 2 == 0,
    }


def write_array_record() -> None:
    """Writes two files of 30 and 10 records, as grain reads them. They are compressed here, because the format fills files up to 128 KiB."""
    from array_record.python import array_record_module

    with tempfile.TemporaryDirectory() as folder:
        for file, numbers in enumerate((range(30), range(30, ROWS))):
            name = f"rows-{file:05}-of-00002.array_record"
            writer = array_record_module.ArrayRecordWriter(f"{folder}/{name}", "group_size:1")
            for number in numbers:
                writer.write(f"record {number}".encode() * (number % 3 + 1))
            writer.close()
            (HERE / f"{name}.gz").write_bytes(gzip.compress(Path(folder, name).read_bytes(), mtime=0))


def sample(number: int) -> dict[str, Any]:
    """Returns a record for LitData, with a picture whose height differs from record to record."""
    import torch

    return {
        **row(number),
        "label": torch.arange(3) * number,
        "picture": np.full((number % 3 + 1, 2), number, np.uint8),
        "about": {"tags": ["a"] * (number % 2), "score": number / 2},
    }


def tokens(number: int) -> Any:
    """Yields a document as a vector of tokens."""
    import torch

    yield torch.arange(number * 10, number * 10 + 10, dtype=torch.int32)


def write_litdata() -> None:
    """Writes folders of chunks of records, of compressed chunks, and of tokens."""
    from litdata import TokensLoader, optimize

    with tempfile.TemporaryDirectory() as folder:
        for name, of, more in (
            ("litdata", sample, {"chunk_size": 16}),
            ("litdata-zstd", row, {"chunk_size": 16, "compression": "zstd"}),
            ("litdata-tokens", tokens, {"chunk_size": 200, "item_loader": TokensLoader(block_size=8)}),
        ):
            optimize(of, inputs=list(range(ROWS)), output_dir=f"{folder}/{name}", num_workers=1, **more)
            target = HERE / name
            shutil.rmtree(target, ignore_errors=True)
            target.mkdir()
            for file in sorted(Path(folder, name).iterdir()):
                shutil.copy(file, target / file.name)


def write_lance() -> None:
    """Writes a dataset of two fragments, and a second version without row 5."""
    import lance
    import pyarrow as pa

    rows = [row(number) for number in range(ROWS)]
    columns = {name: [one[name] for one in rows] for name in ("id", "text", "raw", "flag")}
    points = pa.FixedSizeListArray.from_arrays(pa.array(np.concatenate([one["point"] for one in rows])), 2)
    table = pa.table(
        {
            **columns,
            "point": points,
            "tokens": pa.array([one["tokens"].tolist() for one in rows], pa.list_(pa.int32())),
            "inside": [{"a": number, "b": str(number)} for number in range(ROWS)],
            "maybe": [None if number == 7 else number for number in range(ROWS)],
        }
    )
    shutil.rmtree(HERE / "rows.lance", ignore_errors=True)
    lance.write_dataset(table, str(HERE / "rows.lance"), max_rows_per_file=25)
    lance.dataset(str(HERE / "rows.lance")).delete("id = 5")


def write_zarr() -> None:
    """Writes the same group in both versions of the format."""
    import zarr

    rows = [row(number) for number in range(ROWS)]
    for version in (2, 3):
        path = HERE / f"rows-v{version}.zarr"
        shutil.rmtree(path, ignore_errors=True)
        group = zarr.open_group(str(path), mode="w", zarr_format=version)
        for name, values, chunk in (
            ("id", np.array([one["id"] for one in rows], ">i4"), 16),
            ("data/point", np.stack([one["point"] for one in rows]), 10),
            ("data/flag", np.array([one["flag"] for one in rows]), ROWS),
        ):
            chunks = (chunk, *values.shape[1:])
            shards = {"shards": (2 * chunk, *values.shape[1:])} if version == 3 and name == "data/point" else {}
            array = group.create_array(name, shape=values.shape, chunks=chunks, dtype=values.dtype, **shards)
            array[:] = values
        text = group.create_array("text", shape=(ROWS,), chunks=(16,), dtype=str)
        text[:] = np.array([one["text"] for one in rows], object)
        ends = group.create_array("meta/ends", shape=(2,), chunks=(2,), dtype="i8")
        ends[:] = [25, ROWS]


def write_hub() -> None:
    """Writes the files of a dataset of the hub: Parquet files as ``datasets`` uploads them, and JSON lines."""
    import datasets

    target = HERE / "hub"
    shutil.rmtree(target, ignore_errors=True)
    (target / "data").mkdir(parents=True)
    features = datasets.Features(
        {"id": datasets.Value("int64"), "text": datasets.Value("string"), "image": {"bytes": datasets.Value("binary"), "path": datasets.Value("string")}}
    )
    for file, numbers in enumerate((range(25), range(25, ROWS))):
        rows = {
            "id": list(numbers),
            "text": [row(number)["text"] for number in numbers],
            "image": [{"bytes": bytes([number]), "path": None} for number in numbers],
        }
        table = datasets.Dataset.from_dict(rows, features=features)
        table.to_parquet(str(target / "data" / f"train-{file:05}-of-00002.parquet"), batch_size=10)
    (target / "lines.jsonl").write_text("".join(json.dumps({"id": number}) + "\n" for number in range(ROWS)))


if __name__ == "__main__":
    write_array_record()
    write_litdata()
    write_lance()
    write_zarr()
    write_hub()
