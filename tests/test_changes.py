"""What `changes` and `open_transactions` accept, return and refuse."""

from __future__ import annotations

import doctest
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
    VariantType,
)

import spark_pgoutput.table_changes
from spark_pgoutput import changes, open_transactions
from support import messages as m
from support.documentation import PAGES, blocks
from support.errors import error_of
from support.messages import frame
from support.orders import HISTORY, ID, ORDERS, history_of, in_order

CHANGE_COLUMNS: dict[str, DataType] = {
    "_table": StringType(),
    "_change_type": StringType(),
    "_commit_version": LongType(),
    "_commit_timestamp": TimestampType(),
    "_xid": LongType(),
    "_gid": StringType(),
    "_origin": StringType(),
    "_ordinal": LongType(),
    "_position": LongType(),
    "_keys": ArrayType(StringType(), containsNull=False),
    "_missing": ArrayType(StringType(), containsNull=False),
}

# The functions check their arguments with the same code, so one of them gets all of these.
REFUSED_BY_EACH = [
    ("1, 'seq'", ["name of a table or view"]),
    ("'messages', 'hex'", ["BIGINT", "STRING"]),
    ("'messages', 'seq', map('data', 'nothing')", ["nothing", "UNRESOLVED_COLUMN"]),
    ("'messages', 'seq', map('date', 'data')", ["'date'", "'schemaEvolution'", "'moneyScale'"]),
    ("'messages', 'seq', map('source', 'data')", ["BINARY", "column of sources"]),
    ("'messages', 'seq', map('relations', 'nowhere')", ["nowhere", "TABLE_OR_VIEW_NOT_FOUND"]),
]
REFUSED = [
    *REFUSED_BY_EACH,
    ("'messages'", ["name of a table or view"]),
    ("'messages', 'seq', map(), 1", ["name of a table or view"]),
    ("'messages', CAST(NULL AS STRING)", ["name of the column"]),
    ("'messages', 'seq', 'data'", ["constant map"]),
    ("'nowhere', 'seq'", ["nowhere", "TABLE_OR_VIEW_NOT_FOUND"]),
    ("'messages', 'nothing'", ["nothing", "UNRESOLVED_COLUMN"]),
    ("'messages', 'seq', map('data', 'hex')", ["BINARY", "unhex", "STRING"]),
    ("'messages', 'seq', map('data', NULL)", ["'data'", "NULL"]),
    ("'messages', 'seq', map('data', 'data', 'DATA', 'data')", ["'data'", "twice"]),
    ("'messages', 'seq', map('source', 'nothing')", ["nothing", "UNRESOLVED_COLUMN"]),
    ("'messages', 'seq', map('source', 'lower_case')", ["UTF8_LCASE", "column of sources"]),
    ("'messages', 'seq', map('tables', 'a, .b')", ["'a, .b'", "' .b'", "'tables'", "sales.*"]),
    (
        "'messages', 'seq', map('schema', 'id no type')",
        ["PARSE_SYNTAX_ERROR", "'no'", "the option 'schema'", "'id no type'"],
    ),
    ("'messages', 'seq', map('schema', 'INT')", ["INVALID_SCHEMA", "STRUCT"]),
    ("'messages', 'seq', map('schema', 'id INT, _XID INT')", ["'_XID'", "all changes", "'row'"]),
    ("'messages', 'seq', map('schema', '_source INT')", ["'_source'", "all changes"]),
    ("'messages', 'seq', map('schema', 'a INT, A INT')", ["'a'", "caseSensitive", "'row'"]),
    ("'messages', 'seq', map('schema', 'a INT', 'row', 'map')", ["'schema'", "'row'"]),
    ("'messages', 'seq', map('row', 'json')", ["'json'", "'row'", "map", "variant"]),
    (
        "'messages', 'seq', map('schemaEvolution', 'merge')",
        ["'merge'", "'schemaEvolution'", "error", "ignore", "merged_schema", "pgoutput_tables"],
    ),
    ("'messages', 'seq', map('after', 'x')", ["'x'", "'after'", "16/B374D848"]),
    ("'messages', 'seq', map('after', '1', 'source', 'hex')", ["'after'", "one source"]),
    ("'messages', 'seq', map('incomplete', 'x')", ["'x'", "'incomplete'", "error", "skip"]),
    ("'messages', 'seq', map('abandon', '1,x')", ["'1,x'", "'abandon'", "xids"]),
    ("'messages', 'seq', map('abandon', '1,a:2')", ["'a:2'", "'abandon'", "names a source"]),
    (
        "'messages', 'seq', map('abandon', 'a:1, 2', 'source', 'hex')",
        ["'2'", "'abandon'", "names no source", "'<source>:2'"],
    ),
    ("'messages', 'seq', map('mode', 'DROP')", ["'DROP'", "'mode'", "FAILFAST"]),
    ("'messages', 'seq', map('encoding', 'x')", ["'x'", "'encoding'"]),
    ("'messages', 'seq', map('type.16402', 'int5')", ["'int5'", "'type.16402'", "range:"]),
]


@pytest.fixture(scope="module")
def history(spark: SparkSession) -> DataFrame:
    return frame(spark, HISTORY)


@pytest.fixture(scope="module")
def messages(spark: SparkSession, history: DataFrame) -> Iterator[str]:
    """Give the name of a view of the messages."""
    history.selectExpr(
        "*", "hex(data) AS hex", "'a' COLLATE UTF8_LCASE AS lower_case"
    ).createOrReplaceTempView("messages")
    yield "messages"
    spark.catalog.dropTempView("messages")


@pytest.fixture(scope="module")
def expected(history: DataFrame) -> list[tuple[Any, ...]]:
    """Give the changes in the history."""
    return in_order(changes(history), "*")


def types_of(df: DataFrame) -> dict[str, DataType]:
    return {field.name: field.dataType for field in df.schema}


def test_examples_in_docstrings(spark: SparkSession) -> None:
    results = doctest.testmod(spark_pgoutput.table_changes, extraglobs={"spark": spark})
    assert results.attempted > 0
    assert results.failed == 0


@pytest.mark.usefixtures("messages")
@pytest.mark.parametrize(
    ("function", "arguments", "texts"),
    [("pgoutput_changes", *case) for case in REFUSED]
    + [(name, *case) for name in ("pgoutput_open", "pgoutput_tables") for case in REFUSED_BY_EACH],
)
def test_sql_functions_refuse_wrong_arguments(
    spark: SparkSession, function: str, arguments: str, texts: list[str]
) -> None:
    with pytest.raises(AnalysisException) as caught:
        spark.sql(f"SELECT * FROM {function}({arguments})")
    assert [text for text in texts if text not in str(caught.value)] == []


@pytest.mark.parametrize(
    ("arguments", "texts"),
    [
        ({"table": "orders", "schema": "id INT"}, ["table", "schema"]),
        ({"table": "orders", "tables": ["orders"]}, ["table", "tables"]),
        ({"table": "public.*"}, ["'public.*'", "public.orders"]),
        ({"table": "orders, sales.items"}, ["'orders, sales.items'", "public.orders", "tables"]),
        ({"table": "nothing"}, ["nothing", "public.nothing", "'relations'"]),
        ({"options": {"SCHEMA": "id INT"}}, ["'schema'", "argument"]),
        ({"options": {"row": "map", "ROW": "map"}}, ["'row'", "twice"]),
    ],
)
def test_python_refuses_wrong_arguments(
    history: DataFrame,
    arguments: Any,  # noqa: ANN401
    texts: list[str],
) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        changes(history, **arguments)
    assert [text for text in texts if text not in str(caught.value)] == []


def test_table_of_a_stream_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    stream = spark.readStream.schema("seq BIGINT, data BINARY").parquet(str(tmp_path))
    with pytest.raises(ValueError, match=r"streaming.*schema and tables"):
        changes(stream, table="orders")


def test_columns_and_types_of_the_results(history: DataFrame) -> None:
    text = StringType()
    as_map, as_variant = changes(history), changes(history, options={"row": "VARIANT"})
    assert types_of(as_map) == {"row": MapType(text, text), **CHANGE_COLUMNS}
    assert types_of(as_variant) == {"row": VariantType(), **CHANGE_COLUMNS}
    schema = StructType().add("id", LongType(), nullable=False).add("note", StringType())
    for given in (schema, "id BIGINT, note STRING NOT NULL"):
        typed = changes(history, schema=given, tables="orders")
        assert types_of(typed) == {"id": LongType(), "note": text, **CHANGE_COLUMNS}
        assert typed.schema["id"].nullable
        assert [list(row[:2]) for row in in_order(typed, "*")][:2] == [[1, "a"], [2, None]]
    assert types_of(open_transactions(history)) == {
        "_xid": LongType(),
        "_gid": text,
        "state": text,
        "first_position": LongType(),
        "changes": LongType(),
    }


def test_rows_have_what_was_sent(history: DataFrame) -> None:
    """A value that was not sent has no key in the map, unless the old tuple has it."""
    assert in_order(changes(history), "row", "_table", "_change_type", "_keys", "_missing") == [
        ({"id": "1", "note": "a"}, "public.orders", "insert", ["id"], []),
        ({"id": "2", "note": None}, "public.orders", "insert", ["id"], []),
        ({"id": "1", "note": "a"}, "public.orders", "update_preimage", ["id"], []),
        ({"id": "1", "note": "a"}, "public.orders", "update_postimage", ["id"], []),
        ({"id": "2"}, "public.orders", "update_preimage", ["id"], ["note"]),
        ({"id": "3"}, "public.orders", "update_postimage", ["id"], ["note"]),
        ({"id": "1"}, "public.orders", "delete", ["id"], ["note"]),
        ({"id": "7"}, "sales.items", "insert", ["id"], []),
        (None, "public.orders", "truncate", ["id"], []),
    ]
    first, *_, last = in_order(
        changes(history), "_commit_version", "_xid", "_gid", "_origin", "_position"
    )
    assert (first, last) == ((10, 1, None, None, 2), (30, 3, None, None, 14))
    assert in_order(changes(history).where("_xid = 2"), "_origin") == [("elsewhere",)] * 3
    variant = changes(history, options={"row": "variant"})
    assert in_order(variant.select(F.to_json("row").alias("json"), "*"), "json")[:2] == [
        ('{"id":1,"note":"a"}',),
        ('{"id":2,"note":null}',),
    ]


def test_tables_are_chosen_by_names_and_patterns(spark: SparkSession, history: DataFrame) -> None:
    for tables in ("sales.*", "SALES.Items", ["sales.items", '"My"."Table"']):
        assert in_order(changes(history, tables=tables), "_table") == [("sales.items",)]
    odd = frame(spark, m.transaction(1, 1, m.relation("My.a b", ID), m.insert("1")))
    for table in ('"My"."a b"', '`My`."a b"'):
        assert in_order(changes(odd, table=table), "id", "_table") == [(1, "My.a b")]
    folded = frame(spark, m.transaction(1, 1, m.relation("public.grÖsse", ID), m.insert("1")))
    assert in_order(changes(folded, table="GRÖSSE"), "_table") == [("public.grÖsse",)]
    catalog = frame(spark, m.transaction(1, 1, m.relation(".pg_x", ID), m.insert("1")))
    assert in_order(changes(catalog, table="pg_catalog.pg_x"), "id") == [(1,)]


@pytest.mark.parametrize("kind", ["INT", "STRING"])
def test_each_source_has_its_own_changes(
    spark: SparkSession, history: DataFrame, expected: list[tuple[Any, ...]], kind: str
) -> None:
    """The positions of the sources are the same, and their messages are mixed."""
    other = frame(spark, history_of("other"))
    both = history.selectExpr(f"CAST(1 AS {kind}) AS slot", "*").union(
        other.selectExpr(f"CAST(2 AS {kind})", "*")
    )
    found = changes(both, source="slot")
    assert found.columns[-1] == "_source"
    assert found.schema["_source"].dataType == both.schema["slot"].dataType
    for slot, of_messages in ((1, expected), (2, in_order(changes(other), "*"))):
        of_slot = found.where(F.col("_source") == slot).drop("_source")
        assert in_order(of_slot, "*") == of_messages
    (open_,) = open_transactions(both.where("slot = 2 AND seq < 2"), source="slot").collect()
    assert list(open_.asDict()) == ["_source", "_xid", "_gid", "state", "first_position", "changes"]
    assert str(open_["_source"]) == "2"


def test_a_partition_can_have_many_sources(spark: SparkSession) -> None:
    """So many short streams are taken for messages without an order, and are sorted once."""
    sources = [m.transaction(n, n, ORDERS, m.insert("1", "a")) for n in range(1, 601)]
    messages = frame(spark, [message for source in sources for message in source])
    slot = F.floor(F.col("seq") / len(sources[0]))
    found = changes(messages.withColumn("slot", slot).coalesce(1), source="slot")
    assert found.select("_source").distinct().count() == found.count() == 600


def test_columns_of_the_messages_can_have_other_names(history: DataFrame) -> None:
    renamed = history.selectExpr("struct(seq AS `the offset`) AS kafka", "data AS value")
    found = changes(renamed, "kafka.`the offset`", data="value", table="orders")
    assert found.count() == 8


# Wrong messages, the error condition, and words of its text.
WRONG: list[tuple[Sequence[bytes | None], str, list[str]]] = [
    ([*HISTORY[:2], None], "PGOUTPUT_MALFORMED_MESSAGE", ["position 2", "WHERE data IS NOT NULL"]),
    (
        [*HISTORY[:2], HISTORY[2][:-1], HISTORY[5]],
        "PGOUTPUT_MALFORMED_MESSAGE",
        ["position 2", "INSERT at byte", "pgoutput_error"],
    ),
    ([b"?"], "PGOUTPUT_MALFORMED_MESSAGE", ["position 0"]),
    ([HISTORY[2]], "PGOUTPUT_INCOMPLETE_TRANSACTION", ["position 0", "'after'", "'skip'"]),
    ([HISTORY[5]], "PGOUTPUT_INCOMPLETE_TRANSACTION", ["position 0", "COMMIT"]),
    (
        [m.stream_commit(9, 10)],
        "PGOUTPUT_INCOMPLETE_TRANSACTION",
        ["position 0", "STREAM_COMMIT", "xid 9"],
    ),
    (
        [m.commit_prepared(9, "g", 10)],
        "PGOUTPUT_INCOMPLETE_TRANSACTION",
        ["COMMIT_PREPARED", "xid 9", "gid 'g'"],
    ),
    (
        [*m.transaction(1, 20), *m.transaction(2, 10)],
        "PGOUTPUT_COMMIT_WENT_BACK",
        ["position", "xid 2", "0/A", "another timeline", "'source'"],
    ),
    (m.transaction(1, 10, m.insert("1")), "PGOUTPUT_UNKNOWN_RELATION", ["position 1", "16400"]),
    (
        m.transaction(1, 10, ORDERS, m.insert("1")),
        "PGOUTPUT_SCHEMA_MISMATCH",
        ["position 2", "public.orders", "16400", "1 column", "2 columns"],
    ),
]


@pytest.mark.parametrize(("messages", "condition", "texts"), WRONG)
def test_wrong_messages_are_errors(
    spark: SparkSession, messages: Sequence[bytes | None], condition: str, texts: list[str]
) -> None:
    error = error_of(changes(frame(spark, messages)))
    assert error.getCondition() == condition
    assert [text for text in texts if text not in str(error)] == []


@pytest.mark.parametrize("partitions", [1, 4])
@pytest.mark.parametrize(("seq", "text"), [("nullif(seq, 3)", "NULL"), ("seq DIV 2", "unique")])
def test_null_and_repeated_positions_are_errors(
    history: DataFrame, seq: str, text: str, partitions: int
) -> None:
    wrong = history.repartition(partitions, "data").selectExpr(f"{seq} AS seq", "data")
    for found in (changes(wrong), open_transactions(wrong)):
        error = error_of(found)
        assert error.getCondition() == "PGOUTPUT_MESSAGE_ORDER"
        assert text in str(error)


def test_a_second_read_is_not_a_source(spark: SparkSession) -> None:
    """It would double the changes. So any query fails, whatever rows and columns it asks for."""
    second = [*HISTORY, *m.transaction(4, 40, ORDERS, m.insert("9", "i"))]
    both = (
        frame(spark, HISTORY)
        .selectExpr("1 AS read", "*")
        .union(frame(spark, second).selectExpr("2 AS read", "*"))
    )
    found = changes(both, source="read")
    for query in (found, found.where("_table = 'none'"), found.select("_gid")):
        error = error_of(query)
        assert error.getCondition() == "PGOUTPUT_MESSAGE_ORDER"
        for text in ("sources 1 and 2", "0/A", "public.orders", "read * 1000000000 + seq"):
            assert text in str(error)
    assert len(in_order(changes(both, source="read", tables="nothing"), "*")) == 0
    in_one = both.selectExpr("read * 1000000000 + seq AS seq", "data")
    assert len(in_order(changes(in_one), "*")) == len(in_order(changes(frame(spark, second)), "*"))
    error = error_of(changes(both))
    assert "A read is not a source" in str(error)


def test_sources_share_commits(spark: SparkSession) -> None:
    """Slots of one database send the same commits, with changes of different tables."""
    both = (
        frame(spark, HISTORY)
        .selectExpr("1 AS slot", "*")
        .union(frame(spark, history_of("other")).selectExpr("2 AS slot", "*"))
    )
    assert changes(both, source="slot").count() == 18


def test_relations_with_another_message_at_a_position_are_refused(
    spark: SparkSession,
) -> None:
    """The view may have the messages of the read itself."""
    items = m.relation("sales.items", ID, oid=16500)
    first = [*m.transaction(5, 50, items, ORDERS, m.insert("7", oid=16500))]
    frame(spark, HISTORY).createOrReplaceTempView("same_messages")
    frame(spark, first).createOrReplaceTempView("other_messages")
    try:
        late = frame(spark, HISTORY).where("seq >= 6")
        assert changes(late, options={"relations": "same_messages"}).count() == 5
        again = changes(frame(spark, HISTORY), options={"relations": "other_messages"})
        error = error_of(again)
        assert error.getCondition() == "PGOUTPUT_MESSAGE_ORDER"
        assert "position 1: the view of the option 'relations' has another message" in str(error)
    finally:
        spark.catalog.dropTempView("same_messages")
        spark.catalog.dropTempView("other_messages")


def test_wrong_messages_are_found_whatever_is_asked(spark: SparkSession) -> None:
    malformed = frame(spark, [*HISTORY, b"?"])
    for found in (changes(malformed, tables="no.table"), open_transactions(malformed)):
        assert error_of(found.groupBy().count()).getCondition() == "PGOUTPUT_MALFORMED_MESSAGE"


def test_input_that_changes_between_the_passes_is_an_error(spark: SparkSession) -> None:
    """The logical message has another content each time."""
    other = spark.range(1).selectExpr(
        "id AS seq",
        """unhex(concat('4D00', repeat('00', 8), '00', '00000024',
          hex(reflect('java.util.UUID', 'randomUUID')))) AS data""",
    )
    error = error_of(changes(other))
    assert error.getCondition() == "PGOUTPUT_INPUT_CHANGED"
    assert "persist" in str(error)


def test_a_second_read_goes_on_from_the_first(
    spark: SparkSession, history: DataFrame, expected: list[tuple[Any, ...]]
) -> None:
    """It starts with the first open transaction, and gets the tables from the first read."""
    for end in (0, 3, 6, 12, 16):
        head = history.where(f"seq < {end}")
        first = in_order(changes(head), "*")
        (open_,) = open_transactions(head).agg(F.min("first_position")).collect()
        start = end if open_[0] is None else open_[0]
        head.createOrReplaceTempView("earlier")
        after = max((row[3] for row in first), default=0)
        options = {"after": str(after), "relations": "earlier"}
        rest = changes(history.where(f"seq >= {start}"), options=options)
        assert first + in_order(rest, "*") == expected, end
    spark.catalog.dropTempView("earlier")


def test_a_read_in_pieces_counts_commits_of_other_tables(spark: SparkSession) -> None:
    """A piece begins inside a transaction of another table, whose end an earlier piece had."""
    other = m.relation("public.customers", m.column("id", key=True), oid=16401)
    insert = m.insert("1", oid=16401)
    block = [m.stream_start(7), m.in_stream(7, other), m.in_stream(7, insert), m.STREAM_STOP]
    archive = frame(
        spark,
        [
            *(*block, m.stream_start(8), m.in_stream(8, ORDERS)),  # 0 to 5
            *(m.in_stream(8, m.insert("2", "b")), m.STREAM_STOP, m.stream_commit(7, 100)),
            *(m.begin(9, 110), insert, m.commit(110)),  # 9 to 11
            *(m.stream_commit(8, 120), m.begin(10, 130), m.insert("3", "c"), m.commit(130)),
        ],
    )
    (page,) = (page for page in PAGES if page.name == "read-in-pieces.md")
    (function,) = (block.text for block in blocks(page) if "def next_changes" in block.text)
    names: dict[str, Any] = {}
    exec(function, names)
    start, after, found = 0, 0, []
    for end in (9, 12, 16):
        rows, start, after = names["next_changes"](archive.where(f"seq < {end}"), start, after)
        found += in_order(rows, "id", "_commit_version")
    assert found == [(2, 120), (3, 130)]
    assert (start, after) == (16, 130)
    spark.catalog.dropTempView("earlier_messages")


def test_a_schema_can_be_in_earlier_messages(spark: SparkSession, history: DataFrame) -> None:
    history.where("seq < 6").createOrReplaceTempView("earlier")
    rest = history.where("seq >= 6")
    with pytest.raises(ValueError, match="no Relation message"):
        changes(rest, table="orders")
    found = changes(rest, table="orders", options={"relations": "earlier"})
    assert in_order(found, "id", "_missing")[:2] == [(2, ["note"]), (3, ["note"])]
    spark.catalog.dropTempView("earlier")


def test_after_leaves_out_earlier_commits(history: DataFrame) -> None:
    for after in ("20", "0/14"):
        found = changes(history, options={"after": after})
        assert in_order(found.select("*"), "_commit_version") == [(30,), (30,)]
    cut = history.where("seq IN (5, 11, 12, 13, 15)")
    assert in_order(changes(cut, options={"after": "10"}), "row") == [({"id": "7"},)]


@pytest.mark.usefixtures("messages")
def test_an_option_can_be_computed_by_a_function_of_this_project(spark: SparkSession) -> None:
    options = "map('after', pg_lsn_format(20L))"
    found = spark.sql(f"SELECT _commit_version FROM pgoutput_changes('messages', 'seq', {options})")
    assert found.collect() == [(30,), (30,)]


def test_an_incomplete_transaction_is_an_error_or_skipped(history: DataFrame) -> None:
    cut = history.where("seq IN (9, 10, 11, 12, 13, 15)")
    assert error_of(changes(cut)).getCondition() == "PGOUTPUT_INCOMPLETE_TRANSACTION"
    found = changes(cut, options={"incomplete": "skip"})
    assert in_order(found, "row") == [({"id": "7"},)]


def test_repeated_messages_count_once(spark: SparkSession, expected: list[tuple[Any, ...]]) -> None:
    again = frame(spark, [*HISTORY, *HISTORY])
    assert in_order(changes(again), "*") == expected


def test_abandoned_transactions_are_not_open(spark: SparkSession) -> None:
    relation = m.in_stream(7, ORDERS)
    open_ = frame(
        spark,
        [
            *(m.stream_start(7), relation, m.in_stream(7, m.insert("1", "a")), m.STREAM_STOP),
            *(m.begin_prepare(8, "g", 10), ORDERS, m.insert("2", "b"), m.prepare(8, "g", 10)),
            *(m.begin(9, 20), m.insert("3", "c"), m.insert("4", "d")),
        ],
    )
    expected = [
        Row(_xid=7, _gid=None, state="streaming", first_position=0, changes=1),
        Row(_xid=8, _gid="g", state="prepared", first_position=4, changes=1),
        Row(_xid=9, _gid=None, state="begun", first_position=8, changes=2),
    ]
    assert open_transactions(open_).orderBy("_xid").collect() == expected
    assert changes(open_).count() == 0
    abandoned = open_transactions(open_, options={"abandon": "7, 8,9"})
    assert abandoned.orderBy("_xid").collect() == expected[1:]
    day = "DATE'2026-01-02'"
    other = open_.withColumn("day", F.expr(day)).union(
        open_.withColumn("day", F.expr(f"{day} + 1"))
    )
    abandoned = open_transactions(other, source="day", options={"abandon": "2026-01-03:7"})
    assert abandoned.where(f"_source = {day}").count() == 3
    assert (
        abandoned.where(f"_source > {day}").orderBy("_xid").drop("_source").collect()
        == expected[1:]
    )


def test_prepared_and_streamed_transactions_have_changes_at_their_commit(
    spark: SparkSession,
) -> None:
    found = changes(
        frame(
            spark,
            [
                *(m.stream_start(7), m.in_stream(7, ORDERS), m.in_stream(7, m.insert("1", "a"))),
                *(m.in_stream(6, m.insert("2", "a")), m.STREAM_STOP),
                *(m.begin_prepare(8, "g", 10), ORDERS, m.insert("3", "b"), m.prepare(8, "g", 10)),
                *(m.stream_commit(7, 20), m.commit_prepared(8, "g", 30)),
            ],
        ),
        table="orders",
    )
    assert in_order(found, "id", "_xid", "_gid") == [(1, 7, None), (2, 7, None), (3, 8, "g")]


def test_queries_use_the_changes_as_any_table(
    spark: SparkSession, history: DataFrame, messages: str
) -> None:
    found = changes(history, table="orders")
    whole = found.collect()
    assert found.count() == len(whole) == 8
    assert found.limit(3).count() == len(found.take(3)) == 3
    assert found.union(found).count() == 16
    assert found.join(found, ["_commit_version", "_ordinal"]).count() == 8
    assert found.alias("a").join(found.alias("b"), F.expr("a.id = b.id")).count() > 8
    assert found.groupBy("_change_type").count().count() == 5
    assert found.select("note", "_xid").where("_change_type = 'delete'").collect() == [(None, 2)]
    assert found.where("id = 3").select("_change_type").collect() == [("update_postimage",)]

    spark.sql(
        f"CREATE TEMPORARY VIEW found AS SELECT * FROM pgoutput_changes('{messages}', 'seq', "
        "map('tables', 'public.orders', 'schema', 'id BIGINT, note STRING'))"
    )
    try:
        assert spark.table("found").exceptAll(found).isEmpty()
        assert spark.sql("SELECT count(*) FROM found").collect() == [(8,)]
        nested = "SELECT (SELECT max(id) FROM found), count(*) FROM found WHERE id IN (1, 2)"
        assert spark.sql(nested).collect() == [(3, 6)]
    finally:
        spark.catalog.dropTempView("found")


def test_changes_leave_no_view(spark: SparkSession, history: DataFrame) -> None:
    before = spark.catalog.listTables()
    found = changes(history, table="orders")
    assert spark.catalog.listTables() == before
    assert found.count() == 8


def test_messages_and_changes_can_be_cached(
    history: DataFrame, expected: list[tuple[Any, ...]]
) -> None:
    cached = history.persist()
    assert in_order(changes(cached), "*") == expected
    cached.unpersist()
    found = changes(history).persist()
    assert in_order(found, "*") == expected == in_order(found, "*")
    found.unpersist()


@pytest.mark.parametrize("partitions", [1, 3, 20])
def test_order_of_rows_does_not_matter(
    history: DataFrame, expected: list[tuple[Any, ...]], partitions: int
) -> None:
    shuffled = history.repartition(partitions, F.hash("data"))
    assert in_order(changes(shuffled), "*") == expected


@pytest.mark.usefixtures("interpreted")
def test_changes_need_no_generated_code(history: DataFrame) -> None:
    found = changes(history, table="orders").where("id > 0").select("id", "_missing")
    assert found.count() == 7
