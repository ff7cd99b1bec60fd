"""Datasets of the Hugging Face hub: ``hf://datasets/ORG/NAME[@REVISION]/PATTERN`` becomes the URLs of files.

Owns the hub's addresses, the token and the listing of files. A commit replaces the revision when a dataset is built, so that all workers and all
passes read the same files. The token goes to the hub alone, and never into a definition or a message. Refuses to know the formats of files.
"""

from __future__ import annotations

import dataclasses
import email.message
import json
import os
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from .errors import (
    InvalidArgumentError,
    MillstreamError,
    NotFoundError,
    PermissionDeniedError,
    ResourceExhaustedError,
    UnavailableError,
)

__all__ = ["HubFile", "endpoint", "is_of_hub", "listed", "opened"]

_PREFIX = "hf://"
_ENDPOINT = "https://huggingface.co"
#: Seconds that the hub may be silent.
_SILENCE_S = 30.0
#: Attempts of a request, and seconds before the second attempt. Each further wait is twice as long.
_ATTEMPTS, _WAIT_S = 4, 0.5
#: The maximum number of files of a pattern, and of bytes of one answer of the hub.
_FILES_MAX, _ANSWER_BYTES_MAX = 1 << 20, 64 << 20
#: The signs of a pattern.
_SIGNS = "*?["
#: The revisions whose names have slashes, and the name of the branch with Parquet files that the hub makes.
_REFS = re.compile(r"refs/(?:convert|pr)/[^/]+")
_CONVERTED = "refs/convert/parquet"


@dataclasses.dataclass(frozen=True)
class HubFile:
    """A file of a dataset at one commit.

    Attributes:
        url: The address of the file, which has the commit in the place of the revision.
        size_bytes: The size of the file.
        needs_token: Whether the hub gives the file only to holders of a token that may read the dataset.
    """

    url: str
    size_bytes: int
    needs_token: bool


@dataclasses.dataclass(frozen=True)
class _Place:
    """The parts of a ``hf://`` path."""

    written: str
    repository: str
    revision: str
    pattern: str


def is_of_hub(path: Any) -> bool:
    """Returns whether a path begins with ``hf://``."""
    return isinstance(path, str | os.PathLike) and os.fspath(path).startswith(_PREFIX)


def endpoint() -> str:
    """Returns the address of the hub, which the environment variable ``HF_ENDPOINT`` may set.

    Raises:
        InvalidArgumentError: The address is not a plain URL of a server.
    """
    address = os.environ.get("HF_ENDPOINT", "").rstrip("/") or _ENDPOINT
    parts = urllib.parse.urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment or "@" in parts.netloc:
        raise InvalidArgumentError(f"HF_ENDPOINT: expected a URL such as {_ENDPOINT}, without a password, found one that is not")
    return address


def listed(pattern: str) -> list[HubFile]:
    """Returns the files of a pattern, sorted by path.

    ``*`` and ``?`` match within a name, ``[ab]`` matches one of the signs, and ``**`` matches any number of folders.

    Raises:
        InvalidArgumentError: The path is not one of a dataset of the hub.
        NotFoundError: The dataset, the revision or the files do not exist.
        PermissionDeniedError: The hub wants a token that may read the dataset.
        UnavailableError: The hub does not answer.
    """
    refusals: list[MillstreamError] = []
    for place in _readings(pattern):
        try:
            commit, needs_token = _commit(place)
        except (NotFoundError, PermissionDeniedError) as error:
            refusals.append(error)
            continue
        return _files(place, commit, needs_token)
    raise refusals[0]


def opened(url: str) -> Any:
    """Opens a file of the hub with the token of this process, for reading.

    Raises:
        MillstreamError: The hub refuses, or does not answer.
    """
    return _answer(urllib.request.Request(url), url)


def _readings(pattern: str) -> list[_Place]:
    """Returns the datasets that a path may name. The name of an old dataset has no organisation."""
    expected = "expected hf://datasets/ORG/NAME[@REVISION]/PATTERN"
    kind, _, rest = pattern.removeprefix(_PREFIX).partition("/")
    if kind != "datasets":
        raise InvalidArgumentError(f"{pattern}: {expected}, found another kind of repository than datasets")
    parts = rest.rstrip("/").split("/")
    if "" in parts or any(part in (".", "..") for part in parts):
        raise InvalidArgumentError(f"{pattern}: {expected}, found an empty part, or a part of dots alone")
    found = []
    # Two parts alone are an organisation and a name. A file of a dataset without an organisation needs @REVISION then.
    for count in (1,) if "@" in parts[0] else (2, 1) if len(parts) > 2 else (2,):
        name, _, revision = "/".join(parts[:count]).partition("@")
        below = "/".join(parts[count:])
        if revision == "refs" and (ref := _REFS.match(f"{revision}/{below}")):
            revision, below = ref[0], f"{revision}/{below}"[ref.end() :].lstrip("/")
        if not name or not below or any(sign in name for sign in _SIGNS):
            continue
        revision = _CONVERTED if revision == "~parquet" else urllib.parse.unquote(revision) or "main"
        found.append(_Place(pattern, name, revision, below))
    if not found:
        raise InvalidArgumentError(f"{pattern}: {expected}, found no pattern of files: append one, for example /**/*.parquet")
    return found


def _commit(place: _Place) -> tuple[str, bool]:
    """Returns the commit of a revision, and whether its files need a token."""
    hub, revision = endpoint(), urllib.parse.quote(place.revision, safe="")
    about = _read(f"{hub}/api/datasets/{urllib.parse.quote(place.repository)}/revision/{revision}", place.written)[0]
    commit = about.get("sha") if isinstance(about, dict) else None
    if not isinstance(commit, str) or not commit:
        raise UnavailableError(f"{place.written}: the answer of {hub} has no commit: check HF_ENDPOINT")
    return commit, bool(about.get("private")) or bool(about.get("gated"))


def _files(place: _Place, commit: str, needs_token: bool) -> list[HubFile]:
    hub, quoted = endpoint(), urllib.parse.quote(place.repository)
    matches, found, shown = _matcher(place.pattern), [], []
    for entry in _tree(f"{hub}/api/datasets/{quoted}/tree/{commit}", place):
        path = str(entry.get("path", ""))
        if entry.get("type") == "directory":
            if path == place.pattern:
                raise NotFoundError(f"{place.written} is a folder: name files in it, for example {place.written.rstrip('/')}/*.parquet")
            continue
        shown.append(path)
        if matches.fullmatch(path):
            url = f"{hub}/datasets/{quoted}/resolve/{commit}/{urllib.parse.quote(path)}"
            found.append(HubFile(url, int(entry.get("size") or 0), needs_token))
    if not found:
        there = f"; the files there are {', '.join(sorted(shown)[:5])}{', ...' if len(shown) > 5 else ''}" if shown else ""
        raise NotFoundError(f"{place.written}: matches no file of revision {place.revision!r}{there}")
    return sorted(found, key=lambda file: file.url)


def _tree(url: str, place: _Place) -> Iterator[dict[str, Any]]:
    """Yields the entries below the folder that a pattern names without signs, page by page."""
    folders = place.pattern.split("/")[:-1]
    plain = next((at for at, part in enumerate(folders) if any(sign in part for sign in _SIGNS)), len(folders))
    below = urllib.parse.quote("/".join(folders[:plain]))
    is_deep = plain < len(folders) or "**" in place.pattern
    following: str | None = f"{url}/{below}".rstrip("/") + f"?recursive={'true' if is_deep else 'false'}&expand=false"
    count = 0
    while following is not None:
        entries, headers = _read(following, place.written)
        if not isinstance(entries, list):
            raise UnavailableError(f"{place.written}: expected a list of files from {endpoint()}, found another answer: check HF_ENDPOINT")
        for entry in entries:
            count += 1
            if count > _FILES_MAX:
                raise ResourceExhaustedError(f"{place.written}: the folder has more than {_FILES_MAX} entries: use a narrower pattern")
            yield entry
        following = _next_page(following, headers.get("Link") or "")


def _next_page(url: str, link: str) -> str | None:
    found = re.search(r"<([^>]*)>\s*;\s*rel=\"?next\"?", link)
    return None if found is None else urllib.parse.urljoin(url, found[1])


def _matcher(pattern: str) -> re.Pattern[str]:
    """Returns the expression of a pattern, with the rules that patterns of stores have."""
    text, at = "", 0
    while at < len(pattern):
        sign = pattern[at]
        closing = pattern.find("]", at + 2)
        if pattern.startswith("**/", at):
            text, at = text + "(?:[^/]+/)*", at + 3
        elif pattern.startswith("**", at):
            text, at = text + ".*", at + 2
        elif sign == "*":
            text, at = text + "[^/]*", at + 1
        elif sign == "?":
            text, at = text + "[^/]", at + 1
        elif sign == "[" and closing > 0:
            inner = pattern[at + 1 : closing]
            negated, inner = ("^", inner[1:]) if inner[0] == "!" else ("", inner)
            text, at = text + f"(?!/)[{negated}{re.escape(inner).replace(chr(92) + '-', '-')}]", closing + 1
        else:
            text, at = text + re.escape(sign), at + 1
    return re.compile(text)


# Requests.


def _read(url: str, of: str) -> tuple[Any, email.message.Message]:
    """Returns an answer as JSON, and its headers."""
    with _answer(urllib.request.Request(url), of) as answer:
        body = answer.read(_ANSWER_BYTES_MAX + 1)
        headers: email.message.Message = answer.headers
    if len(body) > _ANSWER_BYTES_MAX:
        raise ResourceExhaustedError(f"{of}: the answer of {endpoint()} exceeds {_ANSWER_BYTES_MAX} bytes")
    try:
        return json.loads(body), headers
    except ValueError:
        raise UnavailableError(f"{of}: expected JSON from {endpoint()}, found another answer: check HF_ENDPOINT") from None


def _answer(request: urllib.request.Request, of: str) -> Any:
    """Sends a request, again after failures that may be temporary."""
    token = _token()
    if token and _origin(request.full_url) == _origin(endpoint()):
        request.add_unredirected_header("Authorization", f"Bearer {token}")
    for attempt in range(_ATTEMPTS):
        try:
            return _OPENER.open(request, timeout=_SILENCE_S)
        except urllib.error.HTTPError as error:
            with error:
                failure, is_final = _refusal(error, of, bool(token)), error.code not in (408, 429, 500, 502, 503, 504)
        except (OSError, urllib.error.URLError) as error:
            reason = getattr(error, "reason", error)
            failure, is_final = UnavailableError(f"{of}: {endpoint()} does not answer: {type(reason).__name__}: {reason}"), False
        if is_final or attempt + 1 == _ATTEMPTS:
            raise failure
        time.sleep(_WAIT_S * 2**attempt)
    raise AssertionError


def _refusal(error: urllib.error.HTTPError, of: str, has_token: bool) -> MillstreamError:
    """Returns the error for a status of the hub. No header of the request is part of the message."""
    code = error.headers.get("X-Error-Code", "") if error.headers else ""
    advice = "check that the token in HF_TOKEN may read it" if has_token else "set HF_TOKEN to a token that may read it, on workers too"
    if code == "GatedRepo":
        return PermissionDeniedError(f"{of}: the dataset is gated: accept its conditions on {endpoint()}, and {advice}")
    if error.code in (401, 403):
        return PermissionDeniedError(f"{of}: the dataset does not exist, or is private: check the name, and {advice}")
    if error.code == 404:
        kinds = {"RevisionNotFound": "the revision does not exist", "EntryNotFound": "the folder or file does not exist"}
        return NotFoundError(f"{of}: {kinds.get(code, 'the dataset, the revision or the folder does not exist')} on {endpoint()}")
    return UnavailableError(f"{of}: {endpoint()} answered with status {error.code}")


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects to HTTPS, and to the hub's own origin. Only the hub's own origin receives the token."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        is_home = _origin(newurl) == _origin(endpoint())
        if not is_home and urllib.parse.urlsplit(newurl).scheme != "https" and _origin(newurl)[1] != _origin(endpoint())[1]:
            raise UnavailableError(f"{endpoint()} redirected a request to a server without TLS, which is refused")
        following = super().redirect_request(req, fp, code, msg, headers, newurl)
        token = _token()
        if following is not None and is_home and token:
            following.add_unredirected_header("Authorization", f"Bearer {token}")
        return following


_OPENER = urllib.request.build_opener(_Redirects)


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urllib.parse.urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def _token() -> str | None:
    """Returns the token of this process: ``HF_TOKEN``, or the file that ``hf auth login`` writes.

    Raises:
        InvalidArgumentError: The token has signs that no token has, or would be sent without TLS to another machine.
    """
    said = os.environ.get("HF_TOKEN", "").strip()
    if not said:
        home = os.environ.get("HF_HOME") or os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "huggingface")
        file = Path(os.environ.get("HF_TOKEN_PATH") or os.path.join(home, "token"))
        try:
            said = file.read_text().strip()
        except (OSError, UnicodeError):
            return None
    if not said:
        return None
    if not re.fullmatch(r"[!-~]+", said):
        raise InvalidArgumentError("HF_TOKEN: expected a token of printable ASCII signs without spaces, found other signs")
    scheme, host, _ = _origin(endpoint())
    if scheme != "https" and host not in ("localhost", "127.0.0.1", "::1"):
        raise InvalidArgumentError("HF_ENDPOINT: expected https:// because HF_TOKEN is set, found http://, which would show the token to the network")
    return said
