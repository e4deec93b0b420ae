"""Spark's optimizer without one of this project's rules."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

DECODE_RULE = "io.sparkpgoutput.optimizer.OptimizeDecode"
CHANGES_RULE = "io.sparkpgoutput.optimizer.PruneChanges"

EXCLUDED_RULES = "spark.sql.optimizer.excludedRules"


@contextmanager
def without_rule(spark: SparkSession, rule: str) -> Iterator[None]:
    """Exclude the rule from the queries that are planned in this context."""
    spark.conf.set(EXCLUDED_RULES, rule)
    try:
        yield
    finally:
        spark.conf.unset(EXCLUDED_RULES)
