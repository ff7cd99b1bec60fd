"""The token by which a program may ask Google's services.

Owns the order in which credentials are looked for, and the formats of Google's files. Refuses to know what is asked.
"""

from __future__ import annotations

import json
import os
import urllib.parse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import FailedPreconditionError, MillstreamError, UnimplementedError
from . import machine_metadata
from .http import Request, Transport, ask

__all__ = ["default_token", "token_of"]

_FILE_VARIABLE = "GOOGLE_APPLICATION_CREDENTIALS"
_TOKEN_PATH = "instance/service-accounts/default/token"
_TOKEN_URL = "https://oauth2.googleapis.com/token"


def token_of(credentials: Any) -> str | None:
    """Returns the token of credentials that a program passes.

    Args:
        credentials: ``None`` for no token, the token itself, a function that returns the token, or credentials of ``google-auth`` or
            ``oauth2client``.

    Raises:
        TypeError: The credentials are nothing of these.
    """
    if credentials is None or isinstance(credentials, str):
        return credentials
    if hasattr(credentials, "get_access_token"):
        return str(credentials.get_access_token().access_token)
    if hasattr(credentials, "token") and hasattr(credentials, "refresh"):
        if not credentials.valid:
            from google.auth.transport.requests import Request as Refresh

            credentials.refresh(Refresh())
        return str(credentials.token)
    if callable(credentials):
        return str(credentials())
    raise TypeError(f"expected a token, a function that returns one, or credentials of google-auth, found {credentials!r}")


def default_token(transport: Transport, timeout_s: float) -> str:
    """Finds the token of the application's default credentials.

    The file that ``GOOGLE_APPLICATION_CREDENTIALS`` names comes first, then the file of ``gcloud auth application-default login``, then the
    server of metadata that every machine of Google's has.

    Args:
        transport: What sends requests.
        timeout_s: The seconds that each request may take.

    Raises:
        FailedPreconditionError: There are no credentials.
        UnimplementedError: The file holds credentials that need another library.
    """
    named = os.environ.get(_FILE_VARIABLE)
    folder = os.environ.get("CLOUDSDK_CONFIG") or str(Path.home() / ".config" / "gcloud")
    path = named or str(Path(folder, "application_default_credentials.json"))
    if named or os.path.exists(path):
        return _of_file(path, transport, timeout_s)
    try:
        return str(ask(transport, machine_metadata.request(_TOKEN_PATH, timeout_s))["access_token"])
    except (MillstreamError, KeyError, TypeError) as error:
        raise FailedPreconditionError(
            f"expected credentials of Google, found neither {path} nor a server of metadata ({error}): run `gcloud auth "
            f"application-default login`, set {_FILE_VARIABLE}, or pass credentials"
        ) from error


def _of_file(path: str, transport: Transport, timeout_s: float) -> str:
    try:
        found = json.loads(Path(path).read_text())
    except (OSError, ValueError) as error:
        raise FailedPreconditionError(f"expected credentials of Google in {path}: {error}") from error
    kind = found.get("type") if isinstance(found, Mapping) else None
    if kind == "authorized_user":
        return _refreshed(path, found, transport, timeout_s)
    try:
        import google.auth
    except ImportError as error:
        raise UnimplementedError(
            f"{path} holds credentials of the type {kind!r}, which need google-auth: `pip install google-auth requests`, or pass a token as "
            "credentials"
        ) from error
    credentials, _ = google.auth.load_credentials_from_file(path, scopes=["https://www.googleapis.com/auth/compute.readonly"])
    return str(token_of(credentials))


def _refreshed(path: str, found: Mapping[str, Any], transport: Transport, timeout_s: float) -> str:
    """Returns a new token of a user who has logged in."""
    try:
        given = {name: found[name] for name in ("client_id", "client_secret", "refresh_token")}
    except KeyError as error:
        raise FailedPreconditionError(f"expected {error} in {path}: run `gcloud auth application-default login` again") from error
    body = urllib.parse.urlencode({**given, "grant_type": "refresh_token"}).encode()
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = ask(transport, Request(found.get("token_uri", _TOKEN_URL), "POST", headers, body, timeout_s))
    return str(answer["access_token"])
