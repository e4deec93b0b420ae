"""How the Python functions hand their arguments to the SQL functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from pyspark.sql import Column
from pyspark.sql import functions as F

ColumnOrName: TypeAlias = Column | str


def options_map(options: Mapping[str, str]) -> Column:
    """Make a constant map of options."""
    return F.create_map(*[F.lit(text) for entry in options.items() for text in entry])
