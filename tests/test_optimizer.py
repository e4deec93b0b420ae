"""Queries give the same with the optimizer's rule and without it, and decode only what they use."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Iterator, Mapping

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import (
    ArrayIndexOutOfBoundsException,
    IllegalArgumentException,
    SparkRuntimeException,
)
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr

from support.data_files import Captured, capture, captures
from support.mutations import random_mutations
from support.optimizer import DECODE_RULE, without_rule

DECODED = "(SELECT capture, seq, data, {decode}(data, in_stream) AS d FROM {messages})"
CHANGES = "('INSERT', 'UPDATE', 'DELETE')"

# A query, and the fields and messages of each decode in its plan.
SHAPES: dict[str, tuple[str, list[str] | None]] = {
    "a field": ("SELECT {decode}(data, in_stream).type FROM {messages}", ["[type]"]),
    "two fields of one call each": (
        "SELECT {decode}(data, in_stream).type, {decode}(data, in_stream).lsn FROM {messages}",
        ["[type, lsn]"],
    ),
    "fields of a subquery": (f"SELECT seq, d.xid, d.new.text FROM {DECODED}", ["[xid, new.text]"]),
    "all fields": (f"SELECT d.* FROM {DECODED}", [""]),
    "the struct itself and a field": (f"SELECT d, d.type FROM {DECODED}", [""]),
    "a field of a nested struct": (
        f"SELECT d.relation.name, d.pg_type.id FROM {DECODED}",
        ["[relation.name, pg_type.id]"],
    ),
    "a field of each struct in an array": (
        f"SELECT d.relation.columns.name, d.relation.columns FROM {DECODED}",
        ["[relation.columns]"],
    ),
    "a field of one struct in an array": (
        f"""SELECT d.relation.columns[0].type_id, d.relation.columns.name FROM {DECODED}
            WHERE d.type = 'RELATION' AND size(d.relation.columns) > 0""",
        ["[type, relation.columns] of RELATION"],
    ),
    "names of columns": (
        f"SELECT d.relation.columns.name FROM {DECODED}",
        ["[relation.columns.name]"],
    ),
    "an element of an array": (
        f"SELECT get(d.new.text, 2), get(d.key.binary, 0) FROM {DECODED}",
        ["[key.binary, new.text[2]]"],
    ),
    "elements and members of a tuple": (
        f"""SELECT d.old.kinds, get(d.old.text, 5), try_element_at(d.old.text, 1), d.old.binary,
                   get(d.new.text, 70), try_element_at(d.new.text, -1), get(d.key.text, seq % 3)
            FROM {DECODED}""",
        ["[key.text, old.kinds, old.text[0, 5], old.binary, new.text]"],
    ),
    "whether an element at any position is there": (
        f"""SELECT get(d.new.text, 0), get(d.new.text, seq % 3) IS NULL, get(d.old.text, 1),
                   exists(array(0, 1), i -> get(d.old.text, i) IS NULL),
                   d.key.text[seq % 2] <=> NULL
            FROM {DECODED} WHERE d.key IS NULL OR length(d.key.kinds) > 1""",
        ["[key.kinds, key.text, old.text, new.text]"],
    ),
    "elements after a filter": (
        f"""SELECT seq, d.new.text[0], element_at(d.new.text, 2) FROM {DECODED}
            WHERE d.type = 'INSERT' AND length(d.new.kinds) > 1 AND get(d.new.text, 1) > 'a'""",
        ["[type, new.kinds, new.text[0, 1]] of INSERT"],
    ),
    "whether a struct is there": (
        f"SELECT d.new IS NULL, d.key IS NOT NULL, d IS NULL FROM {DECODED}",
        ["[key.kinds, new.kinds]"],
    ),
    "a lambda over a struct's array": (
        f"SELECT filter(d.relation.columns, c -> c.key) FROM {DECODED}",
        ["[relation.columns]"],
    ),
    "types": (
        f"SELECT seq, d.type, d.lsn, d.new FROM {DECODED} WHERE d.type IN {CHANGES}",
        ["[type, lsn, new] of DELETE, INSERT, UPDATE"],
    ),
    "a type or another": (
        f"SELECT d.xid FROM {DECODED} WHERE d.type = 'BEGIN' OR 'COMMIT' = d.type",
        ["[type, xid] of BEGIN, COMMIT"],
    ),
    "a type that does not exist": (
        f"SELECT d.xid FROM {DECODED} WHERE d.type = 'begin'",
        ["[type, xid] of "],
    ),
    "all types but one": (
        f"SELECT d.type, d.old.kinds FROM {DECODED} WHERE d.type <> 'INSERT'",
        ["[type, old.kinds]"],
    ),
    "a table's changes of a type": (
        f"""SELECT seq, d.new.text, d.key FROM {DECODED}
            WHERE d.type = 'UPDATE' AND d.relation_id IN (16391, 16402) AND seq > 10""",
        ["[type, relation_id, key, new.text] of UPDATE with relation_id 16391, 16402"],
    ),
    "a filter that only counts": (
        f"SELECT count(*), max(seq) FROM {DECODED} WHERE d.relation_id = 16391",
        ["[relation_id] with relation_id 16391"],
    ),
    "filter after filter": (
        f"""SELECT d.type, d.lsn FROM (SELECT * FROM {DECODED} WHERE d.lsn > 0)
            WHERE d.type <> 'BEGIN' AND d.end_lsn > d.lsn""",
        ["[type, lsn, end_lsn]"],
    ),
    "a column under another name": (
        f"""SELECT f.type, e.xid FROM (SELECT *, e AS f FROM (SELECT d AS e FROM {DECODED}))
            WHERE f.lsn IS NOT NULL""",
        ["[type, xid, lsn]"],
    ),
    "group by": (
        f"SELECT d.type, count(*), max(d.lsn), min(d.new.kinds) FROM {DECODED} GROUP BY d.type",
        ["[type, lsn, new.kinds]"],
    ),
    "group by, having, order by, limit": (
        f"""SELECT d.relation_id, sum(length(d.new.kinds)) AS cells FROM {DECODED}
            WHERE d.type IN {CHANGES} GROUP BY d.relation_id HAVING cells > 10
            ORDER BY cells DESC, d.relation_id LIMIT 5""",
        ["[type, relation_id, new.kinds] of DELETE, INSERT, UPDATE"],
    ),
    "window": (
        f"""SELECT capture, seq, d.type,
              last_value(d.xid) IGNORE NULLS OVER (PARTITION BY capture ORDER BY seq) AS xid
            FROM {DECODED}""",
        ["[type, xid]"],
    ),
    "sort": (f"SELECT d.type, seq FROM {DECODED} ORDER BY d.lsn, capture, seq", ["[type, lsn]"]),
    "distinct": (
        f"SELECT DISTINCT d.type, d.relation.name FROM {DECODED}",
        ["[type, relation.name]"],
    ),
    "union": (
        f"""SELECT d.type FROM (SELECT d FROM {DECODED} WHERE seq % 2 = 0
            UNION ALL SELECT d FROM {DECODED} WHERE seq % 2 = 1)""",
        ["[type]", "[type]"],
    ),
    # The columns of a union have the ids of those of its first input.
    "decode above a union": (
        """SELECT sum({decode}(data, in_stream).xid), count(d), max(d.type) FROM (
             SELECT data, in_stream, {decode}(data, in_stream) AS d FROM {messages}
             UNION ALL SELECT data, in_stream, NULL FROM {messages} WHERE seq % 2 = 1)""",
        ["", "[xid]"],
    ),
    "join": (
        f"""SELECT c.seq, c.d.type, c.d.new.kinds, r.d.relation.name FROM {DECODED} c
            JOIN (SELECT * FROM {DECODED} WHERE d.type = 'RELATION') r
              ON c.capture = r.capture AND c.d.relation_id = r.d.relation_id
            WHERE c.d.type = 'INSERT'""",
        [
            "[type, relation_id, new.kinds] of INSERT",
            "[type, relation_id, relation.name] of RELATION",
        ],
    ),
    "outer join": (
        f"""SELECT c.seq, c.d.type, r.d.relation.name FROM {DECODED} c
            LEFT JOIN (SELECT * FROM {DECODED} WHERE d.type = 'RELATION') r
              ON c.capture = r.capture AND c.d.relation_id = r.d.relation_id""",
        ["[type, relation_id]", "[type, relation_id, relation.name] of RELATION"],
    ),
    "subquery of IN": (
        f"""SELECT d.type, d.new.text FROM {DECODED} WHERE d.relation_id IN (
              SELECT d.relation_id FROM {DECODED} WHERE d.relation.name = 'orders')""",
        ["[type, relation_id, new.text]", "[relation_id, relation.name]"],
    ),
    # Spark joins this subquery after the rule. So the decodes depend on the version of Spark, and
    # the tests compare only the results.
    "correlated subquery": (
        f"""SELECT seq, d.type FROM {DECODED} c WHERE EXISTS (
              SELECT 1 FROM {DECODED} r WHERE r.d.type = 'RELATION'
                AND r.capture = c.capture AND r.d.relation_id = c.d.relation_id)""",
        None,
    ),
    "scalar subquery": (
        f"""SELECT d.type FROM {DECODED}
            WHERE d.lsn = (SELECT max(d.end_lsn) FROM {DECODED} WHERE d.type = 'COMMIT')""",
        ["[type, lsn]", "[type, end_lsn] of COMMIT"],
    ),
    "common table expression used twice": (
        f"""WITH decoded AS (SELECT * FROM {DECODED})
            SELECT a.d.type, b.d.xid FROM decoded a JOIN decoded b
              ON a.capture = b.capture AND a.seq = b.seq + 1""",
        ["[type]", "[xid]"],
    ),
    "explode": (
        f"""SELECT seq, kind, cell, d.type FROM {DECODED}
            LATERAL VIEW OUTER posexplode(d.new.text) AS kind, cell""",
        ["[type, new.text]"],
    ),
    "lateral column alias": (f"SELECT d.new AS n, n.kinds, d.type FROM {DECODED}", ["[type, new]"]),
    "under a condition": (
        """SELECT CASE WHEN seq % 2 = 0 THEN {decode}(data, in_stream).type
                       WHEN seq % 3 = 0 THEN {decode}(data, in_stream).gid END FROM {messages}""",
        ["[gid]", "[type]"],
    ),
    "under a condition and always": (
        """SELECT IF(seq % 2 = 0, {decode}(data, in_stream).lsn, 0), {decode}(data, in_stream).type
           FROM {messages}""",
        ["[type, lsn]"],
    ),
    "with the context and without": (
        """SELECT {decode}(data, in_stream).xid, {decode}(data).xid, {decode}(data).type
           FROM {messages}""",
        ["[type, xid]", "[xid]"],
    ),
    "in a filter and above it": (
        """SELECT {decode}(data, in_stream).new.text FROM {messages}
           WHERE seq > 3 AND {decode}(data, in_stream).type = 'INSERT'
             AND {decode}(data, in_stream).relation_id > 0""",
        ["[type, relation_id, new.text] of INSERT"],
    ),
}

COLUMNS = "'id INT, k STRING, v STRING, n INT'"
TYPE_IDS = "array(23L, 25L, 25L, 23L)"
NEW = f"pgoutput_row(d.new, {COLUMNS}, {TYPE_IDS})"
OLD = f"try_pgoutput_row(coalesce(d.old, d.key), {COLUMNS}, {TYPE_IDS})"
TYPED = f"(SELECT seq, d, {NEW} AS r FROM {DECODED})"
ONLY_TYPED = f"(SELECT seq, {NEW} AS r FROM {DECODED})"

# A query of typed rows, the decodes in its plan, and the typed rows in its plan. These have a
# tuple's name if the row is read straight from the message.
TYPED_SHAPES: dict[str, tuple[str, list[str], list[str]]] = {
    "one column, straight from the message": (
        f"""SELECT pgoutput_row({{decode}}(data, in_stream).new, {COLUMNS}, {TYPE_IDS}).id AS id
            FROM {{messages}}""",
        [],
        ["new[id]"],
    ),
    "via subqueries, straight from the message": (
        f"SELECT seq, r.id, r.n + 1 AS n FROM {ONLY_TYPED}",
        [],
        ["new[id, n]"],
    ),
    "all columns": (f"SELECT r.* FROM {ONLY_TYPED}", [], ["new[id, k, v, n]"]),
    "the row itself and a column": (
        f"SELECT r, r.id FROM {ONLY_TYPED}",
        [],
        ["new[id, k, v, n]"],
    ),
    "whether a row is NULL, which checks every column": (
        f"SELECT seq, r IS NULL FROM {ONLY_TYPED}",
        [],
        ["new[id, k, v, n]"],
    ),
    "whether a row is there": (f"SELECT seq, r IS NOT NULL FROM {ONLY_TYPED}", [], ["new[id]"]),
    "with a field of the decode": (
        f"SELECT d.type, r.id, r.k FROM {TYPED}",
        ["[type, new.cells]"],
        ["[id, k]"],
    ),
    "filter on a column": (
        f"SELECT seq, r.v FROM {ONLY_TYPED} WHERE r.id % 2 = 1 AND r.k IS NOT NULL",
        [],
        ["new[id, k, v]"],
    ),
    "filter on the type": (
        f"SELECT seq, r.v FROM {TYPED} WHERE d.type = 'UPDATE' AND r.n > 1",
        ["[type, new.cells] of UPDATE"],
        ["[v, n]"],
    ),
    "old and new of one decode": (
        f"SELECT seq, r.id, o.id, r.v, o.k FROM (SELECT *, {OLD} AS o FROM {TYPED})",
        ["[key, old, new.cells]"],
        ["[id, k]", "[id, v]"],
    ),
    "rows of two tuples": (
        f"""SELECT {NEW}.id AS id, pgoutput_row(d.old, {COLUMNS}, {TYPE_IDS}).v AS v
            FROM {DECODED}""",
        ["[old.cells, new.cells]"],
        ["[id]", "[v]"],
    ),
    "the same tuple as two rows": (
        f"SELECT {NEW}.id AS id, {NEW}.n AS n, try_{NEW}.k AS k FROM {DECODED}",
        ["[new.cells]"],
        ["[id, n]", "[id, n]", "[k]"],
    ),
    "beside members of its tuple": (
        f"SELECT r.id, d.new.kinds, d.new.binary[1] AS k FROM {TYPED} WHERE d.new IS NOT NULL",
        ["[new.kinds, new.binary, new.cells]"],
        ["[id]"],
    ),
    "beside its tuple": (
        f"SELECT r.id, d.new, d.old IS NULL FROM {TYPED}",
        ["[old.kinds, new]"],
        ["[id]"],
    ),
    "of text that is converted": (
        f"""SELECT d.type, {NEW}.v AS v FROM (SELECT {{decode}}(data, in_stream,
              map('encoding', 'LATIN1')) AS d FROM {{messages}})""",
        ["[type, new]"],
        ["[v]"],
    ),
    "columns that are named alike": (
        f"""SELECT r.* FROM (SELECT pgoutput_row(d.new, 'n STRING, n STRING, n STRING, n INT',
              {TYPE_IDS}) AS r FROM {DECODED})""",
        [],
        ["new[n, n, n, n]"],
    ),
    "types of the relation": (
        f"""SELECT seq, r.id, r.n FROM (
              SELECT c.seq, pgoutput_row(c.d.new, {COLUMNS}, t.d.relation.columns.type_id) AS r
              FROM {DECODED} c LEFT JOIN (SELECT * FROM {DECODED} WHERE d.type = 'RELATION') t
                ON c.capture = t.capture AND c.d.relation_id = t.d.relation_id
              WHERE c.d.type = 'INSERT')""",
        [
            "[type, relation_id, new.cells] of INSERT",
            "[type, relation_id, relation.columns.type_id] of RELATION",
        ],
        ["[id, n]"],
    ),
    "group by a column": (
        f"SELECT r.k, count(*), sum(r.id), max(r.n) FROM {ONLY_TYPED} GROUP BY r.k",
        [],
        ["new[id, n]", "new[k]"],
    ),
    "join on a column": (
        f"""SELECT a.seq, b.seq, b.r.v FROM {ONLY_TYPED} a JOIN {ONLY_TYPED} b
            ON a.r.id = b.r.id AND a.seq < b.seq WHERE a.seq % 5 = 0""",
        [],
        ["new[id, v]", "new[id]"],
    ),
    "window over columns": (
        f"""SELECT seq, lag(r.n) OVER (PARTITION BY r.id ORDER BY seq, r.v) AS n, r.id
            FROM {ONLY_TYPED}""",
        [],
        ["new[id, v, n]"],
    ),
    "kept rows": (
        f"SELECT sort_array(collect_list(r)), max_by(r, seq), first(r) IS NULL FROM {ONLY_TYPED}",
        [],
        ["new[id, k, v, n]"],
    ),
    "kept columns": (
        f"""SELECT r.id % 7, sort_array(collect_list(struct(seq, r.v))) FROM {ONLY_TYPED}
            GROUP BY r.id % 7""",
        [],
        ["new[id, v]", "new[id, v]"],
    ),
    "under a condition": (
        f"""SELECT CASE WHEN seq % 2 = 0 THEN {NEW}.id
                    WHEN d.type = 'DELETE' THEN {OLD}.id END AS id
            FROM {DECODED}""",
        ["[type, key, old, new.cells]"],
        ["[id]", "[id]"],
    ),
    "sort and limit": (
        f"SELECT r.id, seq FROM {ONLY_TYPED} ORDER BY r.n DESC, r.v, seq LIMIT 20",
        [],
        ["new[id, v, n]"],
    ),
}

SHAPES_OF_EACH_KIND = [
    "a field",
    "whether a struct is there",
    "a table's changes of a type",
    "a filter that only counts",
    "group by",
    "join",
    "scalar subquery",
    "under a condition and always",
]

DECODE = re.compile(
    r"pgoutput_decode\(data#\d+(?:map\([^)]*\)|[^)])*\)(?!\.)(\[(?:\[[^]]*\]|[^]])*\])?"
    r"( of [A-Z_]*(?:, [A-Z_]+)*)?"
    r"( with relation_id \d+(?:, \d+)*)?"
)

ROW = re.compile(
    r"pgoutput_row\((?:pgoutput_decode\([^)]*\)\.(\w+)|(?:(?!pgoutput_row).)*? INT, [^)]*)\)"
    r"(\[[^]]*\])?"
)

CAPTURE = "pg18-v4-stream_parallel-binary"
TWO_CAPTURES = ("pg14-v2-stream_on-text", CAPTURE)
MUTATIONS = 700
MESSAGES = "capture string, seq bigint, data binary, in_stream boolean"


@pytest.fixture(scope="module")
def messages(captured: Captured, exhaustive: bool) -> Iterator[str]:
    """Give the messages of two captures, or of all in an exhaustive run."""
    cached = captured(captures() if exhaustive else TWO_CAPTURES).coalesce(2).cache()
    cached.createOrReplaceTempView("captured")
    yield "captured"
    cached.sparkSession.catalog.dropTempView("captured")
    cached.unpersist()


@pytest.fixture(scope="module")
def alike(spark: SparkSession, captured: Captured) -> Iterator[str]:
    """Give messages of the tables with the columns id, k, v and n, in text and in binary."""
    rows = (
        captured(["pg18-v1-stream_off-text", "pg18-v1-stream_off-binary"])
        .withColumn("d", expr("pgoutput_decode(data)"))
        .withColumn("names", expr("array_join(d.relation.columns.name, ' ')"))
        .withColumn("id", expr("IF(names = 'id k v n', d.relation_id, NULL)"))
        .withColumn("ids", expr("collect_set(id) OVER (PARTITION BY capture)"))
        .where("array_contains(ids, d.relation_id)")
        .select("capture", "seq", "data", "in_stream")
        .collect()
    )
    assert len(rows) > 400
    # The plan of a cached query would show its decodes, so the rows are made again.
    frame = spark.createDataFrame(rows, MESSAGES).coalesce(2).cache()
    frame.createOrReplaceTempView("alike")
    yield "alike"
    spark.catalog.dropTempView("alike")
    frame.unpersist()


@pytest.fixture(scope="module")
def mutated(spark: SparkSession) -> Iterator[str]:
    """Give messages of which most are malformed."""
    rows = [
        (f"capture {seq % 3}", seq, bytearray(data), flag)
        for seq, data in enumerate(random_mutations(capture(CAPTURE), MUTATIONS, seed=4))
        for flag in (None, False, True)
    ]
    frame = spark.createDataFrame(rows, MESSAGES).coalesce(2).cache()
    frame.createOrReplaceTempView("mutated")
    yield "mutated"
    spark.catalog.dropTempView("mutated")
    frame.unpersist()


@pytest.fixture(scope="module")
def broken(spark: SparkSession) -> Iterator[str]:
    """Give one malformed message: a Delete whose last cell is not UTF-8."""
    data = bytes.fromhex("44 00004010 4b 0001 74 00000001 ff")
    frame = spark.createDataFrame([("capture", 12, bytearray(data), False)], MESSAGES)
    frame.createOrReplaceTempView("broken")
    yield "broken"
    spark.catalog.dropTempView("broken")


def decodes(frame: DataFrame) -> list[str]:
    """Return what each decode in the plan is narrowed to."""
    plan = frame._jdf.queryExecution().optimizedPlan().toString()
    return sorted("".join(filter(None, found.groups())) for found in DECODE.finditer(plan))


def typed_rows(frame: DataFrame) -> list[str]:
    """Return what each typed row in the plan is narrowed to, and the tuple that it reads."""
    plan = frame._jdf.queryExecution().optimizedPlan().toString()
    return sorted("".join(filter(None, found.groups())) for found in ROW.finditer(plan))


def answers(spark: SparkSession, queries: Mapping[str, str]) -> dict[str, object]:
    """Return the number of rows of each query and a hash that does not depend on their order.

    Spark runs them as one query, because each takes longer to plan and to start than to run.
    """
    every = " UNION ALL ".join(
        f"""SELECT '{name.replace("'", "")}', count(*), bit_xor(hash), sum(hash % 1000003)
            FROM (SELECT xxhash64(*) AS hash FROM ({query}))"""
        for name, query in queries.items()
    )
    found: dict[str, object] = {row[0]: tuple(row[1:]) for row in spark.sql(every).collect()}
    assert len(found) == len(queries)
    return found


def answer(spark: SparkSession, query: str) -> object:
    return answers(spark, {"": query})


def parts(shapes: Iterable[str]) -> list[list[str]]:
    """Cut the names of shapes into a few lists."""
    names = list(shapes)
    return [names[start : start + 8] for start in range(0, len(names), 8)]


@pytest.mark.parametrize("shapes", parts(SHAPES), ids=operator.itemgetter(0))
def test_queries_give_the_same_with_and_without_the_rule(
    spark: SparkSession, messages: str, shapes: list[str]
) -> None:
    queries = {
        name: SHAPES[name][0].format(decode="pgoutput_decode", messages=messages) for name in shapes
    }
    pruned = answers(spark, queries)
    with without_rule(spark, DECODE_RULE):
        assert answers(spark, queries) == pruned


NARROWED = {
    name: (query, expected) for name, (query, expected) in SHAPES.items() if expected is not None
}


@pytest.mark.parametrize(("query", "expected"), NARROWED.values(), ids=NARROWED)
def test_a_query_decodes_only_what_it_uses(
    spark: SparkSession, messages: str, query: str, expected: list[str]
) -> None:
    found = decodes(spark.sql(query.format(decode="pgoutput_decode", messages=messages)))
    assert found == sorted(expected)


@pytest.mark.parametrize("shapes", parts(TYPED_SHAPES), ids=operator.itemgetter(0))
def test_typed_rows_are_the_same_with_and_without_the_rule(
    spark: SparkSession, alike: str, shapes: list[str]
) -> None:
    queries = {
        name: TYPED_SHAPES[name][0].format(decode="pgoutput_decode", messages=alike)
        for name in shapes
    }
    pruned = answers(spark, queries)
    with without_rule(spark, DECODE_RULE):
        assert answers(spark, queries) == pruned


@pytest.mark.parametrize(("query", "decoded", "rows"), TYPED_SHAPES.values(), ids=TYPED_SHAPES)
def test_typed_rows_read_only_what_a_query_uses(
    spark: SparkSession, alike: str, query: str, decoded: list[str], rows: list[str]
) -> None:
    frame = spark.sql(query.format(decode="pgoutput_decode", messages=alike))
    assert decodes(frame) == sorted(decoded)
    # Spark 4.0 copies a row into the filter above it, unlike later versions.
    assert set(typed_rows(frame)) == set(rows)


@pytest.mark.parametrize("shape", SHAPES_OF_EACH_KIND)
def test_malformed_messages_are_found_with_and_without_the_rule(
    spark: SparkSession, mutated: str, broken: str, shape: str
) -> None:
    """Each message is checked, whatever a query uses of it, even if the query drops it."""
    query, _ = SHAPES[shape]
    text = query.format(decode="try_pgoutput_decode", messages=mutated)
    with_rule = answer(spark, text)
    errors = (IllegalArgumentException, Py4JJavaError)  # a subquery has the second one
    with pytest.raises(errors, match=r"DELETE at byte 13 .* not valid UTF-8"):
        answer(spark, query.format(decode="pgoutput_decode", messages=broken))
    with without_rule(spark, DECODE_RULE):
        assert answer(spark, text) == with_rule


def test_a_condition_before_the_early_ones_is_evaluated(spark: SparkSession, messages: str) -> None:
    """The condition can fail, so no message may be dropped before it."""
    query = f"""SELECT d.type FROM (SELECT pgoutput_decode(data, in_stream) AS d FROM {messages})
                WHERE assert_true(d.type <> 'COMMIT') IS NULL AND d.type = 'INSERT'"""
    for rule in ("", DECODE_RULE):
        with without_rule(spark, rule), pytest.raises(SparkRuntimeException, match="COMMIT"):
            spark.sql(query).collect()


AFTER_THE_TYPE = {
    "the decode itself": """
        SELECT seq FROM {messages} WHERE pgoutput_decode(data, in_stream).type = 'INSERT'
        AND exists(array(pgoutput_decode(data, in_stream).type),
                   x -> assert_true(x = 'INSERT') IS NULL)""",
    "a column": """
        SELECT d.type FROM (SELECT pgoutput_decode(data, in_stream) AS d FROM {messages})
        WHERE d.type IN ('INSERT', 'DELETE')
        AND assert_true(d.type IN ('INSERT', 'DELETE')) IS NULL""",
}


@pytest.mark.parametrize("whole_stage", ["true", "false"])
@pytest.mark.parametrize("query", AFTER_THE_TYPE.values(), ids=AFTER_THE_TYPE)
def test_a_condition_after_the_type_is_evaluated_for_no_other_message(
    spark: SparkSession, messages: str, query: str, whole_stage: str
) -> None:
    """A condition that can fail is evaluated after NULL AND, but not after false AND."""
    counts = set()
    spark.conf.set("spark.sql.codegen.wholeStage", whole_stage)
    try:
        for rule in ("", DECODE_RULE):
            with without_rule(spark, rule):
                counts.add(len(spark.sql(query.format(messages=messages)).collect()))
    finally:
        spark.conf.unset("spark.sql.codegen.wholeStage")
    assert len(counts) == 1
    assert 0 not in counts


def test_a_missing_element_is_the_same_error_with_and_without_the_rule(
    spark: SparkSession, messages: str
) -> None:
    query = f"SELECT d.new.text[70] FROM (SELECT pgoutput_decode(data) AS d FROM {messages})"
    errors = []
    for rule in ("", DECODE_RULE):
        with (
            without_rule(spark, rule),
            pytest.raises(ArrayIndexOutOfBoundsException) as error,
        ):
            spark.sql(f"{query} WHERE d.type = 'INSERT' LIMIT 1").collect()
        errors.append(str(error.value).partition("\n")[0])
    assert errors[0] == errors[1]
