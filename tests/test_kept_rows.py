"""A decoded row stays the same if Spark stores it while it decodes others."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from support.data_files import capture, in_stream_flags
from support.large_messages import messages_of_large_values

CAPTURE = "pg18-v4-stream_parallel-binary"
SAMPLE_STEP = 3
LARGE_EVERY = 500
GROUPS = 50
KEPT = LARGE_EVERY // GROUPS


def messages() -> list[tuple[bytes, bool]]:
    """Return a capture with much larger messages in between: rows and buffers of all sizes."""
    captured = capture(CAPTURE)
    in_context = list(zip(captured, in_stream_flags(captured), strict=True))
    result = in_context[::SAMPLE_STEP]
    for number, large in enumerate(messages_of_large_values(), start=1):
        result.insert(number * LARGE_EVERY, (large, False))
    return result


MESSAGES = messages()
ROWS = len(MESSAGES)
DISTINCT = len(set(MESSAGES))
UPDATES = sum(data[:1] == b"U" for data, _ in MESSAGES)

VIEWS = {
    "decoded": "SELECT *, pgoutput_decode(data, in_stream) AS decoded FROM messages",
    "grouped": f"""
        SELECT collect_list(struct(seq, data, in_stream)) AS messages
        FROM messages GROUP BY seq % {GROUPS}""",
    "decoded_by_lambda": """
        SELECT transform(messages, m -> struct(
            m.seq, m.data, m.in_stream, pgoutput_decode(m.data, m.in_stream) AS decoded
        )) AS messages FROM grouped""",
}


@pytest.fixture(scope="module", autouse=True)
def views(spark: SparkSession) -> Iterator[None]:
    rows = [(seq, bytearray(data), flag) for seq, (data, flag) in enumerate(MESSAGES)]
    frame = spark.createDataFrame(rows, "seq int, data binary, in_stream boolean")
    frame.createOrReplaceTempView("messages")
    for name, query in VIEWS.items():
        spark.sql(query).createOrReplaceTempView(name)
    yield
    for name in ("messages", *VIEWS):
        spark.catalog.dropTempView(name)


# The query, and how many decoded rows it gives.
QUERIES = {
    "collect_list": (
        f"""SELECT inline(arrays_zip(data, in_stream, decoded)) FROM (
                SELECT collect_list(data) AS data, collect_list(in_stream) AS in_stream,
                       collect_list(pgoutput_decode(data, in_stream)) AS decoded
                FROM messages GROUP BY seq % {GROUPS})""",
        ROWS,
    ),
    "collect_list of structs": (
        "SELECT inline(collect_list(struct(data, in_stream, decoded))) FROM decoded",
        ROWS,
    ),
    "first, last, max_by": (
        """SELECT inline(array(
               struct(first(data) AS data, first(in_stream) AS in_stream,
                      first(pgoutput_decode(data, in_stream)) AS decoded),
               struct(last(data) AS data, last(in_stream) AS in_stream,
                      last(pgoutput_decode(data, in_stream)) AS decoded),
               struct(max_by(data, seq % 977) AS data, max_by(in_stream, seq % 977) AS in_stream,
                      max_by(pgoutput_decode(data, in_stream), seq % 977) AS decoded)
           )) FROM (SELECT * FROM messages WHERE seq < 977)""",
        3,
    ),
    "map_from_entries": (
        f"""SELECT m.data, m.in_stream, decoded FROM (
                SELECT explode(map_from_entries(
                    collect_list(struct(struct(seq, data, in_stream), decoded)))) AS (m, decoded)
                FROM decoded GROUP BY seq % {GROUPS})""",
        ROWS,
    ),
    "group by": (
        "SELECT data, in_stream, decoded FROM decoded GROUP BY data, in_stream, decoded",
        DISTINCT,
    ),
    "distinct": ("SELECT DISTINCT data, in_stream, decoded FROM decoded", DISTINCT),
    "sort": ("SELECT data, in_stream, decoded FROM decoded ORDER BY xxhash64(data), seq", ROWS),
    "sort and limit": (
        "SELECT data, in_stream, decoded FROM decoded ORDER BY xxhash64(data), seq LIMIT 1000",
        1000,
    ),
    "window": (
        f"""SELECT inline(array(lag, lead, last)) FROM (
                SELECT lag(message, 3) OVER w AS lag, lead(message, 3) OVER w AS lead,
                       last(message) OVER near AS last
                FROM (SELECT seq, struct(data, in_stream, decoded) AS message FROM decoded)
                WINDOW w AS (PARTITION BY seq % {GROUPS} ORDER BY seq),
                       near AS (PARTITION BY seq % {GROUPS} ORDER BY seq
                                ROWS BETWEEN 2 PRECEDING AND 2 FOLLOWING))""",
        3 * ROWS - 2 * 3 * GROUPS,
    ),
    "transform": (
        """SELECT data, in_stream, decoded FROM (
               SELECT inline(messages) FROM decoded_by_lambda)""",
        ROWS,
    ),
    "filter": (
        """SELECT data, in_stream, decoded FROM (
               SELECT inline(filter(messages, m -> m.decoded.type = 'UPDATE'))
               FROM decoded_by_lambda)""",
        UPDATES,
    ),
    "array_sort": (
        """SELECT data, in_stream, decoded FROM (
               SELECT inline(array_sort(messages, (a, b) -> b.seq - a.seq))
               FROM decoded_by_lambda)""",
        ROWS,
    ),
    # The accumulator is the decoded row itself, and each step decodes another message. One group
    # keeps a large row.
    "aggregate": (
        f"""SELECT kept.data, kept.in_stream, decoded FROM (
                SELECT filter(messages, m -> m.seq DIV {GROUPS} = {KEPT})[0] AS kept,
                       aggregate(
                           messages, pgoutput_decode(NULL),
                           (kept, m) -> array(kept, pgoutput_decode(m.data, m.in_stream))
                               [IF(m.seq DIV {GROUPS} = {KEPT}, 1, 0)]
                       ) AS decoded
                FROM grouped)""",
        GROUPS,
    ),
    "union": (
        """SELECT data, in_stream, decoded FROM decoded WHERE seq % 2 = 0
           UNION ALL SELECT data, in_stream, decoded FROM decoded WHERE seq % 2 = 1""",
        ROWS,
    ),
    **{
        f"{strategy} join": (
            f"""SELECT /*+ {strategy}(b) */ inline(array(
                    struct(a.data, a.in_stream, a.decoded),
                    struct(b.data, b.in_stream, b.decoded)))
                FROM decoded a JOIN decoded b ON a.seq = b.seq + 1""",
            2 * (ROWS - 1),
        )
        for strategy in ("BROADCAST", "MERGE", "SHUFFLE_HASH")
    },
}


def hashes(frame: DataFrame) -> list[tuple[int, int]]:
    """Return the hashes of each message and of its decoded row, without rows that are NULL.

    If the rows were only joined or counted, Spark would not sort them.
    """
    columns = "xxhash64(data, in_stream)", "IF(decoded IS NULL, NULL, xxhash64(decoded))"
    pairs = frame.selectExpr(*columns).toArrow()
    messages, rows = (column.to_pylist() for column in pairs.itercolumns())
    return [pair for pair in zip(messages, rows, strict=True) if pair[1] is not None]


@pytest.fixture(scope="module")
def expected(spark: SparkSession) -> dict[int, int]:
    """Give the hash of each decoded row by that of its message. test_decode checks such rows."""
    return dict(hashes(spark.table("decoded")))


def assert_kept(frame: DataFrame, rows: int, expected: dict[int, int]) -> None:
    found = hashes(frame)
    assert len(found) == rows
    assert found == [(message, expected[message]) for message, _ in found]


@pytest.mark.parametrize(("query", "decoded"), QUERIES.values(), ids=QUERIES)
def test_rows_that_a_query_keeps_stay_the_same(
    spark: SparkSession, expected: dict[int, int], query: str, decoded: int
) -> None:
    assert_kept(spark.sql(query), decoded, expected)


@pytest.mark.parametrize("level", [StorageLevel.MEMORY_ONLY, StorageLevel.DISK_ONLY], ids=str)
def test_rows_in_a_cache_stay_the_same(
    spark: SparkSession, expected: dict[int, int], level: StorageLevel
) -> None:
    cached = spark.table("decoded").persist(level)
    try:
        for _ in range(2):
            assert_kept(cached, ROWS, expected)
    finally:
        cached.unpersist()


def test_rows_of_the_driver_stay_the_same(spark: SparkSession, expected: dict[int, int]) -> None:
    """Spark gets rows back that it gave to Python."""
    decoded = spark.table("decoded")
    again = spark.createDataFrame(decoded.toArrow(), decoded.schema)
    assert_kept(again, ROWS, expected)
