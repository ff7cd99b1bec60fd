"""Tests of the port that shows the loaders of this process: its answers, its guard, its bounds, and its end."""

from __future__ import annotations

import contextlib
import gc
import json
import re
import shutil
import subprocess
import sys
import textwrap
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import millstream as ms
from millstream import _live

Start = Callable[..., str]

TOKEN = "0123456789abcdef"


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    """Forgets the loaders of other tests, which their owners may still hold."""
    _live.forget()
    yield
    _live.forget()


def get(server: ms.metrics.MetricsServer, path: str, **headers: str) -> tuple[int, str]:
    request = urllib.request.Request(server.url + path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def fresh(server: ms.metrics.MetricsServer, path: str) -> str:
    """Returns an answer that is newer than the call. Answers of a quarter of a second share an observation."""
    time.sleep(0.3)
    status, text = get(server, path)
    assert status == 200, text
    return text


def sample(text: str, name: str, loader: str) -> float:
    found = re.search(rf'^{name}{{loader="{re.escape(loader)}"}} (\S+)$', text, re.MULTILINE)
    assert found, f"{name} of {loader} is missing in:\n{text}"
    return float(found.group(1))


def test_every_loader_is_shown_with_its_waits() -> None:
    def slow() -> Iterator[int]:
        for number in range(4):
            time.sleep(0.05)
            yield number

    train = ms.DataLoader(slow, batch_size=None, element_spec=ms.TensorSpec((), ms.int64), output="numpy", name="train")
    plain = ms.DataLoader(list(range(10)), batch_size=4, output="numpy")
    with ms.metrics.serve() as server:
        assert "loader_elements_total" not in fresh(server, "/metrics")
        assert len(list(train)) == 4 and len(list(plain)) == 3 and len(list(plain)) == 3
        text = fresh(server, "/metrics")
        assert sample(text, "millstream_loader_elements_total", "train") == 4
        assert sample(text, "millstream_loader_waiting_seconds_total", "train") > 0.1
        assert sample(text, "millstream_loader_waiting_ratio", "train") > 0
        unnamed = "loader 0"
        assert sample(text, "millstream_loader_elements_total", unnamed) == 6
        assert sample(text, "millstream_loader_epoch", unnamed) == 1
        assert sample(text, "millstream_loader_epoch_steps", unnamed) == 3
        assert sample(text, "millstream_loader_bytes_total", unnamed) > 0
        assert "millstream_loaders 2" in text and "epoch_steps{loader=\"train\"}" not in text
        status = json.loads(fresh(server, "/api/v1/status"))
        (shown,) = [loader for loader in status["loaders"] if loader["name"] == "train"]
        assert "Python code while the loop waits" in shown["verdict"]["sentence"] and shown["verdict"]["advice"]


def test_counters_survive_epochs_and_close(cluster: Start) -> None:
    loader = ms.DataLoader(ms.Dataset.range(40).batch(4), service=cluster(1), output="numpy", name="served")
    with ms.metrics.serve() as server:
        assert len(list(loader)) == 10
        first = sample(fresh(server, "/metrics"), "millstream_loader_bytes_total", "served")
        assert len(list(loader)) == 10
        loader.close()
        text = fresh(server, "/metrics")
        assert sample(text, "millstream_loader_bytes_total", "served") == 2 * first > 0
        assert sample(text, "millstream_loader_elements_total", "served") == 20


def test_loaders_hide_their_own_readers(cluster: Start) -> None:
    dataset = ms.Dataset.range(8).batch(2)
    target = cluster(1)
    readers = [ms.DataLoader(dataset, service=target, output="numpy", visitation=how, name=str(how)) for how in ("upstream", "exactly_once")]
    readers.append(ms.DataLoader(list(range(8)), service=target, batch_size=2, output="numpy", name="indexed"))
    assert [len(list(reader)) for reader in readers] == [4, 4, 4]
    assert {one["name"] for one in _live.observe()[0]} == {"upstream", "exactly_once", "indexed"}


def test_a_plain_reader_is_shown_by_number(cluster: Start) -> None:
    elements = iter(ms.Dataset.range(8).apply(ms.service.distribute("parallel_epochs", cluster(1))))
    assert len([next(elements) for _ in range(3)]) == 3
    (shown,) = _live.observe()[0]
    assert shown["name"] == "reader 0" and shown["elements"] == 3 and shown["waited_s"] > 0 and shown["bytes"] > 0
    assert iter(ms.Dataset.range(3)) is not None and len(_live.observe()[0]) == 1


def test_names_of_loaders_hide_secrets() -> None:
    signed = "https://host/a.tar?X-Amz-Signature=planted"
    loaders = [ms.DataLoader([1, 2], output="numpy", name=f"{signed}{number}") for number in range(2)]
    assert [len(list(loader)) for loader in loaders] == [2, 2]
    with ms.metrics.serve() as server:
        for path in ["/metrics", "/api/v1/status", "/readyz"]:
            assert "planted" not in fresh(server, path)
        text = fresh(server, "/metrics")
        for name in ["https://host/a.tar?...", "https://host/a.tar?... (1)"]:
            assert sample(text, "millstream_loader_elements_total", name) == 2


def test_metrics_hold_no_loader() -> None:
    loader = ms.DataLoader([1, 2], output="numpy")
    list(loader)
    assert len(_live.observe()[0]) == 1
    del loader
    gc.collect()
    assert _live.observe() == ([], 0)


def test_a_blocked_loop_does_not_block_the_port() -> None:
    release = threading.Event()

    def stuck() -> Iterator[int]:
        yield 1
        release.wait(60)
        yield 2

    loader = ms.DataLoader(stuck, batch_size=None, element_spec=ms.TensorSpec((), ms.int64), output="numpy", name="stuck")
    reading = iter(loader)
    next(reading)
    loop = threading.Thread(target=lambda: next(reading))
    with ms.metrics.serve() as server:
        loop.start()
        try:
            before = sample(fresh(server, "/metrics"), "millstream_loader_waiting_seconds_total", "stuck")
            after = sample(fresh(server, "/metrics"), "millstream_loader_waiting_seconds_total", "stuck")
            assert after > before and get(server, "/livez")[0] == 200
            assert loader.stats()["waiting_s"] > 0
        finally:
            release.set()
            loop.join()


def test_the_port_answers_and_guards() -> None:
    with ms.metrics.serve(token=TOKEN) as server:
        assert server.port == int(server.url.rpartition(":")[2]) and str(server.port) in repr(server)
        assert get(server, "/livez") == (200, "ok\n") and get(server, "/readyz") == (200, "ok\n")
        assert get(server, "/metrics")[0] == 401
        assert get(server, "/metrics", Authorization=f"Bearer {TOKEN}")[0] == 200
        assert get(server, "/metrics", Authorization=f"Bearer {TOKEN}", Host="evil.example")[0] == 421
        assert get(server, "/metrics", Authorization=f"Bearer {TOKEN}", Origin="http://evil.example")[0] == 403
    with ms.metrics.serve(hosts=["trainer.example"]) as server:
        assert get(server, "/metrics", Host="trainer.example")[0] == 200
        assert get(server, "/nothing")[0] == 404


def test_an_open_port_needs_a_token() -> None:
    with pytest.raises(ms.errors.InvalidArgumentError, match="pass a token"):
        ms.metrics.serve(host="0.0.0.0")
    with pytest.raises(ms.errors.InvalidArgumentError, match="16 to 1024"):
        ms.metrics.serve(token="short")
    with pytest.raises(ValueError, match="invalid host"):
        ms.metrics.serve(host="localhost")
    with ms.metrics.serve() as server, pytest.raises(ms.errors.UnavailableError, match="another port"):
        ms.metrics.serve(port=server.port)
    with ms.metrics.serve(host="0.0.0.0", token=TOKEN) as server:
        assert server.port


def test_a_dropped_handle_keeps_the_port() -> None:
    url = ms.metrics.serve().url
    gc.collect()
    (server,) = [server for server in ms.metrics._open if server.url == url]
    assert get(server, "/livez")[0] == 200
    server.close()
    assert server not in ms.metrics._open


def test_a_closed_port_is_free_again() -> None:
    server = ms.metrics.serve()
    server.close()
    server.close()
    with contextlib.closing(ms.metrics.serve(port=server.port)) as again:
        assert get(again, "/livez")[0] == 200


def test_names_are_escaped_and_distinct() -> None:
    loaders = [ms.DataLoader([1], output="numpy", name=name) for name in ('a"b\\c\n', "same", "same", "x" * 500)]
    assert all(list(loader) for loader in loaders)
    with ms.metrics.serve() as server:
        text = fresh(server, "/metrics")
    assert r'loader="a\"b\\c\n"' in text
    named = re.findall(r"^millstream_loader_elements_total{(.*)} 1$", text, re.MULTILINE)
    assert len(named) == len(set(named)) == 4 and max(map(len, named)) < 100


def test_at_most_64_loaders_are_shown() -> None:
    loaders = [ms.DataLoader([1], output="numpy") for _ in range(80)]
    assert all(list(loader) for loader in loaders)
    with ms.metrics.serve() as server:
        text = fresh(server, "/metrics")
    assert "millstream_loaders 80" in text and text.count("millstream_loader_elements_total{") == 64
    assert 'elements_total{loader="loader 79"}' in text and 'elements_total{loader="loader 15"}' not in text


def promtool() -> str | None:
    return shutil.which("promtool")


@pytest.mark.skipif(promtool() is None, reason="promtool is not installed")
def test_prometheus_accepts_the_metrics(cluster: Start) -> None:
    loader = ms.DataLoader(ms.Dataset.range(40).batch(4), service=cluster(1), output="numpy", name="train")
    assert len(list(loader)) == 10
    with ms.metrics.serve() as server:
        text = fresh(server, "/metrics")
    checked = subprocess.run([str(promtool()), "check", "metrics"], input=text, capture_output=True, text=True, timeout=60)
    assert checked.returncode == 0 and checked.stdout + checked.stderr == "", checked.stdout + checked.stderr


def test_documented_metrics_are_those_of_the_port(cluster: Start) -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "metrics.md").read_text()
    documented = set(re.findall(r"`(millstream_loader\w*)(?:{loader})?`", page))
    loader = ms.DataLoader(ms.Dataset.range(40).batch(4), service=cluster(1), output="numpy", name="train")
    assert len(list(loader)) == 10
    with ms.metrics.serve() as server:
        served = set(re.findall(r"^# TYPE (millstream_loader\w*)", fresh(server, "/metrics"), re.MULTILINE))
    assert served == documented


PROGRAM = """
import sys, threading, time, urllib.request
import millstream as ms

server = ms.metrics.serve()
loader = ms.DataLoader(list(range(4)), output="numpy")
next(iter(loader))
url = server.url

def ask():
    while True:
        try:
            urllib.request.urlopen(url + "/metrics", timeout=5).read()
        except OSError:
            return

threading.Thread(target=ask, daemon=True).start()
time.sleep(0.3)
print("done")
{end}
"""


@pytest.mark.parametrize("end", ["", "del server", "server.close()", "raise SystemExit(0)"])
def test_a_program_ends_with_an_open_port(end: str) -> None:
    program = textwrap.dedent(PROGRAM).format(end=end)
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout) == (0, "done\n"), ended.stderr


def test_servers_open_admin_ports() -> None:
    config = ms.service.DispatcherConfig(admin="127.0.0.1:0")
    with ms.service.DispatchServer(config) as dispatcher:
        worker = ms.service.WorkerConfig(dispatcher.target, admin="127.0.0.1:0", admin_token=TOKEN)
        with ms.service.WorkerServer(worker) as running:
            def metrics(url: str | None, **headers: str) -> str:
                assert url is not None
                request = urllib.request.Request(f"{url}/metrics", headers=headers)
                with urllib.request.urlopen(request, timeout=20) as answer:
                    return str(answer.read().decode())

            assert "millstream_dispatcher_leading 1" in metrics(dispatcher.admin_url)
            assert "millstream_worker_links" in metrics(running.admin_url, Authorization=f"Bearer {TOKEN}")
            assert TOKEN not in repr(worker) and TOKEN not in running._repr_html_()
        assert dispatcher.admin_url
    with ms.service.DispatchServer() as dispatcher:
        assert dispatcher.admin_url is None


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"admin_token": TOKEN}, "needs an admin port"),
        ({"advertise": "host:1"}, "needs a store"),
        ({"store": "etcd://h:1/x", "fault_tolerant_mode": True, "work_dir": "/tmp/x"}, "exclude each other"),
    ],
)
def test_settings_of_servers_are_checked(config: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ms.service.DispatcherConfig(**config)


def test_a_bad_store_is_refused() -> None:
    with pytest.raises(ms.errors.InvalidArgumentError):
        ms.service.DispatchServer(ms.service.DispatcherConfig(store="redis://h:1/x"))
    with pytest.raises(ms.errors.InvalidArgumentError, match="IP:PORT"):
        ms.service.DispatchServer(ms.service.DispatcherConfig(admin="nowhere"))


HOLDING = """
import ctypes, sys
import millstream as ms

server = ms.metrics.serve()
print(server.url, flush=True)
# A call through PyDLL keeps the interpreter's lock.
ctypes.PyDLL(None).sleep(9)
print("released", flush=True)
sys.stdin.read()
server.close()
"""


def test_a_held_interpreter_is_not_alive() -> None:
    program = subprocess.Popen([sys.executable, "-c", HOLDING], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert program.stdin is not None and program.stdout is not None
        url = program.stdout.readline().strip()
        # The program may still run a few lines before it holds the lock.
        deadline, refused = time.monotonic() + 20, 200
        while refused == 200 and time.monotonic() < deadline:
            try:
                urllib.request.urlopen(f"{url}/livez", timeout=20)
            except urllib.error.HTTPError as error:
                refused = error.code
        assert refused == 503
        assert program.stdout.readline() == "released\n"
        # The observation that waited for the lock ends now, so the next one succeeds.
        deadline = time.monotonic() + 20
        while True:
            with contextlib.suppress(urllib.error.HTTPError):
                assert urllib.request.urlopen(f"{url}/livez", timeout=20).status == 200
                break
            assert time.monotonic() < deadline, "the port does not recover"
            time.sleep(0.1)
        program.stdin.close()
        assert program.wait(30) == 0
    finally:
        program.kill()
        program.wait()
        program.stdout.close()
