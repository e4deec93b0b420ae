"""Errors of the demo that the user can fix."""

from __future__ import annotations

import importlib.util


class DemoError(Exception):
    """An error that the demo prints without a traceback."""


def require(*modules: str) -> None:
    """Raise a DemoError that says what to install, if a module is missing.

    Parameters
    ----------
    *modules : str
        Top-level modules of the packages in the extra ``demo``.
    """
    missing = [module for module in modules if importlib.util.find_spec(module) is None]
    if missing:
        raise DemoError(
            f"These modules are not installed: {', '.join(missing)}. "
            "Install the package with its extra demo: pip install 'spark-pgoutput[demo]', or in a "
            "clone of the repository, pip install '.[demo]'."
        )
