"""Requests of JSON over HTTP with a deadline and a limit of bytes.

Owns one request: its connection, its deadline, and the error that an answer stands for. Refuses to know what is asked, and to follow redirects.
"""

from __future__ import annotations

import dataclasses
import http.client
import json
import ssl
import time
import urllib.parse
from collections.abc import Callable, Mapping
from typing import Any

from ..errors import (
    DeadlineExceededError,
    FailedPreconditionError,
    MillstreamError,
    NotFoundError,
    PermissionDeniedError,
    ResourceExhaustedError,
    UnavailableError,
)

__all__ = ["Request", "Response", "Transport", "ask", "send"]

#: Bytes of one answer.
_BYTES_MAX = 64 << 20
_PART_BYTES = 64 << 10
#: Characters of an answer that an error shows.
_SHOWN = 300


@dataclasses.dataclass(frozen=True)
class Request:
    """One request.

    Attributes:
        url: The address, with its query.
        method: The verb of HTTP.
        headers: The headers.
        body: The bytes to send, if there are any.
        timeout_s: The seconds within which the whole answer must be there.
        tls: The settings of TLS; by default those of the system.
    """

    url: str
    method: str = "GET"
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    body: bytes | None = None
    timeout_s: float = 10.0
    tls: ssl.SSLContext | None = None


@dataclasses.dataclass(frozen=True)
class Response:
    """The status and the bytes of an answer."""

    status: int
    body: bytes


#: What sends a request. Tests and programs with needs of their own pass another one than ``send``.
Transport = Callable[[Request], Response]


def send(request: Request) -> Response:
    """Sends a request.

    Args:
        request: The request.

    Returns:
        The answer, whatever its status.

    Raises:
        DeadlineExceededError: The answer is not there in time.
        UnavailableError: The server cannot be reached, or breaks off.
        ResourceExhaustedError: The answer has too many bytes.
    """
    deadline = time.monotonic() + request.timeout_s
    parts = urllib.parse.urlsplit(request.url)
    shown = f"{parts.scheme}://{parts.netloc}{parts.path}"
    connection = _connection(parts, request)
    try:
        target = urllib.parse.urlunsplit(("", "", parts.path or "/", parts.query, ""))
        connection.request(request.method, target, body=request.body, headers=dict(request.headers))
        _patience(connection, deadline)
        response = connection.getresponse()
        body = bytearray()
        while part := _read(connection, response, deadline):
            body += part
            if len(body) > _BYTES_MAX:
                raise ResourceExhaustedError(f"{shown} answers more than {_BYTES_MAX} bytes: ask for less, by narrower labels or groups")
        return Response(response.status, bytes(body))
    except TimeoutError as error:
        raise DeadlineExceededError(f"{shown} did not answer within {request.timeout_s:g} s: check the address, or pass timeout_s") from error
    except (OSError, http.client.HTTPException) as error:
        said = f"{type(error).__name__}: {error}"
        raise UnavailableError(f"{shown} cannot be reached ({said}): check the address and the network") from error
    finally:
        connection.close()


def ask(transport: Transport, request: Request) -> Any:
    """Sends a request for JSON.

    Args:
        transport: What sends the request.
        request: The request.

    Returns:
        The answer, decoded.

    Raises:
        MillstreamError: The server refuses, is not there, or answers something else.
    """
    response = transport(request)
    shown = request.url.partition("?")[0]
    if not 200 <= response.status < 300:
        said = response.body[:_SHOWN].decode(errors="replace").strip()
        raise _refusal(response.status)(f"{request.method} {shown}: expected status 200, found {response.status}: {said}")
    try:
        return json.loads(response.body)
    except ValueError as error:
        said = response.body[:_SHOWN].decode(errors="replace")
        raise UnavailableError(f"{request.method} {shown}: expected JSON, found {said!r}: check the address") from error


def _connection(parts: urllib.parse.SplitResult, request: Request) -> http.client.HTTPConnection:
    if parts.hostname is None or parts.scheme not in ("http", "https"):
        raise ValueError(f"expected an address that begins with http:// or https://, found {request.url!r}")
    if parts.scheme == "http":
        return http.client.HTTPConnection(parts.hostname, parts.port, timeout=request.timeout_s)
    tls = request.tls or ssl.create_default_context()
    return http.client.HTTPSConnection(parts.hostname, parts.port, timeout=request.timeout_s, context=tls)


def _read(connection: http.client.HTTPConnection, response: http.client.HTTPResponse, deadline: float) -> bytes:
    _patience(connection, deadline)
    # Returns what has arrived, so that a slow server does not outlast the deadline.
    return response.read1(_PART_BYTES)


def _patience(connection: http.client.HTTPConnection, deadline: float) -> None:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    # The answer of a connection that is closed at its end lies in a file, whose socket is no longer here.
    if connection.sock is not None:
        connection.sock.settimeout(left)


def _refusal(status: int) -> type[MillstreamError]:
    if status in (401, 403):
        return PermissionDeniedError
    if status == 404:
        return NotFoundError
    if status == 429 or status >= 500:
        return UnavailableError
    return FailedPreconditionError
