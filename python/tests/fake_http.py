"""A server on this machine that answers requests as a test says, and keeps them."""

from __future__ import annotations

import dataclasses
import http.server
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit


@dataclasses.dataclass
class Asked:
    """One request that came."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes


#: Answers a request with a status and JSON, bytes, or parts of bytes that are sent one after the other.
Answer = Callable[[Asked], tuple[int, Any]]


class Server:
    """The address of the server, and what it was asked."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.asked: list[Asked] = []


@contextmanager
def serving(answer: Answer, tls: ssl.SSLContext | None = None) -> Iterator[Server]:
    """Runs a server for as long as the block."""
    asked: list[Asked] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def _handle(self) -> None:
            parts = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            one = Asked(self.command, parts.path, query, dict(self.headers), body)
            asked.append(one)
            status, given = answer(one)
            pieces = [given if isinstance(given, bytes) else json.dumps(given).encode()] if not isinstance(given, Iterator) else given
            self.send_response(status)
            self.end_headers()
            try:
                for piece in pieces:
                    self.wfile.write(piece)
                    self.wfile.flush()
            except OSError:
                # The client is gone, as a test wants.
                self.close_connection = True

        do_GET = do_POST = _handle

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    found = Server(f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_port}")
    found.asked = asked
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
