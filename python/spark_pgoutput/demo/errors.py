"""What keeps the demo from running and the user can mend."""

from __future__ import annotations

import importlib.util


class DemoError(Exception):
    """Said to the user in one line, without a traceback."""


def require(*modules: str) -> None:
    """Raise a DemoError that says what to install, if one of the modules is not.

    Parameters
    ----------
    *modules : str
        Top-level modules of the packages in the extra ``demo``.
    """
    missing = [module for module in modules if importlib.util.find_spec(module) is None]
    if missing:
        raise DemoError(
            f"not installed: {', '.join(missing)}; run pip install 'spark-pgoutput[demo]'"
        )
