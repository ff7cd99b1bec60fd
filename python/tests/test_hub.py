"""Tests of ``hf://`` paths, with a server on this machine that speaks the hub's interface. ``datasets`` wrote the Parquet files."""

from __future__ import annotations

import io
import os
import shutil
import tarfile
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_hub import COMMIT, TOKEN, Hub

import millstream as ms
from millstream import Dataset, _hub, _hub_paths, errors, files
from millstream.service import distribute

FIXTURES = Path(__file__).parent / "data" / "peers" / "hub"
ROWS = 40


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub with an open, a private and a gated dataset of the same files, and a dataset without an organisation."""
    root = tmp_path / "repository"
    shutil.copytree(FIXTURES, root)
    with tarfile.open(root / "shard.tar", "w") as tar:
        for name in ("0.txt", "1.txt"):
            member = tarfile.TarInfo(name)
            member.size = 1
            tar.addfile(member, io.BytesIO(name[:1].encode()))
    (root / "deep" / "er").mkdir(parents=True)
    (root / "deep" / "er" / "odd name #1.txt").write_text("one\ntwo\n")
    names = ("org/open", "org/private", "org/gated", "old")
    served = Hub(dict.fromkeys(names, root), private=["org/private"], gated=["org/gated"])
    monkeypatch.setattr(_hub, "_WAIT_S", 0.001)
    monkeypatch.setenv("HF_ENDPOINT", served.address)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    for name in ("HF_TOKEN", "HF_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    yield served
    served.close()


def ids(dataset: Any) -> list[int]:
    return [int(row["id"]) for row in dataset]


def test_a_pattern_reads_parquet_files_in_order(hub: Hub) -> None:
    dataset = files.parquet("hf://datasets/org/open/data/train-*.parquet", ["id", "text"])
    assert list(dataset.element_spec) == ["id", "text"]
    found = [(int(row["id"]), row["text"]) for row in dataset]
    assert found == [(number, f"row {number} é") for number in range(ROWS)]


def test_pictures_with_null_paths_are_read(hub: Hub) -> None:
    path = "hf://datasets/org/open/data/train-*.parquet"
    with pytest.raises(errors.MillstreamError, match="null"):
        list(files.parquet(path, ["image"]))
    found = list(files.parquet(path, ["image"], nulls_as_default=True))
    assert [row["image"] for row in found] == [{"bytes": bytes([number]), "path": ""} for number in range(ROWS)]


@pytest.mark.parametrize(
    "path",
    [
        "hf://datasets/org/open@main/data/*.parquet",
        "hf://datasets/org/open@v1.0/data/*.parquet",
        f"hf://datasets/org/open@{COMMIT}/data/*.parquet",
        "hf://datasets/org/open@refs/convert/parquet/data/*.parquet",
        "hf://datasets/org/open@refs%2Fconvert%2Fparquet/data/*.parquet",
        "hf://datasets/org/open@~parquet/**/*.parquet",
        "hf://datasets/org/open/d[a-c]ta/train-0000?-of-00002.parquet",
        "hf://datasets/org/open/**.parquet",
        "hf://datasets/old/data/*.parquet",
        "hf://datasets/old@main/data/*.parquet",
    ],
)
def test_revisions_and_patterns_find_the_files(hub: Hub, path: str) -> None:
    found = list(Dataset.list_files(path, shuffle=False))
    assert [os.path.basename(url) for url in found] == [f"train-{file:05}-of-00002.parquet" for file in range(2)]
    # A commit stands for the revision, so that a push does not change a dataset that is read.
    assert all(f"/resolve/{COMMIT}/data/" in url for url in found)


def test_a_listing_is_shuffled_in_every_pass(hub: Hub) -> None:
    listed = Dataset.list_files("hf://datasets/org/open/data/*", seed=1)
    orders = {tuple(listed) for _ in range(20)}
    assert len(orders) == 2 and {frozenset(order) for order in orders} == {frozenset(next(iter(orders)))}


def test_workers_share_the_files(hub: Hub, processes: ms.LocalService) -> None:
    dataset = files.parquet("hf://datasets/org/open/data/*.parquet", ["id"])
    assert sorted(ids(dataset.apply(distribute("distributed_epoch", processes.target)))) == list(range(ROWS))


def test_large_files_are_read_in_parts(hub: Hub, processes: ms.LocalService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_hub_paths, "_PART_BYTES_MIN", 500)
    dataset = files.parquet("hf://datasets/org/open/data/*.parquet", ["id"])
    # 3981 and 3075 bytes are 8 and 7 parts of at most 500 bytes.
    assert Dataset(_hub_paths.expanded(["hf://datasets/org/open/data/*.parquet"]).graph(in_parts=True)).cardinality() == 15
    assert ids(dataset) == list(range(ROWS))
    assert sorted(ids(dataset.apply(distribute("distributed_epoch", processes.target)))) == list(range(ROWS))
    monkeypatch.setattr(_hub_paths, "_PART_BYTES_MIN", 50)
    path = "hf://datasets/org/open/lines.jsonl"
    assert Dataset(_hub_paths.expanded([path]).graph(in_parts=True)).cardinality() == 9
    expected = (FIXTURES / "lines.jsonl").read_text().splitlines()
    assert list(ms.TextLineDataset(path)) == expected
    assert list(ms.FixedLengthRecordDataset(path, 43)) == [(FIXTURES / "lines.jsonl").read_bytes()[at : at + 43] for at in range(0, 430, 43)]
    assert sorted(ms.TextLineDataset(path).apply(distribute("distributed_epoch", processes.target))) == sorted(expected)
    # Other readers take whole files.
    assert ids(files.json_lines(path, {"id": ms.TensorSpec((), ms.int64)})) == list(range(ROWS))


def test_other_readers_take_hub_paths(hub: Hub) -> None:
    samples = files.webdataset("hf://datasets/org/open/*.tar", ["txt"])
    assert [sample["txt"] for sample in samples] == [b"0", b"1"]
    assert list(ms.TextLineDataset("hf://datasets/org/open/deep/**/*.txt")) == ["one", "two"]
    listed = Dataset.list_files(["hf://datasets/org/open/lines.jsonl"], shuffle=False)
    assert ids(files.json_lines(listed, {"id": ms.TensorSpec((), ms.int64)})) == list(range(ROWS))


def test_a_saved_state_resumes_exactly(hub: Hub) -> None:
    dataset = files.parquet("hf://datasets/org/open/data/*.parquet", ["id"])
    iterator = dataset.as_numpy_iterator()
    first = [int(next(iterator)["id"]) for _ in range(31)]
    resumed = dataset.as_numpy_iterator()
    resumed.restore(iterator.save())
    assert first + ids(resumed) == list(range(ROWS))


@pytest.mark.parametrize("name", ["private", "gated"])
def test_workers_download_with_the_token(hub: Hub, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    dataset = files.parquet(f"hf://datasets/org/{name}/data/*.parquet", ["id"])
    assert ids(dataset) == list(range(ROWS))
    with ms.local(workers=2) as service:
        assert sorted(ids(dataset.apply(distribute("distributed_epoch", service.target)))) == list(range(ROWS))
    # Each file was downloaded once, and the server of large files never saw the token.
    loads = [(path, token) for address, path, token in hub.requests if address == hub.store]
    assert len(loads) == len(set(loads)) == 2
    assert {token for _, token in loads} == {None}


def test_the_token_file_is_read(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "token").write_text(f"{TOKEN}\n")
    assert ids(files.parquet("hf://datasets/org/private/data/*.parquet", ["id"])) == list(range(ROWS))


def test_a_declared_spec_downloads_nothing_when_built(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    spec = {"id": ms.TensorSpec((), ms.int64)}
    dataset = files.parquet("hf://datasets/org/private/data/*.parquet", ["id"], spec)
    assert not any("/resolve/" in path for _, path, _ in hub.requests)
    assert ids(dataset) == list(range(ROWS))


def shown(dataset: Any) -> str:
    """Returns everything that a user sees of a failure."""
    with pytest.raises(errors.MillstreamError) as raised:
        made = dataset()
        list(made)
    return "".join(traceback.format_exception(raised.value)) + repr(raised.value.__dict__)


def test_the_token_never_shows(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    token = "hf_WrongTokenOfTheTests"
    monkeypatch.setenv("HF_TOKEN", token)
    found = shown(lambda: files.parquet("hf://datasets/org/private/data/*.parquet"))
    assert "check that the token in HF_TOKEN may read it" in found and token not in found
    # Nor does it stand in a definition.
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    dataset = files.parquet("hf://datasets/org/private/data/*.parquet", ["id"])
    assert TOKEN.encode() not in dataset._graph.to_bytes() and TOKEN not in dataset.explain()
    # The dataset disappears, and a worker fails to download.
    shutil.rmtree(_hub_paths._cache())
    hub.change(repositories={})
    found = shown(lambda: dataset)
    assert "org/private/resolve" in found and "may read it" in found and TOKEN not in found and "SignatureOfTheTests" not in found


def test_a_redirect_does_not_carry_the_token(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    url = _hub.listed("hf://datasets/org/private/data/train-00000*")[0].url
    with _hub.opened(url) as answer:
        assert answer.read(4) == b"PAR1"
    (_, here, first), (_, there, second) = hub.requests[-2:]
    assert "/resolve/" in here and first == TOKEN and "Signature=" in there and second is None
    # An address of another server receives no token either.
    with pytest.raises(errors.NotFoundError):
        _hub.opened(f"{hub.store}/org/private/nothing")
    assert hub.requests[-1][2] is None


def test_a_token_is_not_sent_without_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_x")
    monkeypatch.setenv("HF_ENDPOINT", "http://hub.invalid")
    with pytest.raises(errors.InvalidArgumentError, match="expected https:// because HF_TOKEN is set"):
        Dataset.list_files("hf://datasets/org/open/*")


def test_a_worker_with_another_endpoint_is_named(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    dataset = Dataset.list_files("hf://datasets/org/private/data/*")
    monkeypatch.setenv("HF_ENDPOINT", "https://elsewhere.invalid")
    with pytest.raises(errors.UserFunctionError, match=f"expected HF_ENDPOINT={hub.address} on this worker"):
        list(dataset)


def test_failures_that_may_pass_are_tried_again(hub: Hub) -> None:
    hub.change(failures=2)
    assert len(list(Dataset.list_files("hf://datasets/org/open/data/*"))) == 2
    hub.change(failures=100)
    with pytest.raises(errors.UnavailableError, match="answered with status 503"):
        Dataset.list_files("hf://datasets/org/open/data/*")


def test_a_hub_that_is_away_is_named(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.close()
    with pytest.raises(errors.UnavailableError, match=f"{hub.address} does not answer"):
        Dataset.list_files("hf://datasets/org/open/data/*")


@pytest.mark.parametrize(
    ("path", "kind", "expected"),
    [
        ("hf://datasets/org/nothing/*.parquet", errors.PermissionDeniedError, "does not exist, or is private: check the name, and set HF_TOKEN"),
        ("hf://datasets/org/private/*.parquet", errors.PermissionDeniedError, "does not exist, or is private"),
        ("hf://datasets/org/gated/*.parquet", errors.PermissionDeniedError, "is gated: accept its conditions"),
        ("hf://datasets/org/open@v9/*.parquet", errors.NotFoundError, "the revision does not exist"),
        ("hf://datasets/org/open/none/*.parquet", errors.NotFoundError, "the folder or file does not exist"),
        ("hf://datasets/org/open/*.arrow", errors.NotFoundError, "matches no file of revision 'main'; the files there are lines.jsonl, shard.tar"),
        ("hf://datasets/org/open/data", errors.NotFoundError, r"is a folder: name files in it, for example .*/data/\*.parquet"),
        ("hf://datasets/org/open", errors.InvalidArgumentError, "found no pattern of files"),
        ("hf://datasets/org/open/", errors.InvalidArgumentError, "found no pattern of files"),
        ("hf://spaces/org/open/x", errors.InvalidArgumentError, "another kind of repository than datasets"),
        ("hf://datasets/org/open/../../x", errors.InvalidArgumentError, "a part of dots alone"),
    ],
)
def test_wrong_paths_are_named_when_built(hub: Hub, path: str, kind: type[Exception], expected: str) -> None:
    for build in (Dataset.list_files, files.parquet):
        with pytest.raises(kind, match=expected):
            build(path)


def test_readers_of_folders_refuse_hub_paths(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(errors.UnimplementedError, match="image_folder reads folders of this machine"):
        files.image_folder("hf://datasets/org/open")
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    with pytest.raises(errors.PermissionDeniedError, match="mds cannot read private and gated datasets"):
        files.mds("hf://datasets/org/private/*.jsonl")


@pytest.mark.parametrize("address", ["huggingface.co", "ftp://huggingface.co", "https://name:secret@huggingface.co", "https://h/?x=secret"])
def test_a_wrong_endpoint_is_refused(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", address)
    with pytest.raises(errors.InvalidArgumentError, match="HF_ENDPOINT: expected a URL") as raised:
        Dataset.list_files("hf://datasets/org/open/*")
    assert "secret" not in str(raised.value)


def test_a_signed_url_states_its_columns(hub: Hub) -> None:
    # The text after the `?` of a URL was taken for a pattern once.
    url = f"{hub.store}/org/open/data/train-00000-of-00002.parquet?Signature=x"
    assert ids(files.parquet(url, ["id"])) == list(range(25))
