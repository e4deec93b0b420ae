"""Which columns and types the changes of a table have, whose definitions differ."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    DataType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
)

from spark_pgoutput import changes
from support import messages as m
from support.errors import error_of
from support.messages import frame
from support.orders import ID, NOTE, ORDERS, in_order


def evolving(spark: SparkSession, *layouts: tuple[tuple[bytes, ...], tuple[str, ...]]) -> DataFrame:
    """Return messages of a table whose columns change in each transaction, which also inserts."""
    return frame(
        spark,
        [
            message
            for xid, (columns, values) in enumerate(layouts, 1)
            for message in m.transaction(
                xid, xid * 10, m.relation("public.t", *columns), m.insert(*values)
            )
        ],
    )


def test_table_has_the_last_schema(spark: SparkSession) -> None:
    grown = evolving(spark, ((ID,), ("1",)), ((NOTE, ID), ("b", "2")))
    found = changes(grown, table="t")
    assert found.columns[:2] == ["note", "id"]
    assert in_order(found, "note", "id") == [(None, 1), ("b", 2)]

    shrunk = evolving(spark, ((ID, NOTE), ("1", "a")), ((ID,), ("2",)))
    error = error_of(changes(shrunk, table="t"))
    assert error.getCondition() == "PGOUTPUT_SCHEMA_EVOLUTION"
    for text in ("public.t", "'note'", "position 2", "'ignore'"):
        assert text in str(error)
    ignored = changes(shrunk, table="t", options={"schemaEvolution": "ignore"})
    assert in_order(ignored, "id", "_missing") == [(1, []), (2, [])]
    merged = changes(shrunk, table="t", options={"SchemaEvolution": "MERGE"})
    assert in_order(merged, "id", "note") == [(1, "a"), (2, None)]


def test_a_value_of_an_older_type_is_an_error_or_missing_or_text(spark: SparkSession) -> None:
    changed = evolving(
        spark, ((m.column("a", m.TEXT),), ("x",)), ((m.column("a", m.INT4),), ("2",))
    )
    error = error_of(changes(changed, table="t"))
    assert error.getCondition() == "PGOUTPUT_SCHEMA_EVOLUTION"
    for text in ("public.t", "'a'", "text", "INT"):
        assert text in str(error)
    ignored = changes(changed, table="t", options={"schemaEvolution": "ignore"})
    assert in_order(ignored, "a", "_missing") == [(None, ["a"]), (2, [])]
    merged = changes(changed, table="t", options={"schemaEvolution": "merge"})
    assert in_order(merged, "a") == [("x",), ("2",)]


NUMERIC_6_2 = {"type_id": m.NUMERIC, "modifier": (6 << 16 | 2) + 4}
NUMERIC_38_30 = {"type_id": m.NUMERIC, "modifier": (38 << 16 | 30) + 4}


# Two types of a column, and the type that merge takes for the values of both.
MERGED: list[tuple[dict[str, int], dict[str, int], DataType]] = [
    ({"type_id": m.INT2}, {"type_id": m.INT4}, IntegerType()),
    ({"type_id": m.INT8}, {"type_id": m.INT4}, LongType()),
    ({"type_id": 700}, {"type_id": 701}, DoubleType()),
    (NUMERIC_6_2, {"type_id": m.INT4}, DecimalType(12, 2)),
    (NUMERIC_6_2, {"type_id": m.NUMERIC, "modifier": (5 << 16 | 4) + 4}, DecimalType(8, 4)),
    (NUMERIC_38_30, {"type_id": m.INT8}, StringType()),
    (NUMERIC_6_2, {"type_id": m.NUMERIC}, StringType()),
    ({"type_id": 701}, {"type_id": m.INT4}, StringType()),
    ({"type_id": m.BOOL}, {"type_id": m.TEXT}, StringType()),
]


def test_merge_takes_a_type_for_both_values(spark: SparkSession) -> None:
    layouts = []
    for types in list(zip(*MERGED, strict=True))[:2]:
        columns = [m.column(f"c{n}", **of) for n, of in enumerate(types)]
        values = ["t" if of["type_id"] == m.BOOL else "1" for of in types]
        layouts.append((tuple(columns), tuple(values)))
    found = changes(evolving(spark, *layouts), table="t", options={"schemaEvolution": "merge"})
    found_types = [field.dataType for field in found.schema.fields[: len(MERGED)]]
    assert found_types == [merged for *_, merged in MERGED]
    for row in found.collect():
        assert None not in row[: len(MERGED)]


def test_merge_identifies_columns_by_name(spark: SparkSession) -> None:
    """The columns are in the order of their first appearance."""
    a, b, c = (m.column(name, m.TEXT) for name in "abc")
    found = changes(
        evolving(spark, ((b, a), ("b", "a")), ((a,), ("a",)), ((c, b), ("c", "b"))),
        table="t",
        options={"schemaEvolution": "merge"},
    )
    assert in_order(found, "*")[0][:3] == ("b", "a", None)
    assert in_order(found, "b", "a", "c")[1:] == [(None, "a", None), ("b", None, "c")]


def test_tables_and_their_schemas_in_sql(spark: SparkSession) -> None:
    """The types of domains are known. A type with an unknown name stays unknown."""
    columns = [m.column("id", m.INT2), m.column("d", 20000), m.column("u", 20001)]
    messages = [
        *(m.type_(20000, "int4"), m.type_(20001, "no_such_type"), m.relation("public.t", *columns)),
        *(m.relation("public.t", m.column("id", m.INT8)), ORDERS, m.insert("1", "a")[:-1]),
    ]
    frame(spark, messages).createOrReplaceTempView("definitions")
    orders = "id BIGINT COMMENT 'int8', note STRING COMMENT 'text'"
    merged = "id BIGINT, d INT COMMENT 'int4', u STRING COMMENT 'type with oid 20001'"
    call = "SELECT * FROM pgoutput_tables('definitions', 'seq', map('tables', '{}'))"
    found = [
        ("public.orders", orders, orders),
        ("public.t", "id BIGINT COMMENT 'int8'", merged),
    ]

    try:
        assert spark.sql("SELECT * FROM pgoutput_tables('definitions', 'seq')").collect() == found
        assert spark.sql(call.format("public.*")).collect() == found
        absent = ("no.table", None, None)
        assert spark.sql(call.format("no.table, T")).collect() == [absent, found[1]]
        spark.sql("DECLARE OR REPLACE VARIABLE found STRING")
        spark.sql(f"SET VAR found = (SELECT merged_schema FROM ({call.format('t')}))")
        options = "map('tables', 't', 'schema', found)"
        typed = spark.sql(f"SELECT * FROM pgoutput_changes('definitions', 'seq', {options})")
        assert typed.columns[:3] == ["id", "d", "u"]
        spark.sql("DROP TEMPORARY VARIABLE found")
    finally:
        spark.catalog.dropTempView("definitions")


def test_a_table_of_several_sources_has_one_schema(spark: SparkSession) -> None:
    """The last definition counts, and each source has its own domains."""
    one = frame(spark, [m.type_(20000, "int4"), m.relation("public.t", m.column("d", 20000))])
    other = frame(spark, [m.type_(20000, "date"), *[ORDERS] * 5])
    both = one.selectExpr("*", "1 AS slot").union(other.selectExpr("*", "2 AS slot"))
    found = changes(both, table="t", source="slot")
    assert found.schema["d"].dataType == IntegerType()
    again = one.selectExpr("seq + 9", "data", "3").where("data LIKE 'R%'")
    assert changes(both.union(again), table="t", source="slot").schema["d"].dataType == StringType()


def test_types_whose_oids_differ_between_servers(spark: SparkSession) -> None:
    """A domain has the type of its base type. An option declares other types."""
    columns = [m.column("d", 20000), m.column("l", 20001), m.column("e", 20002)]
    typed = frame(
        spark,
        m.transaction(
            *(1, 1, m.type_(20000, "int4"), m.type_(20001, "_int4"), m.type_(20002, "x", "public")),
            *(m.relation("public.t", *columns), m.insert("7", "{1,2}", "3")),
        ),
    )
    found = changes(typed, table="t", options={"TYPE.20002": "int2"})
    assert [kind for _, kind in found.dtypes[:3]] == ["int", "array<int>", "smallint"]
    assert in_order(found, "d", "l", "e") == [(7, [1, 2], 3)]
    as_text = changes(typed, table="t", options={"type.20000": "text"})
    assert in_order(as_text, "d", "e") == [("7", "3")]


def test_a_table_with_a_reserved_column_has_its_rows_only_as_maps(spark: SparkSession) -> None:
    reserved = frame(
        spark,
        m.transaction(1, 1, m.relation("public.t", m.column("_xid", m.INT4)), m.insert("5")),
    )
    with pytest.raises(AnalysisException, match=r"'_xid'.*'row'"):
        changes(reserved, table="t")
    assert in_order(changes(reserved), "row", "_xid") == [({"_xid": "5"}, 1)]


def test_columns_that_differ_only_by_case_need_case_sensitivity(spark: SparkSession) -> None:
    columns = (m.column("a", m.INT4), m.column("A", m.INT4))
    twice = evolving(spark, (columns, ("1", "2")))
    with pytest.raises(AnalysisException, match="two columns 'a'"):
        changes(twice, table="t")
    error = error_of(changes(twice, schema="a INT"))
    assert error.getCondition() == "PGOUTPUT_SCHEMA_MISMATCH"
    assert "two columns 'A'" in str(error)
    assert in_order(changes(twice), "row") == [({"a": "1", "A": "2"},)]
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        assert in_order(changes(twice, table="t"), "a", "A") == [(1, 2)]
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


def test_a_value_that_does_not_fit_is_an_error_or_null(spark: SparkSession) -> None:
    wrong = evolving(spark, ((ID,), ("x",)))
    error = error_of(changes(wrong, table="t"))
    assert error.getCondition() == "PGOUTPUT_INVALID_VALUE"
    for text in ("position 2", "public.t", "'id'", "'x'", "PERMISSIVE"):
        assert text in str(error)
    permissive = changes(wrong, table="t", options={"mode": "PERMISSIVE"})
    assert in_order(permissive, "id", "_missing") == [(None, [])]
