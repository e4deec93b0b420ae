"""Rows that a server deletes and a lake keeps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import spark_pgoutput
from support import lake
from support.lake_job import LakeJob
from support.lake_options import SALT, hashed
from support.servers import Server, server_fixture

pytestmark = [lake.needs_lake, pytest.mark.lake]

server = server_fixture(
    "CREATE TABLE orders (id int PRIMARY KEY, v text, price int, d date);"
    "CREATE TABLE events (v text); ALTER TABLE events REPLICA IDENTITY FULL;"
    "CREATE TABLE taken (id int PRIMARY KEY, _deleted_at timestamptz);"
    "CREATE PUBLICATION p FOR TABLE orders, events, taken"
)

MARKING = {"*": "mark", "taken": "delete"}
Marks = dict[int, tuple[str | None, int | None]]
"""The values of `v` and `_deleted_lsn` by the key."""


class Orders:
    """The table of the target, and what happens to that of the server."""

    def __init__(self, spark: SparkSession, job: LakeJob) -> None:
        self.spark = spark
        self.job = job

    def commit(self, statement: str) -> int:
        """Run a transaction, and return an LSN that is at most that of its commit."""
        before = self.job.server.value("SELECT pg_current_wal_insert_lsn() - '0/0'")
        self.job.server.execute(statement)
        return int(before)

    def rows(self) -> Marks:
        found = self.spark.sql(
            "SELECT id, v, _deleted_lsn, _deleted_at IS NULL AS is_unmarked, "
            "_deleted_at BETWEEN current_timestamp() - INTERVAL 1 HOUR AND current_timestamp() "
            f"AS is_recent FROM {self.job.sql_name('orders')}"
        ).collect()
        for row in found:
            assert row.is_unmarked == (row._deleted_lsn is None)
            assert row.is_unmarked or row.is_recent
        assert len({row.id for row in found}) == len(found)
        return {row.id: (row.v, row._deleted_lsn) for row in found}

    def verify(self) -> dict[str, str]:
        found = spark_pgoutput.verify(
            self.spark,
            **{**self.job.options, "once": True, "on_delete": MARKING, "tell": print},  # type: ignore[arg-type]
        )
        return {row.target: row.result for row in found.collect()}


@pytest.mark.parametrize("target", lake.TARGETS)
def test_deleted_rows_stay_until_the_option_is_delete_again(
    target: str, server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    server.execute(
        "TRUNCATE orders, events, taken;"
        "INSERT INTO orders SELECT g, 'a' || g, g FROM generate_series(1, 6) g;"
        "INSERT INTO events VALUES ('x'), ('y')"
    )
    job = LakeJob(tmp_path, server, target, slot=f"deleted_{target}", publication="p")
    orders = Orders(spark, job)
    with job.session(spark) as replicate:
        (reason,) = replicate(once=True, on_delete={"orders": "delete", "*": "mark"}).failed()
        assert "onDelete.public.taken=delete" in str(reason)
        # In Iceberg, the newest version does not have the new columns before a change of the table.
        assert not replicate(once=True, on_delete=MARKING).failed()
        assert orders.verify()["orders"] == "equal"
        server.execute("DELETE FROM orders WHERE id = 6")

        # The columns are added to the existing table. Rows without a key are deleted.
        first = orders.commit("DELETE FROM orders WHERE id = 1; DELETE FROM events WHERE v = 'x'")
        assert not replicate(once=True, on_delete=MARKING).failed()
        found = orders.rows()
        assert {key for key, (_, lsn) in found.items() if lsn is None} == {2, 3, 4, 5}
        assert 1 in found
        assert (found[1][1] or 0) > first
        events = spark.sql(f"SELECT * FROM {job.sql_name('events')}")
        assert events.columns == ["v"]
        assert [row.v for row in events.collect()] == ["y"]

        second = orders.commit("UPDATE orders SET id = 20 WHERE id = 2")
        server.execute("INSERT INTO orders VALUES (1, 'again', 1)")
        replicate(once=True, on_delete=MARKING)
        found = orders.rows()
        assert found[1] == ("again", None)
        assert found[20] == ("a2", None)
        assert found[2][0] == "a2"
        assert (found[2][1] or 0) > second
        assert orders.verify() == {"orders": "equal", "events": "equal", "taken": "equal"}

        # A copy by another option that fails changes no row, and what is marked stays marked.
        server.execute("UPDATE orders SET d = 'infinity' WHERE id = 4")
        assert replicate(once=True).failed()
        server.execute("UPDATE orders SET d = NULL WHERE id = 4")
        assert not replicate(once=True, on_delete=MARKING).failed()
        assert orders.rows() == found

        # A copy keeps what is marked, and marks what the server does not have any more.
        third = orders.commit("DELETE FROM orders WHERE id = 3")
        server.execute("ALTER TABLE orders ALTER price TYPE bigint USING price * 2")
        spark_pgoutput.resync(spark, checkpoint=job.checkpoint_url, tables=["orders"])
        replicate(once=True, on_delete=MARKING)
        copied = orders.rows()
        assert copied[2] == found[2]
        assert (copied[3][1] or 0) > third
        assert {key for key, (_, lsn) in copied.items() if lsn is None} == {1, 4, 5, 20}
        fourth = orders.commit("TRUNCATE orders; INSERT INTO orders VALUES (4, 'new')")
        replicate(once=True, on_delete=MARKING)
        truncated = orders.rows()
        assert truncated[4] == ("new", None)
        assert (truncated[2], truncated[3]) == (copied[2], copied[3])
        assert all((truncated[key][1] or 0) > fourth for key in (1, 5, 20))
        assert orders.verify()["orders"] == "equal"

        replicate(once=True)
        assert {key: lsn for key, (_, lsn) in orders.rows().items()} == {4: None}


@pytest.mark.parametrize("target", lake.TARGETS)
def test_rows_that_stay_follow_a_renamed_key_and_have_no_hidden_value(
    target: str, server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    server.execute(
        "CREATE TABLE users (id int PRIMARY KEY, email text, ssn text, price int);"
        "CREATE TABLE people (id int PRIMARY KEY, email text, ssn text, price int);"
        "INSERT INTO users SELECT g, 'mail' || g, 'ssn' || g, g FROM generate_series(1, 3) g;"
        "INSERT INTO people SELECT * FROM users; CREATE PUBLICATION q FOR TABLE users, people"
    )
    (salt := tmp_path / "salt").write_text(SALT)
    job = LakeJob(tmp_path, server, target, publication="q")
    options: dict[str, Any] = {"on_delete": "mark", "mode": {"people": "versions"}, "once": True}

    def rows(table: str, *columns: str) -> set[tuple[object, ...]]:
        found = spark.table(job.sql_name(table)).selectExpr(
            "user_id", "id", "email", "ssn", *columns
        )
        return set(map(tuple, found.collect()))

    with job.session(spark) as replicate:
        replicate(**options)
        server.execute("DELETE FROM users WHERE id = 1; DELETE FROM people WHERE id = 1")
        assert not replicate(**options).failed()
        server.execute(
            "".join(
                f"ALTER TABLE {table} RENAME id TO user_id;"
                f"ALTER TABLE {table} ALTER price TYPE bigint;"
                f"DELETE FROM {table} WHERE user_id = 2;"
                for table in ("users", "people")
            )
        )
        hidden = {"excludeColumns": ["ssn"], "hash": ["email"]}
        options |= {"columns": {"users": hidden, "people": hidden}, "hashSaltFile": str(salt)}
        assert not replicate(**options).failed()
        live = (3, None, hashed("mail3", SALT), None, True)
        assert rows("users", "_deleted_lsn IS NULL") == {
            (1, None, None, None, False),
            (2, None, None, None, False),
            live,
        }
        assert rows("people", "_is_current") == {
            (1, None, None, None, False),
            (2, None, None, None, False),
            (3, None, None, None, False),
            live,
        }
        # With the same salt, later copies keep the hashes, also if the job starts over.
        server.execute("DELETE FROM users; DELETE FROM people")
        spark_pgoutput.resync(spark, checkpoint=job.checkpoint_url, tables=["users", "people"])
        assert not replicate(**options).failed()
        server.execute(
            "ALTER TABLE users RENAME user_id TO uid; ALTER TABLE people RENAME user_id TO uid"
        )
        spark_pgoutput.resync(spark, checkpoint=job.checkpoint_url, all=True)
        assert not replicate(**options).failed()
        kept = {(1, None), (2, None), (3, hashed("mail3", SALT))}
        for table, others in (("users", set()), ("people", {(3, None)})):
            found = spark.table(job.sql_name(table)).select("uid", "email")
            assert set(map(tuple, found.collect())) == kept | others
