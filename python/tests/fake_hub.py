"""A server on 127.0.0.1 that speaks the interface of the Hugging Face hub: revisions, pages of trees, and files behind redirects.

The server is a process of its own, because the look-up of columns holds the lock of the interpreter while it waits for files.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import subprocess
import sys
import threading
import urllib.parse
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

__all__ = ["COMMIT", "TOKEN", "Hub"]

COMMIT = "0123456789abcdef0123456789abcdef01234567"
#: The token that private and gated repositories want.
TOKEN = "hf_SecretOfTheTests"
#: The entries of one page of a tree.
_PAGE = 2
_REVISIONS = ("main", "refs/convert/parquet", "v1.0", COMMIT)


@dataclasses.dataclass
class _State:
    """What the server knows, which a test may replace."""

    repositories: dict[str, str]
    private: list[str]
    gated: list[str]
    #: The number of requests that are still answered with status 503.
    failures: int = 0


class Hub:
    """A running server: a hub, and a store of its large files on another port.

    Args:
        repositories: The folder of each repository.
        private: The repositories that only holders of the token see.
        gated: The repositories that only holders of the token may read.
    """

    def __init__(self, repositories: dict[str, Path], private: list[str], gated: list[str]) -> None:
        self._state = _State({name: str(path) for name, path in repositories.items()}, private, gated)
        said = json.dumps(dataclasses.asdict(self._state))
        self._process = subprocess.Popen([sys.executable, __file__, said], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        #: The addresses of the hub, and of the store of large files.
        self.address, self.store = self._process.stdout.readline().split()

    def change(self, **values: Any) -> None:
        """Replaces parts of the server's state."""
        self._state = dataclasses.replace(self._state, **values)
        body = json.dumps(dataclasses.asdict(self._state)).encode()
        urllib.request.urlopen(f"{self.address}/control", body).close()

    @property
    def requests(self) -> list[tuple[str, str, str | None]]:
        """The address, the path and the token of each request, in order."""
        with urllib.request.urlopen(f"{self.address}/control") as answer:
            return [tuple(request) for request in json.load(answer)]

    def close(self) -> None:
        """Ends the server."""
        if self._process.poll() is None:
            self._process.communicate()


def _handler(hub: list[_State], requests: list[Any], store: str | None) -> type[BaseHTTPRequestHandler]:
    """Returns the handler of the hub, or of the store if ``store`` is ``None``."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            hub[0] = _State(**json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self._answer(200, b"")

        def do_GET(self) -> None:
            if self.path == "/control":
                self._answer(200, json.dumps(requests).encode())
                return
            token = (self.headers.get("Authorization") or "").removeprefix("Bearer ") or None
            requests.append((self._address(), self.path, token))
            if hub[0].failures:
                hub[0].failures -= 1
                self._answer(503, b"busy")
                return
            path, _, query = self.path.partition("?")
            parts = [urllib.parse.unquote(part) for part in path.strip("/").split("/")]
            if store is None:
                self._file("/".join(parts[:2]), "/".join(parts[2:]))
            elif parts[:2] == ["api", "datasets"]:
                self._api(parts[2:], urllib.parse.parse_qs(query), token)
            else:
                self._resolve(parts[1:], token)

        def do_HEAD(self) -> None:
            self.do_GET()

        def _address(self) -> str:
            return f"http://127.0.0.1:{self.server.server_port}"  # type: ignore[attr-defined]

        def _known(self, repository: str, token: str | None) -> bool:
            """Answers for repositories that are not there, or may not be read."""
            if repository not in hub[0].repositories:
                self._answer(401, b"", {"X-Error-Code": "RepoNotFound"})
            elif repository in hub[0].private and token != TOKEN:
                self._answer(401, b"", {"X-Error-Code": "RepoNotFound"})
            elif repository in hub[0].gated and token != TOKEN:
                self._answer(403, b"", {"X-Error-Code": "GatedRepo"})
            else:
                return True
            return False

        def _api(self, parts: list[str], query: dict[str, list[str]], token: str | None) -> None:
            at = next(place for place, part in enumerate(parts) if part in ("revision", "tree"))
            repository, kind, revision, below = "/".join(parts[:at]), parts[at], parts[at + 1], "/".join(parts[at + 2 :])
            if not self._known(repository, token):
                return
            if revision not in _REVISIONS:
                self._answer(404, b"", {"X-Error-Code": "RevisionNotFound"})
                return
            if kind == "revision":
                gated = "auto" if repository in hub[0].gated else False
                about = {"id": repository, "sha": COMMIT, "private": repository in hub[0].private, "gated": gated}
                self._answer(200, json.dumps(about).encode())
                return
            root = Path(hub[0].repositories[repository])
            folder = root / below
            if not folder.is_dir():
                self._answer(404, b"", {"X-Error-Code": "EntryNotFound"})
                return
            found = sorted(folder.rglob("*") if query["recursive"] == ["true"] else folder.iterdir())
            first = int(query.get("cursor", ["0"])[0])
            entries = [
                {"type": "directory", "oid": COMMIT, "path": str(path.relative_to(root)), "size": 0}
                if path.is_dir()
                else {"type": "file", "oid": COMMIT, "path": str(path.relative_to(root)), "size": path.stat().st_size}
                for path in found[first : first + _PAGE]
            ]
            following = urllib.parse.urlencode({"recursive": query["recursive"][0], "cursor": first + _PAGE})
            more = {"Link": f'<{self._address()}{self.path.partition("?")[0]}?{following}>; rel="next"'} if first + _PAGE < len(found) else {}
            self._answer(200, json.dumps(entries).encode(), more)

        def _resolve(self, parts: list[str], token: str | None) -> None:
            at = parts.index("resolve")
            repository, commit, path = "/".join(parts[:at]), parts[at + 1], "/".join(parts[at + 2 :])
            if not self._known(repository, token):
                return
            if commit != COMMIT:
                self._answer(404, b"", {"X-Error-Code": "RevisionNotFound"})
            elif path.endswith(".parquet"):
                # Large files are elsewhere, under a signature in the place of the token.
                self._answer(302, b"", {"Location": f"{store}/{repository}/{urllib.parse.quote(path)}?Signature=SignatureOfTheTests"})
            else:
                self._file(repository, path)

        def _file(self, repository: str, below: str) -> None:
            path = Path(hub[0].repositories.get(repository, "/nowhere")) / below
            if not path.is_file():
                self._answer(404, b"", {"X-Error-Code": "EntryNotFound"})
                return
            body = path.read_bytes()
            tag = {"ETag": f'"{hashlib.sha256(body).hexdigest()}"'}
            asked = self.headers.get("Range")
            if asked is None:
                self._answer(200, body, tag)
                return
            start, _, end = asked.removeprefix("bytes=").partition("-")
            first, last = int(start), min(int(end or len(body) - 1), len(body) - 1)
            self._answer(206, body[first : last + 1], {**tag, "Content-Range": f"bytes {first}-{last}/{len(body)}"})

        def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler


def main(said: str) -> None:
    """Serves until standard input is closed."""
    state, requests = [_State(**json.loads(said))], list[Any]()
    store = ThreadingHTTPServer(("127.0.0.1", 0), _handler(state, requests, None))
    address = f"http://127.0.0.1:{store.server_port}"
    hub = ThreadingHTTPServer(("127.0.0.1", 0), _handler(state, requests, address))
    for server in (hub, store):
        threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"http://127.0.0.1:{hub.server_port}", address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1])
