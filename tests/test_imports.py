"""Test modules do not import each other. What they share is in tests/support."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parent


def test_no_module_imports_a_test_module() -> None:
    test_modules = {path.stem for path in TESTS.glob("test_*.py")}
    for path in TESTS.rglob("*.py"):
        imports = re.findall(r"^ *(?:import|from) .*", path.read_text(), re.MULTILINE)
        found = test_modules.intersection(re.findall(r"\w+", " ".join(imports)))
        assert not found, f"{path.name} imports {found}: move what they share to tests/support"
