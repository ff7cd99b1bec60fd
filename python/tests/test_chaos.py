"""Tests that the ledger of ``tests/chaos`` detects each kind of fault of a service."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import millstream as ms

sys.path.append(str(Path(__file__).parents[2] / "tests"))

from chaos.__main__ import SKIPPED, summary
from chaos.etcd import check_store
from chaos.ledger import Batch, Ledger, Verdict, judge, positions_of
from chaos.processes import Cluster, free_port
from chaos.proxy import Proxy
from chaos.round import Round, Skipped
from chaos.table import percentile, table
from chaos.version import PACKAGE, check_package


def ledger(numbers: list[int], lost: list[tuple[int, int]] | None = None) -> Ledger:
    """Returns the ledger of a reader that delivered one number in each second."""
    batches = [Batch(float(at_s), [number]) for at_s, number in enumerate(numbers)]
    return Ledger(batches, outcome="ok", ended_at_s=float(len(numbers)), lost_splits=lost or [])


@pytest.mark.parametrize(
    ("ledgers", "expected"),
    [
        ([ledger([0, 1, 2])], Verdict(0, 0, 0, 0, 0)),
        ([ledger([0]), ledger([2, 1])], Verdict(0, 0, 0, 0, 0)),
        ([ledger([0, 2])], Verdict(1, 1, 0, 0, 0)),
        ([ledger([0, 2], lost=[(1, 1)])], Verdict(1, 0, 1, 0, 0)),
        ([ledger([0]), ledger([2], lost=[(0, 2)])], Verdict(1, 0, 2, 0, 0)),
        ([ledger([0, 1, 2]), ledger([1])], Verdict(0, 0, 0, 1, 0)),
        ([ledger([0, 1, 2, 3])], Verdict(0, 0, 0, 0, 1)),
    ],
    ids=["whole", "shared", "silent loss", "reported loss", "more reported than lost", "twice", "alien"],
)
def test_every_kind_of_fault_is_seen(ledgers: list[Ledger], expected: Verdict) -> None:
    verdict = judge(ledgers, 3)
    assert verdict == expected
    assert verdict.is_honest == (expected.unreported + expected.twice + expected.alien == 0)


def test_splits_cover_their_positions() -> None:
    assert positions_of([(1, 2)], 1024) == {1, 2}
    assert positions_of([(1023, 1)], 2047) == {2046}
    assert positions_of([(0, 1), (1022, 1)], 2047) == {0, 1, 2044, 2045}
    assert len(positions_of([(0, 1)], 1 << 30)) == 4096


def test_a_killed_readers_last_line_may_be_cut(tmp_path: Path) -> None:
    log = tmp_path / "ledger"
    log.write_text(json.dumps({"at_s": 1.0, "numbers": [1, 2]}) + '\n{"at_s": 2.0, "num')
    read = Ledger.read(log)
    assert read.batches == [Batch(1.0, [1, 2])] and read.outcome is None


def test_the_longest_wait_includes_the_end() -> None:
    slow = Ledger([Batch(1.0, []), Batch(3.0, []), Batch(3.5, [])], "ok", "", 8.0)
    assert slow.longest_wait_s(since_s=0.0) == 4.5
    assert slow.longest_wait_s(since_s=9.0) == 0.0


def test_the_table_has_a_row_for_each_reading() -> None:
    rounds = [
        ("worker-killed", Round(kind, judge([ledger([0, 1, 2])], 3), wait_s, 1.5, ("ok",), ()))
        for kind, wait_s in (("map", 1.0), ("map", 2.0), ("numbers", 3.0))
    ]
    lines = table(rounds).splitlines()
    assert len(lines) == 4
    assert lines[2].startswith("| worker-killed | map | 2 | 0 | 0 | 0 | 0 | 1.00 | 2.00 | 2.00 | 1.50 | 1.50 |")
    assert percentile([4.0, 1.0, 3.0, 2.0], 0.5) == 2.0


def test_the_relay_counts_the_datagrams_it_drops() -> None:
    import socket

    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client,
    ):
        server.bind(("127.0.0.1", free_port()))
        server.settimeout(30)
        client.settimeout(30)
        with Proxy(f"127.0.0.1:{server.getsockname()[1]}") as proxy:
            host, port = proxy.address.split(":")
            client.sendto(b"there", (host, int(port)))
            said, relayed_by = server.recvfrom(16)
            server.sendto(b"back", relayed_by)
            assert (said, client.recv(16)) == (b"there", b"back")
            proxy.cut()
            client.sendto(b"lost", (host, int(port)))
            while proxy.dropped == 0:
                pass
            # The end of one of two cuts does not end the other one.
            proxy.cut()
            proxy.heal()
            client.sendto(b"lost", (host, int(port)))
            while proxy.dropped == 1:
                pass
            proxy.heal()
            client.sendto(b"again", (host, int(port)))
            assert server.recv(16) == b"again"


def stand_in(folder: Path, on_sigterm: str) -> Path:
    """Writes a command that serves until its standard input closes, and runs a command of the shell on SIGTERM."""
    folder.mkdir()
    command = folder / "millstream"
    command.write_text(f"#!/bin/sh\ntrap '{on_sigterm}' TERM\necho serves on 127.0.0.1:1\nexec 3<&0\ncat <&3 > /dev/null &\nwait $!\n")
    command.chmod(0o755)
    return command


def test_each_role_runs_its_own_version(tmp_path: Path) -> None:
    present = stand_in(tmp_path / "present", "exit 0")
    previous = stand_in(tmp_path / "previous", "exit 3")
    package = previous.parent / "python" / "millstream"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise SystemExit('this is the stand-in')\n")
    with Cluster(tmp_path, str(present), previous.parent) as cluster:
        assert cluster.previous is not None
        cluster.versions["worker"] = cluster.versions["reader"] = cluster.previous
        dispatcher, (worker, _) = cluster.dispatcher(), cluster.worker()
        assert [process.child.args[0] for process in (dispatcher, worker)] == [str(present), str(previous)]  # type: ignore[index]
        reader, _ = cluster.reader("numbers", 8)
        # The package in the current directory is another one.
        assert reader.child.wait() == 1 and "this is the stand-in" in reader.log.read_text()
        dispatcher.leave()
        with pytest.raises(AssertionError, match="worker ended with status 3 after SIGTERM"):
            worker.leave()
        with pytest.raises(AssertionError, match="dispatcher ended before its turn"):
            dispatcher.leave()


def test_a_process_checks_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PACKAGE, str(Path(ms.__file__).parents[1]))
    check_package()
    monkeypatch.setenv(PACKAGE, str(tmp_path))
    with pytest.raises(AssertionError, match="expected the package in"):
        check_package()


def test_dispatchers_of_a_store_have_own_addresses(tmp_path: Path) -> None:
    command = stand_in(tmp_path / "present", "exit 0")
    with Cluster(tmp_path, str(command)) as cluster:
        cluster.share("etcd://127.0.0.1:1/chaos", dispatchers=2)
        started = [cluster.dispatcher(number=number).child.args for number in range(2)]
        worker, _ = cluster.worker()
    first, second = cluster.addresses
    records = ["--store", "etcd://127.0.0.1:1/chaos", "--until-stdin-closes"]
    assert started == [[str(command), "dispatcher", "--bind", address, *records] for address in (first, second)]
    assert worker.child.args[:4] == [str(command), "worker", "--dispatcher", f"{first},{second}"]  # type: ignore[index]


@pytest.mark.parametrize(
    ("message", "is_missing"),
    [
        ("this build of millstream has no etcd: build it with --features etcd", True),
        ("error: unexpected argument '--store' found", False),
    ],
)
def test_a_version_without_etcd_is_skipped(tmp_path: Path, message: str, is_missing: bool) -> None:
    command = tmp_path / "millstream"
    command.write_text(f'#!/bin/sh\necho "{message}" >&2\nexit 1\n')
    command.chmod(0o755)
    with Cluster(tmp_path, str(command)) as cluster, pytest.raises(Skipped, match="the present version") as skipped:
        check_store(cluster, cluster.present)
    assert skipped.value.is_missing is is_missing


def test_missing_tools_have_their_own_status() -> None:
    good = Round("map", judge([ledger([0, 1, 2])], 3), 1.0, 1.5, ("ok",), ())
    missing, old = Skipped("no etcd", is_missing=True), Skipped("an old version", is_missing=False)
    assert summary([good, old]) == 0
    assert summary([good, old, missing]) == SKIPPED
    assert summary([good, None, missing]) == 1
