"""Tests that the table of expectations has all rows, and that each row names existing tests or a reason for missing tests."""

from __future__ import annotations

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parent
TABLE = TESTS.parents[1] / "docs" / "python-expectations.md"


def test_every_row_names_tests_or_reasons() -> None:
    rows = re.findall(r"^\| (\d+) \|(.*)\|(.*)\|$", TABLE.read_text(), re.MULTILINE)
    assert sorted({int(number) for number, _, _ in rows}) == list(range(238, 253))
    for number, expected, covered in rows:
        named = re.findall(r"`((?:\w+/)?test_\w+\.py)(?:::(test_\w+))?`", covered)
        assert named or "not covered:" in covered, f"row {number}: {expected}"
        for file, test in named:
            functions = {node.name for node in ast.parse((TESTS / file).read_text()).body if isinstance(node, ast.FunctionDef)}
            assert not test or test in functions, f"row {number}: {file} has no {test}"
