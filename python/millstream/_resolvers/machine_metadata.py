"""The attributes that owners give to their machines on Google Compute Engine.

Owns the question whether this machine is one of Google's, and the addresses of its server of metadata. Refuses to know what an attribute says.
"""

from __future__ import annotations

import os
from pathlib import Path

from ..errors import MillstreamError, NotFoundError, UnavailableError
from .http import Request, Transport, send

__all__ = ["HOST_VARIABLE", "attribute", "is_on_google"]

#: The variable that names another server of metadata, as Google's libraries read it.
HOST_VARIABLE = "GCE_METADATA_HOST"
#: The file in which Linux shows the maker's name of the machine.
_PRODUCT_FILE = Path("/sys/class/dmi/id/product_name")
#: The seconds that one request may take. The server runs on the same host.
_TIMEOUT_S = 2.0


def is_on_google() -> bool:
    """Returns whether this machine has a server of metadata. Asks no server."""
    if os.environ.get(HOST_VARIABLE):
        return True
    try:
        return _PRODUCT_FILE.read_text().startswith("Google")
    except OSError:
        return False


def attribute(name: str, transport: Transport = send) -> str:
    """Returns an attribute of this machine, or else of its project.

    Args:
        name: The name of the attribute.
        transport: What sends requests.

    Raises:
        NotFoundError: Neither the machine nor its project has the attribute.
        UnavailableError: The server of metadata does not answer as expected.
    """
    host = os.environ.get(HOST_VARIABLE) or "metadata.google.internal"
    for owner in ("instance", "project"):
        url = f"http://{host}/computeMetadata/v1/{owner}/attributes/{name}"
        try:
            response = transport(Request(url, headers={"Metadata-Flavor": "Google"}, timeout_s=_TIMEOUT_S))
        except MillstreamError as error:
            raise UnavailableError(f"the server of metadata at {host} did not answer: {error}") from error
        if response.status == 200:
            return response.body.decode(errors="replace").strip()
        if response.status != 404:
            raise UnavailableError(f"the server of metadata at {host} answered with the status {response.status}")
    raise NotFoundError(f"neither the machine nor its project on Google Compute Engine has the attribute {name}")
