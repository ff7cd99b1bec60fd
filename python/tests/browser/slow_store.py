"""A web server whose storage is slow, for tests."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

#: The bytes of the file that the server sends at once, and the seconds of pause after them.
PIECE, PAUSE_S = 1 << 10, 0.1
FILE = "".join(json.dumps({"number": number}) + "\n" for number in range(100_000)).encode()


class Handler(BaseHTTPRequestHandler):
    """Answers requests for the file and for its ranges."""

    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self._answer(200, 0, len(FILE) - 1)

    def do_GET(self) -> None:
        asked = self.headers.get("range", "")
        first, _, last = asked.removeprefix("bytes=").partition("-")
        begin, end = int(first or 0), min(int(last or len(FILE) - 1), len(FILE) - 1)
        self._answer(206 if asked else 200, begin, end)
        for at in range(begin, end + 1, PIECE):
            self.wfile.write(FILE[at : min(at + PIECE, end + 1)])
            time.sleep(PAUSE_S)

    def _answer(self, status: int, first: int, last: int) -> None:
        self.send_response(status)
        self.send_header("accept-ranges", "bytes")
        self.send_header("etag", '"1"')
        self.send_header("last-modified", "Mon, 02 Nov 2026 10:00:00 GMT")
        self.send_header("content-length", str(last - first + 1))
        if status == 206:
            self.send_header("content-range", f"bytes {first}-{last}/{len(FILE)}")
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        """Prints nothing."""


@contextmanager
def slow_store() -> Iterator[str]:
    """Serves one file of JSON lines, and yields its URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/lines.jsonl"
    finally:
        server.shutdown()
