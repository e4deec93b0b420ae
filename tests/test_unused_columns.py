"""A value that does not fit its type may or may not be an error if no query uses its column."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

import pytest
from pyspark.errors import IllegalArgumentException
from pyspark.sql import SparkSession

from support import messages as m
from support.optimizer import DECODE_RULE, without_rule

BAD_COLUMN = "pgoutput_row({tuple}, 'id INT, v DECIMAL(5,2)')"


@pytest.fixture(scope="module")
def bad_column(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Give the name of a view of a row. Its `id` does not fit its type, but its `v` does."""
    path = str(tmp_path_factory.mktemp("bad_column") / "messages")
    rows = [(1, bytearray(m.insert("bad", "1.5")))]
    spark.createDataFrame(rows, "seq int, data binary").write.parquet(path)
    spark.read.parquet(path).createOrReplaceTempView("bad_column")
    yield "bad_column"
    spark.catalog.dropTempView("bad_column")


@pytest.mark.parametrize("rule", ["", DECODE_RULE])
@pytest.mark.parametrize("literal", [False, True], ids=["column", "literal"])
def test_values_do_not_depend_on_the_optimizer(
    spark: SparkSession, bad_column: str, rule: str, literal: bool
) -> None:
    """What a query does not use may or may not be an error; what it uses is always checked."""
    data = f"X'{m.insert('bad', '1.5').hex()}'" if literal else "data"
    row = BAD_COLUMN.format(tuple=f"pgoutput_decode({data}).new")
    rows = f"(SELECT seq, {row} AS r FROM {bad_column})"
    with without_rule(spark, rule):
        for query in (
            f"SELECT {row}.v FROM {bad_column}",
            f"SELECT r.v FROM {rows}",
            f"SELECT r.v FROM {rows} WHERE r.v > 1 AND seq = 1",
            f"SELECT max(r.v) FROM {rows} GROUP BY seq",
        ):
            try:
                ((value,),) = spark.sql(query).collect()
            except IllegalArgumentException as error:
                assert error.getCondition() == "PGOUTPUT_INVALID_VALUE"  # noqa: PT017
            else:
                assert value == Decimal("1.50"), query
            ((value,),) = spark.sql(query.replace("pgoutput_row", "try_pgoutput_row")).collect()
            assert value == Decimal("1.50"), query
        for query in (
            f"SELECT {row} FROM {bad_column}",
            f"SELECT r.* FROM {rows}",
            f"SELECT r FROM {rows} WHERE r.v > 1",
            f"SELECT count(*) FROM {rows} WHERE r IS NULL",
            f"SELECT count_if({row} IS NULL) FROM {bad_column}",
            f"SELECT r.v FROM {rows} WHERE r.id = 1",
        ):
            with pytest.raises(IllegalArgumentException) as raised:
                spark.sql(query).collect()
            assert raised.value.getCondition() == "PGOUTPUT_INVALID_VALUE", query
            if not rule and not literal:
                spark.sql(query.replace("pgoutput_row", "try_pgoutput_row")).collect()


def test_a_column_that_is_not_used_is_not_converted(spark: SparkSession, bad_column: str) -> None:
    row = BAD_COLUMN.format(tuple="pgoutput_decode(data).new")
    assert spark.sql(f"SELECT {row}.v FROM {bad_column}").collect() == [(Decimal("1.50"),)]
