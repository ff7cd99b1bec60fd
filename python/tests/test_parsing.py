"""Methods of datasets that read JSON, CSV and tokens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import millstream as ms
from millstream import Dataset

TOKENISER: dict[str, Any] = {
    "version": "1.0",
    "truncation": None,
    "padding": None,
    "added_tokens": [],
    "normalizer": None,
    "pre_tokenizer": {"type": "Whitespace"},
    "post_processor": None,
    "decoder": None,
    "model": {"type": "WordLevel", "vocab": {"[UNK]": 0, "the": 1, "cat": 2, "sat": 3}, "unk_token": "[UNK]"},
}


class Fast:
    """A tokenizer as ``transformers`` holds one."""

    class backend_tokenizer:  # noqa: N801
        @staticmethod
        def to_str() -> str:
            return json.dumps(TOKENISER)


def test_texts_become_ids_of_files_and_objects(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(TOKENISER))
    texts = Dataset.from_tensor_slices(["the cat sat", "cat dog"])
    for tokeniser in (path, str(path), Fast()):
        assert [row.tolist() for row in texts.tokenise(tokeniser)] == [[1, 2, 3], [2, 0]]
    short = texts.tokenize(path, dtype="int32", max_tokens=2)
    assert [row.tolist() for row in short] == [[1, 2], [2, 0]] and next(iter(short)).dtype == "int32"
    with pytest.raises(TypeError, match=r"tokenizer\.json"):
        texts.tokenise(5)


def test_tokens_fill_rows_with_separators(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(TOKENISER))
    rows = Dataset.from_tensor_slices(["the cat sat", "cat dog"]).tokenise(path).pack_sequences("", 4, separator=9)
    assert [row["tokens"].tolist() for row in rows] == [[1, 2, 3, 9], [2, 0, 9, 0]]
    whole = Dataset.from_tensor_slices(["the cat sat", "cat dog"]).tokenise(path).pack_sequences("", 4, cut="too_long", padding=8)
    assert [row["tokens"].tolist() for row in whole] == [[1, 2, 3, 8], [2, 0, 8, 8]]
    with pytest.raises(ms.errors.InvalidArgumentError, match="anywhere"):
        Dataset.from_tensors([1, 2]).pack_sequences("", 4, cut="never")


def test_documents_yield_their_declared_fields() -> None:
    documents = Dataset.from_tensor_slices(['{"a": {"b": [1, 2]}, "t": "x"}', '{"a": {"b": [3]}}'])
    fields = {"b": ms.TensorSpec((None,), ms.int64), "t": ms.TensorSpec((), ms.string)}
    found = list(documents.parse_json(fields, paths={"b": "a.b"}, defaults={"t": "none"}))
    assert [(row["b"].tolist(), row["t"]) for row in found] == [([1, 2], "x"), ([3], "none")]
    with pytest.raises(ms.errors.InvalidArgumentError, match="unknown rank"):
        documents.parse_json({"b": ms.TensorSpec(None, ms.int64)})


def test_lines_become_columns_and_skip_others() -> None:
    lines = Dataset.from_tensor_slices(['1;"x;y";2.5', "4;z;NA"])
    columns = [("id", ms.int64), None, ("price", ms.float32)]
    found = list(lines.decode_csv(columns, delimiter=";", missing="NA", defaults={"price": -1.0}))
    assert [(int(row["id"]), float(row["price"])) for row in found] == [(1, 2.5), (4, -1.0)]
    with pytest.raises(ValueError, match="one ASCII character"):
        lines.decode_csv(columns, delimiter="ab")


def test_texts_split_into_ragged_parts() -> None:
    parts = next(iter(Dataset.from_tensors(["a b c", "", "d"]).split_ragged()))
    assert parts.to_list() == [["a", "b", "c"], [], ["d"]]
    once = next(iter(Dataset.from_tensors({"t": ["a,b,c"]}).split_ragged("t", ",", 1)))
    assert once["t"].to_list() == [["a", "b,c"]]
