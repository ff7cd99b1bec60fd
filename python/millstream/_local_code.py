"""Code that this process runs as it is, and that workers run as a pickled copy.

Owns the key in the header of such code, by which the process finds the object that the code was pickled from. A definition that leaves
the process has no key. Refuses to know what the code does.
"""

from __future__ import annotations

import json
import uuid
import weakref
from collections.abc import Callable
from typing import Any

from ._code import _this_python, captured, packed
from .errors import InvalidArgumentError

__all__ = ["LocalCode", "found", "sent"]

_KEY = "local"
_REFUSED = "refused"

#: The code of this process, by key. The graphs of datasets hold the objects.
_KNOWN: weakref.WeakValueDictionary[str, LocalCode] = weakref.WeakValueDictionary()


class LocalCode:
    """Code of this process. The graph of every dataset that runs the code holds this object.

    Attributes:
        call: The code itself, called without arguments.
        code: The representation of the code in a definition.
    """

    __slots__ = ("__weakref__", "call", "code")

    def __init__(self, name: str, call: Callable[[], Any], copy: Callable[..., Any], *arguments: Any) -> None:
        """Makes the code of ``call``. Workers call ``copy`` with the arguments instead, and messages show the name."""
        key = uuid.uuid4().hex
        try:
            head, _, payload = packed(copy, *arguments, warns=False, name=name).partition(b"\n")
            header = json.loads(head)
        except InvalidArgumentError as error:
            # Only a service needs the copy, so the refusal waits for a service.
            header, payload = {**_this_python(), _REFUSED: str(error)}, b""
        self.call = call
        self.code = json.dumps({**header, _KEY: key, "name": name}).encode() + b"\n" + payload
        _KNOWN[key] = self


def found(code: bytes) -> tuple[bytes, LocalCode] | None:
    """Finds the object of this process that a definition names.

    Args:
        code: The code in the definition.

    Returns:
        The code without its key, and the object; ``None`` for other code.
    """
    header, plain = _parted(code)
    local = _KNOWN.get(header.get(_KEY, ""))
    return None if local is None else (plain, local)


def sent(code: bytes) -> bytes:
    """Returns the code as it leaves this process.

    Args:
        code: The code in a definition.

    Raises:
        InvalidArgumentError: The code cannot be pickled, or is too large.
    """
    header, plain = _parted(code)
    if _REFUSED in header:
        raise InvalidArgumentError(header[_REFUSED])
    if _KEY in header:
        captured(header["name"], len(plain))
    return plain


def _parted(code: bytes) -> tuple[dict[str, Any], bytes]:
    head, _, payload = code.partition(b"\n")
    header = json.loads(head)
    if _KEY not in header:
        return header, code
    own = (_KEY, "name") if payload else (_KEY,)
    return header, json.dumps({name: value for name, value in header.items() if name not in own}).encode() + b"\n" + payload
