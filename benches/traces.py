"""Measures the rate of a reader with traces off and on, in a service of a dispatcher and one worker on this machine.

All three processes send their spans to a collector in this program, which takes them and reads nothing. Each case has a service of its own, and the
cases are read in turn. Usage: ``python benches/traces.py --rounds 5``. The variable ``MILLSTREAM_COMMAND`` names the command ``millstream``, which is
otherwise found in the path. The program needs no package.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

#: The number of elements in a split. Elements are single numbers, which cost so little that the cost of a split shows.
SPLIT = 32
#: The ratios of the splits that are traced, by case. ``None`` leaves traces off.
CASES: dict[str, str | None] = {"off": None, "ratio 0.01": "0.01", "ratio 1": "1"}


class Collector(BaseHTTPRequestHandler):
    """Answers every request for spans with an empty message, which means that all spans were taken."""

    protocol_version = "HTTP/1.1"
    #: The number of bytes that arrived.
    taken = 0
    lock = threading.Lock()

    def do_POST(self) -> None:
        """Takes spans."""
        size = int(self.headers["Content-Length"])
        self.rfile.read(size)
        with Collector.lock:
            Collector.taken += size
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        """Logs nothing."""


@contextmanager
def started(command: list[str], environment: dict[str, str], ready: str) -> Iterator[re.Match[str]]:
    """Runs a process, and returns the match of the line with which it reports that it is ready."""
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, text=True)
    assert child.stdout is not None
    try:
        for line in child.stdout:
            if found := re.search(ready, line):
                yield found
                return
        raise RuntimeError(f"`{' '.join(command)}` ended before it was ready")
    finally:
        child.terminate()
        child.wait()


def rate(command: list[str], environment: dict[str, str]) -> float:
    """Reads a dataset, and returns the elements per second."""
    output = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    found = re.search(r"(\d+) elements/s", output)
    assert found is not None, output
    return float(found[1])


def main() -> None:
    """Prints a line of JSON for each case: the median rate, its spread, and the ratio to the rate with traces off."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="the number of interleaved rounds")
    parser.add_argument("--elements", type=int, default=10_000_000, help="the number of elements that a round reads in each case")
    arguments = parser.parse_args()
    millstream = os.environ.get("MILLSTREAM_COMMAND") or shutil.which("millstream")
    if millstream is None:
        sys.exit("the command millstream was not found: set MILLSTREAM_COMMAND, or install the wheel")
    collector = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=collector.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{collector.server_port}"
    rates: dict[str, list[float]] = {case: [] for case in CASES}
    with ExitStack() as stack:
        # The processes of all cases share a home directory, in which they create a key.
        environment = {**os.environ, "HOME": stack.enter_context(tempfile.TemporaryDirectory())}
        reading: dict[str, list[str]] = {}
        for case, ratio in CASES.items():
            traces = [] if ratio is None else ["--traces", url, "--trace-ratio", ratio]
            ready = stack.enter_context(
                started([millstream, "dispatcher", "--bind", "127.0.0.1:0", *traces], environment, r"listening on (\S+)")
            )
            service = ["--dispatcher", ready[1], *traces]
            stack.enter_context(started([millstream, "worker", "--bind", "127.0.0.1:0", *service], environment, r"serving on (\S+)"))
            dataset = ["--range", str(arguments.elements), "--split-size", str(SPLIT), "--batch", "0"]
            reading[case] = [millstream, "read", *service, *dataset]
        for number in range(arguments.rounds + 1):
            for case, command in reading.items():
                found = rate(command, environment)
                # The first round warms the services up.
                if number > 0:
                    rates[case].append(found)
    for case, found in rates.items():
        median = statistics.median(found)
        ratio = median / statistics.median(rates["off"])
        spread = [round(rate) for rate in (min(found), max(found))]
        print(json.dumps({"traces": case, "elements_per_s": round(median), "spread": spread, "ratio": round(ratio, 3)}))
    print(json.dumps({"collected_bytes": Collector.taken}))


if __name__ == "__main__":
    main()
