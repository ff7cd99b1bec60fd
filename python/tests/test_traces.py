"""Tests of ``ms.traces``: the spans that a collector receives from training programs."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

import millstream as ms

#: A program that reads an epoch of a service in its process. The variables of its environment switch the traces on.
PROGRAM = """
import millstream as ms

with ms.local(workers=1) as service:
    loader = ms.DataLoader(ms.Dataset.range(2000).batch(10), service=service, output="numpy")
    assert sum(1 for _ in loader) == 200
"""


class Collector:
    """A collector of OTLP over HTTP that keeps the bodies of requests."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                if self.path == "/v1/traces":
                    collector.bodies.append(body)
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """Keeps the output of the tests clean."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def has(self, *names: bytes) -> bool:
        """Returns whether spans of all these names have arrived."""
        received = b"".join(self.bodies)
        return all(name in received for name in names)


@pytest.fixture
def collector() -> Iterator[Collector]:
    collector = Collector()
    yield collector
    collector.close()


def run(program: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program], env=os.environ | environment, capture_output=True, text=True, timeout=120, check=False
    )


def test_variables_trace_a_program_without_changes(collector: Collector) -> None:
    result = run(PROGRAM, {"MILLSTREAM_TRACES": collector.url, "MILLSTREAM_TRACE_RATIO": "1"})
    assert result.returncode == 0, result.stderr
    # The last spans are sent at the end of the program.
    assert collector.has(b"prefetch elements", b"millstream-python"), len(collector.bodies)


def test_a_call_traces_later_readers(collector: Collector) -> None:
    with ms.local(workers=1) as service:
        ms.traces.start(collector.url, ratio=1.0)
        loader = ms.DataLoader(ms.Dataset.range(2000).batch(10), service=service, output="numpy")
        assert sum(1 for _ in loader) == 200
        ms.traces.stop()
        assert collector.has(b"prefetch elements")
        before = len(collector.bodies)
        later = ms.DataLoader(ms.Dataset.range(200).batch(10), service=service, output="numpy")
        assert sum(1 for _ in later) == 20
        ms.traces.stop()
    assert len(collector.bodies) == before


def test_traces_are_off_without_a_collector(collector: Collector) -> None:
    result = run(PROGRAM, {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url})
    assert result.returncode == 0, result.stderr
    assert not collector.bodies


@pytest.mark.parametrize(
    ("url", "ratio", "said"),
    [
        ("127.0.0.1:4318", None, "expected a URL such as"),
        ("http://user:planted@127.0.0.1:4318", None, "OTEL_EXPORTER_OTLP_HEADERS"),
        ("http://127.0.0.1:4318", 0.0, "above 0 and at most 1"),
        ("http://127.0.0.1:4318", 1.5, "above 0 and at most 1"),
        (None, None, "MILLSTREAM_TRACES"),
    ],
)
def test_arguments_are_checked(url: str | None, ratio: float | None, said: str) -> None:
    with pytest.raises(ms.errors.InvalidArgumentError, match=said) as caught:
        ms.traces.start(url, ratio)
    assert "planted" not in str(caught.value)


def test_invalid_variables_fail_the_first_reader() -> None:
    result = run(PROGRAM, {"MILLSTREAM_TRACES": "http://127.0.0.1:4318", "MILLSTREAM_TRACE_RATIO": "often"})
    assert result.returncode != 0
    assert "MILLSTREAM_TRACE_RATIO: expected a ratio above 0 and at most 1" in result.stderr, result.stderr


def test_forked_children_have_traces_of_their_own(collector: Collector) -> None:
    program = f"""
import os, warnings
import millstream as ms

warnings.simplefilter("ignore")
ms.traces.start("{collector.url}", ratio=1.0)
child = os.fork()
if child == 0:
    with ms.local(workers=1) as service:
        loader = ms.DataLoader(ms.Dataset.range(2000).batch(10), service=service, output="numpy")
        assert sum(1 for _ in loader) == 200
    ms.traces.stop()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""
    result = run(program, {})
    assert result.returncode == 0, result.stderr
    assert collector.has(b"prefetch elements")
