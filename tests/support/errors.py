"""The errors of queries."""

from __future__ import annotations

import pytest
from pyspark.errors import IllegalArgumentException
from pyspark.sql import DataFrame


def error_of(query: DataFrame) -> IllegalArgumentException:
    """Run a query, and return the error with which it must fail."""
    with pytest.raises(IllegalArgumentException) as raised:
        query.collect()
    return raised.value
