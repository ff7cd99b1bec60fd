"""The checksum of a state. It shows that entries of the state were lost or changed after it was saved.

Some checkpoint libraries restore only a part of a nested dict, or mix the values of several trainers. A loader that continued from such a
state would repeat or leave out batches without an error.
"""

from __future__ import annotations

import json
import zlib
from typing import Any

from .errors import InvalidArgumentError

__all__ = ["check_complete", "with_checksum"]

_ENTRY = "checksum"


def with_checksum(state: dict[str, Any]) -> dict[str, Any]:
    """Returns a state with the checksum of its other entries, instead of an earlier checksum."""
    return {**state, _ENTRY: _checksum(state)}


def check_complete(state: dict[str, Any]) -> None:
    """Checks that a state has the entries with which it was saved. States of versions without a checksum are not checked.

    Raises:
        InvalidArgumentError: Entries are missing, or have other values.
    """
    wanted = state.get(_ENTRY)
    if wanted is not None and wanted != (found := _checksum(state)):
        raise InvalidArgumentError(
            f"expected the state as state_dict() returned it (checksum {wanted}), found a state with missing or changed entries (checksum {found}): save "
            "ms.torch.LoaderState(loader) instead of the loader if you use torch.distributed.checkpoint, which restores only entries that a new "
            "loader has. To load a state that you changed yourself, remove its entry 'checksum'"
        )


def _checksum(state: dict[str, Any]) -> int:
    """Returns a number that is the same before and after a round trip through JSON or pickle."""
    entries = {name: value for name, value in state.items() if name != _ENTRY}
    # A state may contain the state of a user's iterable, whose values JSON cannot always represent.
    text = json.dumps(_plain(entries), sort_keys=True, separators=(",", ":"), default=lambda value: type(value).__name__)
    return zlib.crc32(text.encode())


def _plain(value: Any) -> Any:
    """Returns a value whose dicts have texts as keys, as in JSON, and no empty dicts as items.

    Keys of several types cannot be sorted, and numbers have another order than texts. Checkpoints of torch contain no empty dicts.
    """
    if isinstance(value, dict):
        items = {key if isinstance(key, str) else json.dumps(key, default=str): _plain(item) for key, item in value.items()}
        return {key: item for key, item in items.items() if item != {}}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value
