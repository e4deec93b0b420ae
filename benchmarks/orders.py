"""The messages that a real server sends for a table of orders, stored in Parquet files."""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import closing
from itertools import count
from pathlib import Path

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_pgoutput.demo.server import PostgresServer

CACHE = Path(__file__).parent / "cache"

_COLUMNS = pa.schema({"seq": pa.int64(), "data": pa.binary()})
_TRANSACTIONS = 5000
_FULL_IDENTITY_EVERY = 3

# The messages in data/orders-pg18.bin.gz come from this table, and have this share of inserts,
# updates and deletes.
TABLE = """
CREATE TABLE orders (
    id bigint PRIMARY KEY,
    customer_id integer,
    status text,
    amount numeric(12, 2),
    created_at timestamptz,
    updated_at timestamp,
    note varchar(80),
    paid boolean,
    score double precision
);
CREATE PUBLICATION orders FOR TABLE orders;
CREATE PROCEDURE trade(first integer, transactions integer) LANGUAGE plpgsql AS $$
BEGIN
    FOR n IN first .. first + transactions - 1 LOOP
        INSERT INTO orders
        SELECT id, id % 1000, (ARRAY['new', 'paid', 'shipped', 'returned'])[1 + id % 4],
            id / 100.0, timestamptz '2024-01-01' + id * interval '1.234567 s',
            timestamp '2024-01-01' + id * interval '1 s', 'order note ' || md5(id::text),
            id % 3 = 0, sqrt(id)
        FROM generate_series(5 * n, 5 * n + 4) AS id;
        UPDATE orders SET status = 'done', updated_at = updated_at + interval '1 day'
        WHERE id BETWEEN 5 * n - 50 AND 5 * n - 48;
        DELETE FROM orders WHERE id = 5 * n - 101 AND n % 2 = 0;
        COMMIT;
    END LOOP;
END $$;
"""
_SLOT = "SELECT pg_create_logical_replication_slot('orders', 'pgoutput')"
# This writes WAL. Without it, each read of the slot would begin where the first one began.
_MOVE_ON = "SELECT pg_log_standby_snapshot()"
_READ = """
COPY (
    SELECT data
    FROM pg_logical_slot_get_binary_changes(
        'orders', NULL, NULL, 'proto_version', '4', 'publication_names', 'orders')
) TO STDOUT (FORMAT BINARY)
"""

_log = logging.getLogger(__name__)


def orders_file(rows: int, folder: Path = CACHE) -> Path:
    """Write a number of messages from a server to a file, unless the file exists.

    Parameters
    ----------
    rows : int
        The number of messages. The last transaction may have no end.
    folder : Path
        The folder of the files.

    Returns
    -------
    Path
        A Parquet file with the messages `data` and their positions `seq`, in order.
    """
    file = folder / f"orders-{rows}.parquet"
    if not file.exists():
        _log.info("Making %s", file)
        folder.mkdir(parents=True, exist_ok=True)
        unfinished = file.with_suffix(".unfinished")
        with pq.ParquetWriter(unfinished, _COLUMNS) as writer, closing(_read_slot()) as reads:
            made = 0
            while made < rows:
                data = next(reads)[: rows - made]
                places = range(made, made + len(data))
                writer.write_table(pa.table([places, data], schema=_COLUMNS))
                made += len(data)
        unfinished.rename(file)
    return file


def orders(spark: SparkSession, rows: int, partitions: int, folder: Path = CACHE) -> DataFrame:
    """Read the messages in their order.

    Parameters
    ----------
    spark : SparkSession
        The session.
    rows : int
        The number of messages.
    partitions : int
        The number of partitions, which have the same size.
    folder : Path
        The folder of the files.

    Returns
    -------
    DataFrame
        The messages `data` and their positions `seq`, in order within and across partitions.
    """
    messages = spark.read.parquet(str(orders_file(rows, folder)))
    partition = F.floor(F.col("seq") * partitions / rows).cast("int")
    return messages.repartitionById(partitions, partition).sortWithinPartitions("seq")


def shuffled_orders(
    spark: SparkSession, rows: int, partitions: int, folder: Path = CACHE
) -> DataFrame:
    """Read the messages as `orders` does, but in random order."""
    messages = spark.read.parquet(str(orders_file(rows, folder)))
    partition = (F.col("seq") % partitions).cast("int")
    return messages.repartitionById(partitions, partition).sortWithinPartitions(F.xxhash64("seq"))


def _read_slot() -> Generator[list[bytes], None, None]:
    """Run transactions, and yield the messages that the server sends for them, for ever."""
    with (
        PostgresServer() as server,
        psycopg.connect(server.conninfo, autocommit=True) as connection,
    ):
        connection.execute(TABLE)
        connection.execute(_SLOT)
        for batch in count():
            identity = "FULL" if batch % _FULL_IDENTITY_EVERY == 2 else "DEFAULT"
            connection.execute(f"ALTER TABLE orders REPLICA IDENTITY {identity}")
            connection.execute("CALL trade(%s, %s)", [batch * _TRANSACTIONS, _TRANSACTIONS])
            connection.execute(_MOVE_ON)
            with connection.cursor().copy(_READ) as copy:
                copy.set_types(["bytea"])
                yield [data for (data,) in copy.rows()]
