"""Tests that ``compat`` has every name of ``tf.data``, with its parameters, defaults and values, and that the page of names is complete."""

from __future__ import annotations

import enum
import inspect
from pathlib import Path
from typing import Any

import pytest
import tf_names

import millstream as ms
import pages
from millstream import compat as tf
from millstream.compat._refusal import reason_of

CLASSES = [name for name, described in tf_names.UPSTREAM.items() if described["kind"] == "class"]
#: Classes that programs do not make: datasets come from static methods, iterators from datasets.
NOT_MADE = ("tf.data.Dataset", "tf.data.Iterator", "tf.data.experimental.Optional")


def shown(default: Any) -> str:
    text = repr(default)
    return text if isinstance(default, str) else text.removeprefix("ms.")


def check_signature(name: str, value: Any, upstream: list[list[Any]]) -> None:
    """Checks that all calls that TensorFlow allows are allowed, with the same defaults."""
    ours = [item for item in inspect.signature(value).parameters.values() if item.name not in ("self", "cls")]
    takes_all = {item.kind for item in ours} >= {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
    if takes_all:
        return
    for place, (parameter, kind, default) in enumerate(upstream):
        if kind == "VAR_KEYWORD":
            continue
        own = next((item for item in ours if item.name == parameter), None)
        assert own is not None, f"{name} lacks {parameter}"
        if kind == "POSITIONAL_OR_KEYWORD":
            assert ours.index(own) == place, f"{name}: {parameter} is at another place"
        if default is not None:
            assert own.default is not own.empty and shown(own.default) == default, f"{name}: {parameter}={own.default!r}, not {default}"
    required = [item.name for item in ours if item.default is item.empty and item.kind not in (item.VAR_POSITIONAL, item.VAR_KEYWORD)]
    assert set(required) <= {parameter for parameter, _, default in upstream if default is None}, f"{name} requires {required}"


@pytest.mark.parametrize("name", tf_names.UPSTREAM)
def test_a_name_of_tensorflow_exists(name: str) -> None:
    described, value = tf_names.UPSTREAM[name], tf_names.found(name)
    if described["kind"] == "value":
        assert value == described["value"]
    elif described["kind"] == "enum":
        assert {member.name: member.value for member in value} == described["members"]
    elif name not in NOT_MADE:
        check_signature(name, value, described["signature"])


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_has_the_members_of_tensorflow(name: str) -> None:
    kind = tf_names.found(name)
    for member, described in tf_names.UPSTREAM[name]["members"].items():
        assert tf_names.has_attribute(kind, member), f"{name}.{member}"
        if described["kind"] == "method":
            check_signature(f"{name}.{member}", getattr(kind, member), described["signature"])


def test_the_page_has_a_row_for_each_name() -> None:
    rows = tf_names.PAGE.read_text()
    missing = [name for name in tf_names.upstream_names() if f"| `{name}` |" not in rows and not is_member_of_enum(name)]
    assert not missing
    assert rows == tf_names.page(), "run python tests/tf_names.py"


def is_member_of_enum(name: str) -> bool:
    return tf_names.UPSTREAM.get(name.rpartition(".")[0], {}).get("kind") == "enum"


def test_notes_are_of_names_that_exist() -> None:
    assert set(tf_names.DIFFERS) <= set(tf_names.upstream_names())
    refused = [name for name in tf_names.DIFFERS if tf_names.row(name).status != "differs"]
    assert not refused


def works(name: str) -> bool:
    return tf_names.row(name).status != "refused"


#: Names without a docstring of their own: constants, which the page shows, and members that their class shows.
SHOWN_ELSEWHERE = [name for name, described in tf_names.UPSTREAM.items() if described["kind"] == "value"]


@pytest.mark.parametrize("name", [name for name in tf_names.UPSTREAM if name not in SHOWN_ELSEWHERE and works(name)])
def test_a_name_that_works_has_an_example(name: str) -> None:
    value = tf_names.found(name)
    assert ">>>" in (inspect.getdoc(value) or ""), name
    methods = [member for member, described in tf_names.UPSTREAM[name].get("members", {}).items() if described.get("kind") == "method"] if (
        tf_names.UPSTREAM[name]["kind"] == "class"
    ) else []
    for method in (method for method in methods if works(f"{name}.{method}")):
        assert ">>>" in (inspect.getdoc(getattr(value, method)) or ""), f"{name}.{method}"


def test_the_constants_of_the_page_run(tmp_path: Path) -> None:
    text = tf_names.PAGE.read_text()
    for name in SHOWN_ELSEWHERE:
        assert name in text.partition("```python")[2].partition("```")[0]
    ended = pages.run("reference/tf-names.md", tmp_path)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("name", [name for name, value in tf_names.others() if callable(value) and not isinstance(value, enum.EnumMeta)])
def test_a_function_that_works_has_an_example(name: str) -> None:
    value = tf_names.found(name)
    if inspect.isfunction(value) and reason_of(value) is None and value.__module__.startswith("millstream.compat"):
        assert ">>>" in (inspect.getdoc(value) or ""), name


REFUSED = [name for name in tf_names.UPSTREAM if tf_names.row(name).status == "refused"]


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_name_says_why(name: str) -> None:
    value = tf_names.found(name)
    arguments = [0] * len([item for item in inspect.signature(value).parameters.values() if item.default is item.empty])
    with pytest.raises(NotImplementedError, match="is refused") as refusal:
        value(*arguments)
    assert isinstance(refusal.value, ms.errors.UnimplementedError) and name in str(refusal.value)


def test_refusals_are_few() -> None:
    assert sorted(REFUSED) == [
        f"tf.data.experimental.{name}"
        for name in (
            "DatasetInitializer",
            "from_variant",
            "get_model_proto",
            "index_table_from_dataset",
            "make_saveable_from_iterator",
            "table_from_dataset",
            "to_variant",
        )
    ]


def test_subclasses_are_datasets() -> None:
    for name, described in tf_names.UPSTREAM.items():
        if name.endswith("Dataset") and described["kind"] == "class" and name != "tf.data.Dataset":
            assert issubclass(tf_names.found(name), tf.data.Dataset), name
