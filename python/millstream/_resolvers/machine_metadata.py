"""The server of metadata of a machine on Google Compute Engine.

Owns the question whether this machine is one of Google's, and the form of requests to the server. Refuses to know what an attribute says.
"""

from __future__ import annotations

import os
from pathlib import Path

from ..errors import MillstreamError, NotFoundError, UnavailableError
from .http import Request, Transport, send

__all__ = ["attribute", "is_on_google", "request"]

#: The variable that names another server of metadata, as Google's libraries read it.
_HOST_VARIABLE = "GCE_METADATA_HOST"
#: The file in which Linux shows the maker's name of the machine.
_PRODUCT_FILE = Path("/sys/class/dmi/id/product_name")
#: The seconds that one request may take. The server runs on the same host.
_TIMEOUT_S = 2.0


def is_on_google() -> bool:
    """Returns whether this machine has a server of metadata. Asks no server."""
    if os.environ.get(_HOST_VARIABLE):
        return True
    try:
        return _PRODUCT_FILE.read_text().startswith("Google")
    except OSError:
        return False


def request(path: str, timeout_s: float = _TIMEOUT_S) -> Request:
    """Returns a request for a path below ``computeMetadata/v1``."""
    host = os.environ.get(_HOST_VARIABLE) or "metadata.google.internal"
    return Request(f"http://{host}/computeMetadata/v1/{path}", headers={"Metadata-Flavor": "Google"}, timeout_s=timeout_s)


def attribute(name: str, transport: Transport = send) -> str:
    """Returns an attribute of this machine, or else of its project.

    Args:
        name: The name of the attribute.
        transport: What sends requests.

    Raises:
        NotFoundError: Neither the machine nor its project has the attribute.
        UnavailableError: The server of metadata does not answer as expected.
    """
    for owner in ("instance", "project"):
        asked = request(f"{owner}/attributes/{name}")
        try:
            response = transport(asked)
        except MillstreamError as error:
            raise UnavailableError(f"the server of metadata did not answer {asked.url}: {error}") from error
        if response.status == 200:
            return response.body.decode(errors="replace").strip()
        if response.status != 404:
            raise UnavailableError(f"the server of metadata answered {asked.url} with the status {response.status}")
    raise NotFoundError(f"neither the machine nor its project on Google Compute Engine has the attribute {name}")
