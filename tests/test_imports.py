"""Test modules do not import each other. What they share is in tests/support."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parent


def imported(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def test_no_module_imports_a_test_module() -> None:
    test_modules = {path.stem for path in TESTS.glob("test_*.py")}
    for path in TESTS.rglob("*.py"):
        found = test_modules.intersection(imported(path.read_text()))
        assert not found, f"{path.name} imports {found}: move what they share to tests/support"
