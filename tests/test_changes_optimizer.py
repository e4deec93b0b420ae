"""Queries of table changes give the same with the optimizer's rule and without it.

With the rule, they make only the columns that they use, and only for the rows that they keep.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from support.data_files import capture
from support.optimizer import CHANGES_RULE, without_rule

CAPTURE = "pg18-v4-stream_parallel-text-2pc"
DEFAULT = "id BIGINT, k STRING, v STRING, n INT"

TYPED = f"""pgoutput_changes('stored_messages', 'seq',
            map('tables', 'public.ri_default', 'schema', '{DEFAULT}'))"""
ROWS = "pgoutput_changes('stored_messages', 'seq', map('source', 'capture'))"
VARIANTS = """pgoutput_changes('stored_messages', 'seq',
              map('row', 'variant', 'tables', 'public.ri_full'))"""

# A query, its columns of table changes, and the tables and types that it keeps.
SHAPES = {
    "all columns": (
        f"SELECT * FROM {ROWS}",
        "row _table _change_type _commit_version _commit_timestamp _xid _gid _origin _ordinal "
        "_position _keys _missing _source",
    ),
    "a column of a table": (f"SELECT n FROM {TYPED}", "n"),
    "columns that are not in order": (f"SELECT _xid, v, id FROM {TYPED}", "id v _xid"),
    "no column": (f"SELECT count(*) FROM {TYPED}", ""),
    "a column of each change": (f"SELECT _ordinal + 1 FROM {ROWS}", "_ordinal"),
    "the source": (f"SELECT _source, max(_xid) FROM {ROWS} GROUP BY _source", "_xid _source"),
    "a kind of change": (
        f"SELECT id FROM {TYPED} WHERE _change_type = 'delete'",
        "id _change_type, types delete",
    ),
    "kinds of changes and tables": (
        f"""SELECT row FROM {ROWS} WHERE _change_type IN ('insert', 'truncate')
            AND (_table = 'public.tr_a' OR 'public.toasted' = _table)""",
        "row _table _change_type, tables public.toasted, public.tr_a, types insert, truncate",
    ),
    "a kind that does not exist": (
        f"SELECT id FROM {TYPED} WHERE _change_type = 'upsert'",
        "id _change_type, types upsert",
    ),
    "all kinds but one": (
        f"SELECT id FROM {TYPED} WHERE _change_type <> 'insert'",
        "id _change_type",
    ),
    "a filter on a column": (f"SELECT v FROM {TYPED} WHERE id > 10", "id v"),
    "a condition that may fail first": (
        f"SELECT id FROM {TYPED} WHERE 1 / (id + 1) > 0 AND _change_type = 'insert'",
        "id _change_type",
    ),
    "a variant's field": (f"SELECT variant_get(row, '$.id', 'bigint') FROM {VARIANTS}", "row"),
    "old and new rows together": (
        f"""SELECT o.v, p.v FROM {TYPED} o JOIN {TYPED} p USING (_position)
            WHERE o._change_type = 'update_preimage' AND p._change_type = 'update_postimage'""",
        "v _change_type _position, types update_preimage; "
        "v _change_type _position, types update_postimage",
    ),
    "the last change of each row": (
        f"""SELECT id, max_by(v, struct(_commit_version, _ordinal)) FROM {TYPED} GROUP BY id""",
        "id v _commit_version _ordinal",
    ),
}


@pytest.fixture(scope="module")
def stored_messages(spark: SparkSession) -> Iterator[DataFrame]:
    rows = [(CAPTURE, seq, data) for seq, data in enumerate(capture(CAPTURE))]
    stored = spark.createDataFrame(rows, "capture STRING, seq BIGINT, data BINARY").persist()
    stored.createOrReplaceTempView("stored_messages")
    yield stored
    spark.catalog.dropTempView("stored_messages")
    stored.unpersist()


@pytest.mark.parametrize("shape", SHAPES)
def test_a_query_makes_only_what_it_uses_and_gives_the_same(
    spark: SparkSession, stored_messages: DataFrame, shape: str
) -> None:
    query, made = SHAPES[shape]
    assert "; ".join(plan_of(spark.sql(query))) == made
    found = rows_of(spark.sql(query))
    with without_rule(spark, CHANGES_RULE):
        assert plan_of(spark.sql(query)) != made.split("; ") or shape == "all columns"
        assert found == rows_of(spark.sql(query))


def test_subqueries_of_different_columns_are_not_one(
    spark: SparkSession, stored_messages: DataFrame
) -> None:
    """Spark makes one subquery of two whose plans are equal but for the names of columns."""
    (found,) = spark.sql(
        f"""SELECT (SELECT max(_xid) FROM {TYPED}), (SELECT max(_ordinal) FROM {TYPED}),
                   (SELECT max(id) FROM {TYPED}), (SELECT max(k) FROM {TYPED}),
                   (SELECT max(v) FROM {TYPED}), (SELECT max(_table) FROM {TYPED})"""
    ).collect()
    columns = ("_xid", "_ordinal", "id", "k", "v", "_table")
    expected = spark.sql(f"SELECT {', '.join(columns)} FROM {TYPED}").agg(
        *(F.max(name) for name in columns)
    )
    assert [tuple(found)] == [tuple(row) for row in expected.collect()]


@pytest.mark.parametrize("spread", ["cached", "in other partitions", "of an aggregate", "sorted"])
def test_adaptive_execution_changes_no_result(
    spark: SparkSession, stored_messages: DataFrame, spread: str
) -> None:
    """Spark plans the query again when a stage above or below the changes has run."""
    messages = {
        "cached": stored_messages,
        "in other partitions": stored_messages.repartition(3),
        "of an aggregate": stored_messages.groupBy("capture", "seq").agg(
            F.first("data").alias("data")
        ),
        "sorted": stored_messages.sort("seq"),
    }[spread]
    messages.createOrReplaceTempView("spread_messages")
    counted = "SELECT _table, count(*) FROM pgoutput_changes('{}', 'seq') GROUP BY _table"
    opened = """SELECT r.id FROM pgoutput_open('{}', 'seq', map('abandon', '0'))
                RIGHT JOIN range(3) AS r ON _xid = r.id"""
    for query in (counted, opened):
        found, expected = (
            sorted(spark.sql(query.format(view)).collect())
            for view in ("spread_messages", "stored_messages")
        )
        assert found == expected


def rows_of(frame: DataFrame) -> list[str]:
    """Return the rows as text, because rows with maps and variants cannot be sorted."""
    texts = frame.selectExpr("to_json(struct(*)) AS text" if frame.columns else "''")
    return sorted(row.text for row in texts.collect())


def plan_of(frame: DataFrame) -> list[str]:
    """Return the columns of the table changes in the plan, and which tables and types are kept."""
    plan = frame._jdf.queryExecution().optimizedPlan().toString()
    found = re.findall(
        r"TableChanges \[(.*?)\](?:, [a-z]+=[^ ]+)*(?:, ((?:tables|types) .*))?\n", plan
    )
    return [
        " ".join(re.sub(r"#\d+L?,?", "", columns).split()) + (f", {rest}" if rest else "")
        for columns, rest in found
    ]
