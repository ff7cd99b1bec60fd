"""A port that shows the dashboard with a status of the test's choice, however large."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

DASHBOARD = Path(__file__).resolve().parents[3] / "src" / "admin" / "dashboard"
TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css", ".js": "text/javascript"}
#: The seconds between two statuses, as of a dispatcher.
EVERY_S = 1.0


class SyntheticPort:
    """Serves the files of the dashboard, and its status every second. The end of the context ends the server."""

    def __init__(self, status: dict[str, Any], token: str | None = None) -> None:
        #: The status, which a test may replace.
        self.status = status
        #: The number of connections that have asked for the live status with the right token.
        self.followed = 0
        port = self
        documents = {"/api/v1/history": {"points": []}, "/api/v1/events": {"events": []}}
        ending = threading.Event()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path = self.path.partition("?")[0]
                if path == "/api/v1/live":
                    return self._live()
                if path in documents:
                    return self._answer("application/json", json.dumps(documents[path]).encode())
                file = DASHBOARD / (path.lstrip("/") or "index.html")
                if file.parent == DASHBOARD and file.is_file():
                    return self._answer(TYPES[file.suffix], file.read_bytes())
                return self.send_error(404)

            def _answer(self, media_type: str, content: bytes) -> None:
                self.send_response(200)
                self.send_header("content-type", media_type)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def _live(self) -> None:
                if token and self.headers["authorization"] != f"Bearer {token}":
                    return self.send_error(401)
                port.followed += 1
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.end_headers()
                while not ending.is_set():
                    try:
                        self.wfile.write(b"event: status\ndata: " + json.dumps(port.status).encode() + b"\n\n")
                    except ConnectionError:
                        return
                    time.sleep(EVERY_S)

            def log_message(self, *_: object) -> None:
                """Says nothing, because the test needs no log."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._ending = ending
        self.page = f"http://127.0.0.1:{self._server.server_port}/"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._server.shutdown()
        self._server.server_close()


def large_status(workers: int, tasks: int) -> dict[str, Any]:
    """Returns the status of a service with these numbers of workers and tasks, in ten jobs."""
    names = [f"10.0.{number // 256}.{number % 256}:5051" for number in range(workers)]

    def task(number: int) -> dict[str, Any]:
        return {
            "id": number,
            "worker": number % workers,
            "worker_address": names[number % workers],
            "phase": "running",
            "splits_leased": 3,
            "elements": 1000 + number,
            "elements_per_s": 10.5,
            "element_ns": 2_000_000,
            "bottleneck": "map(decode)" if number % 2 else "consumer",
        }

    def client(number: int) -> dict[str, Any]:
        return {
            "id": number,
            "consumer": None,
            "silent_ms": 10,
            "elements": 1000,
            "elements_per_s": 100.0,
            "element_ns": 1_000_000,
            "waiting": 0.01,
        }

    iterations = [
        {
            "id": number,
            "job": 1000 + number,
            "repetition": 0,
            "phase": "running",
            "waiting_for_workers": False,
            "workers_wanted": None,
            "splits_leased": 1,
            "splits_done": 5,
            "splits_lost": 0,
            "sources": [{"splits_remaining": 4}],
            "lost": [],
            "skipped": [],
            "stages": [],
            "tasks": [task(one) for one in range(number, tasks, 10)],
            "clients": [client(one) for one in range(number, 1000, 10)],
        }
        for number in range(10)
    ]
    return {
        "leading": True,
        "verdict": {"level": "good", "sentence": "No trainer waits for data.", "advice": ""},
        "counts": {"workers": workers, "clients": 1000, "jobs": 10, "tasks": tasks},
        "workers_wanted": workers,
        "workers": [
            {
                "id": number,
                "address": name,
                "tags": [],
                "version": "1",
                "dead": None,
                "draining": False,
                "silent_ms": 10,
                "tasks": tasks // workers,
                "links": {"memory": 0, "shm": 1, "quic": 2},
                "load": {"memory_bytes": 1 << 30, "shared_memory_bytes": 1 << 20, "python_processes": 4},
            }
            for number, name in enumerate(names)
        ],
        "jobs": [
            {"id": 1000 + number, "name": "many", "dataset": "large", "policy": "dynamic", "exactly_once": None}
            for number in range(10)
        ],
        "iterations": iterations,
    }
