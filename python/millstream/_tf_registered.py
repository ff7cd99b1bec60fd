"""Datasets of TensorFlow that a service knows by an id, with TensorFlow's spec of their elements.

A dataset has one form for each sharding policy, and a reader chooses the policy. So each form is a dataset of the service. A further dataset, the
description, has the id that users know. The names in its spec state TensorFlow's spec, the number of elements, and the policies without a form.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import importlib
import json
from typing import Any

from ._connection import Connection
from ._dataset import Dataset
from ._tf_shipping import Shipped
from .errors import InvalidArgumentError, MillstreamError, UnimplementedError
from .service import ShardingPolicy, _registered

__all__ = ["Registered", "register", "registered"]

#: The prefix of the names that together state what is known of a dataset, and the bytes of one name. Names are limited to 256 bytes.
_PREFIX, _NAME_BYTES = "millstream.tf", 200


@dataclasses.dataclass(frozen=True)
class Registered:
    """A registered dataset.

    Attributes:
        dataset_id: The id of the dataset.
        spec: TensorFlow's spec of an element.
        count: The number of elements, -1 for an infinite dataset, or another negative number for an unknown number.
        reasons: The reason why the dataset has no form, for each policy without a form.
    """

    dataset_id: str
    spec: Any
    count: int
    reasons: dict[str, str]

    def form(self, policy: ShardingPolicy) -> str:
        """Returns the id of the form for a policy.

        Raises:
            UnimplementedError: The dataset has no form for the policy.
        """
        name = policy.name.lower()
        if name in self.reasons:
            raise UnimplementedError(f"dataset {self.dataset_id}: {self.reasons[name]}")
        return f"{self.dataset_id}:{name}"


def register(connection: Connection, shipped: Shipped, travel: str | None, dataset_id: str | None) -> str:
    """Registers a description and all forms of a dataset. Returns the id of the dataset.

    The service forgets only datasets whose ids it has chosen. A form that nobody reads would then be lost, so no id is left to the service.
    """
    forms: dict[str, Dataset] = {}
    reasons: dict[str, str] = {}
    for policy in ShardingPolicy:
        name = policy.name.lower()
        try:
            forms[name] = Dataset(shipped.form(policy, warns=policy is ShardingPolicy.OFF))
        except MillstreamError as error:
            if policy is ShardingPolicy.OFF:
                raise
            # The dataset can still be read as a whole.
            reasons[name] = error.message
    if dataset_id is None:
        dataset_id = _number([*(form._executed.to_bytes() for form in forms.values()), repr(travel).encode()])
    known = {"spec": _encoded(shipped.spec), "count": shipped.count, "reasons": reasons}
    description = Dataset.from_tensors(dict.fromkeys(_names(json.dumps(known, sort_keys=True)), 0))
    # The description is first, because it differs if the id belongs to another dataset.
    _registered(connection, description, travel, dataset_id)
    for name, form in forms.items():
        _registered(connection, form, travel, f"{dataset_id}:{name}")
    return dataset_id


def _number(parts: list[bytes]) -> str:
    """Returns a number of 63 bits that depends on the parts, because TensorFlow's programs pass ids as numbers."""
    digest = hashlib.sha256(b"".join(len(part).to_bytes(8, "big") + part for part in parts)).digest()
    return str(int.from_bytes(digest[:8], "big") >> 1)


def registered(connection: Connection, dataset_id: str) -> Registered:
    """Returns what a service knows of a dataset.

    Raises:
        NotFoundError: The service has no dataset with this id.
        InvalidArgumentError: The dataset is not a dataset of TensorFlow.
    """
    described = connection.dataset(dataset_id)["spec"]
    names = [name for name, _ in described[1]] if described[0] == "dict" else []
    parts = sorted(name for name in names if name.startswith(_PREFIX))
    if not parts:
        raise InvalidArgumentError(
            f"dataset {dataset_id}: expected a dataset of ms.tf.register_dataset, found another dataset: read it with ms.service.from_dataset_id"
        )
    known = json.loads("".join(part[len(_PREFIX) + 5 :] for part in parts))
    return Registered(dataset_id, _decoded(known["spec"]), int(known["count"]), known["reasons"])


def _names(text: str) -> list[str]:
    """Returns the parts of a text as names, in an order that sorting restores."""
    return [f"{_PREFIX}:{at // _NAME_BYTES:03}:{text[at : at + _NAME_BYTES]}" for at in range(0, len(text), _NAME_BYTES)]


def _coder() -> Any:
    """Returns TensorFlow's own translation of specs, which has no public name."""
    return importlib.import_module("tensorflow.python.saved_model.nested_structure_coder")


def _encoded(spec: Any) -> str:
    return base64.b64encode(_coder().encode_structure(spec).SerializeToString(deterministic=True)).decode()


def _decoded(text: str) -> Any:
    from tensorflow.core.protobuf import struct_pb2

    return _ordered(_coder().decode_proto(struct_pb2.StructuredValue.FromString(base64.b64decode(text))))


def _ordered(spec: Any) -> Any:
    """Returns a spec whose names are in order. Names that were decoded are in a different order each time."""
    if type(spec) is dict:
        return {name: _ordered(spec[name]) for name in sorted(spec)}
    return tuple(map(_ordered, spec)) if type(spec) is tuple else spec
