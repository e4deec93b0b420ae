"""Which changes of the catalog of a real server change the fingerprints of which tables."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from support.lake_catalog import LakeCatalog
from support.servers import EACH_VERSION, Server, server_fixture, wait_until
from support.source import source_client

SETUP = """
CREATE ROLE reader; CREATE ROLE readers; CREATE ROLE other;
CREATE SCHEMA s; CREATE SCHEMA elsewhere;
CREATE TYPE mood AS ENUM ('good', 'bad');
CREATE DOMAIN small AS int;
CREATE DOMAIN smaller AS small;
CREATE TYPE pair AS (a int, b mood);
CREATE TYPE span AS RANGE (subtype = int);
CREATE TABLE plain (id int PRIMARY KEY, v text);
CREATE TABLE typed (id int PRIMARY KEY, p pair[], d smaller, r span);
CREATE TABLE s.other (id int PRIMARY KEY, u int NOT NULL UNIQUE, v varchar(10));
CREATE TABLE root (id int PRIMARY KEY, v text) PARTITION BY RANGE (id);
CREATE TABLE low PARTITION OF root FOR VALUES FROM (0) TO (10);
CREATE TABLE middle PARTITION OF root FOR VALUES FROM (10) TO (20) PARTITION BY RANGE (id);
CREATE TABLE deep PARTITION OF middle FOR VALUES FROM (10) TO (15);
CREATE TABLE high (id int PRIMARY KEY, v text);
CREATE TABLE leaves (id int PRIMARY KEY) PARTITION BY RANGE (id);
CREATE TABLE leaf PARTITION OF leaves FOR VALUES FROM (0) TO (10);
CREATE TABLE unpublished (id int PRIMARY KEY);
CREATE PUBLICATION p FOR TABLE plain, typed, s.other;
CREATE PUBLICATION roots FOR TABLE root WITH (publish_via_partition_root);
CREATE PUBLICATION each FOR TABLE leaves;
INSERT INTO plain SELECT i, 'x' FROM generate_series(1, 1000) AS i;
INSERT INTO root SELECT i, 'x' FROM generate_series(1, 14) AS i
"""

PUBLICATIONS = ("p", "roots", "each")
ALL = {"plain", "typed", "other", "root", "leaf"}

# Statements, and the tables whose fingerprints they change, add or remove.
CHANGES: list[tuple[str, set[str]]] = [
    ("INSERT INTO plain SELECT i, 'y' FROM generate_series(1001, 3000) AS i", set()),
    ("ANALYZE", set()),
    ("DELETE FROM plain WHERE id % 2 = 0", set()),
    ("VACUUM (ANALYZE, FREEZE)", set()),
    ("CREATE INDEX ON plain (v)", set()),
    ("UPDATE root SET v = 'z'", set()),
    ("ALTER TABLE unpublished ADD v int", set()),
    ("GRANT SELECT ON unpublished TO reader", set()),
    ("ALTER TABLE plain ADD w int", {"plain"}),
    ("ALTER TABLE plain RENAME w TO x", {"plain"}),
    ("ALTER TABLE plain ALTER x TYPE bigint", {"plain"}),
    ("ALTER TABLE plain DROP x", {"plain"}),
    ("ALTER TABLE s.other ALTER v TYPE varchar(20)", {"other"}),  # does not rewrite the table
    ("ALTER TABLE plain RENAME TO renamed", {"plain", "renamed"}),
    ("ALTER TABLE renamed RENAME TO plain", {"plain", "renamed"}),
    ("ALTER TABLE s.other SET SCHEMA elsewhere", {"other"}),
    ("ALTER SCHEMA elsewhere RENAME TO new", {"other"}),
    ("GRANT USAGE ON SCHEMA new TO reader", {"other"}),
    ("ALTER TABLE new.other SET SCHEMA s", {"other"}),
    ("TRUNCATE plain", {"plain"}),
    ("VACUUM FULL typed", {"typed"}),
    ("TRUNCATE deep", {"root"}),
    ("ALTER TABLE root ADD w int", {"root"}),
    ("ALTER TABLE high ADD w int", set()),
    ("ALTER TABLE low REPLICA IDENTITY FULL", {"root"}),
    ("ALTER TABLE root ATTACH PARTITION high FOR VALUES FROM (20) TO (30)", {"root"}),
    ("CREATE TABLE more PARTITION OF middle FOR VALUES FROM (15) TO (20)", {"root"}),
    ("ALTER TABLE middle DETACH PARTITION deep", {"root"}),
    ("GRANT SELECT ON low TO reader", {"root"}),
    ("CREATE TABLE leaf2 PARTITION OF leaves FOR VALUES FROM (10) TO (20)", {"leaf2"}),
    ("ALTER TABLE leaves DETACH PARTITION leaf2", {"leaf2"}),
    ("ALTER TABLE leaves ADD v int", {"leaf"}),
    ("ALTER TABLE s.other REPLICA IDENTITY FULL", {"other"}),
    ("ALTER TABLE s.other REPLICA IDENTITY USING INDEX other_u_key", {"other"}),
    ("ALTER TABLE plain DROP CONSTRAINT plain_pkey", {"plain"}),
    ("GRANT SELECT ON plain TO reader", {"plain"}),
    ("GRANT SELECT (d) ON typed TO reader", {"typed"}),
    ("REVOKE SELECT ON plain FROM reader", {"plain"}),
    ("ALTER TABLE plain OWNER TO other", {"plain"}),
    ("ALTER TABLE plain ENABLE ROW LEVEL SECURITY", {"plain"}),
    ("GRANT readers TO CURRENT_USER", ALL),
    ("GRANT other TO readers", ALL),
    ("GRANT other TO reader", set()),
    ("REVOKE readers FROM CURRENT_USER", ALL),
    ("ALTER TYPE mood ADD VALUE 'so so'", {"typed"}),
    ("ALTER TYPE mood RENAME TO temper", {"typed"}),
    ("ALTER TYPE pair ADD ATTRIBUTE c int", {"typed"}),
    ("ALTER DOMAIN small SET NOT NULL", {"typed"}),
    ("ALTER DOMAIN small ADD CHECK (VALUE > 0)", {"typed"}),
    ("ALTER DOMAIN smaller SET DEFAULT 1", {"typed"}),
    ("ALTER TYPE span RENAME TO spans", {"typed"}),
    ("ALTER PUBLICATION p ADD TABLE unpublished", {"unpublished"}),
    ("ALTER PUBLICATION p DROP TABLE unpublished", {"unpublished"}),
    ("ALTER PUBLICATION p SET (publish = 'insert')", {"plain", "typed", "other"}),
    ("ALTER PUBLICATION each SET (publish = 'insert')", {"leaf"}),
    ("ALTER PUBLICATION each SET (publish_via_partition_root)", {"leaf", "leaves"}),
    ("DROP PUBLICATION roots", {"root"}),
    (
        "CREATE PUBLICATION roots FOR TABLE root WITH (publish_via_partition_root)",
        {"root"},
    ),
    (
        "BEGIN; DROP PUBLICATION roots;"
        "CREATE PUBLICATION roots FOR TABLE root WITH (publish_via_partition_root); COMMIT",
        {"root"},
    ),
    ("DROP TABLE typed", {"typed"}),
    (
        "BEGIN; DROP TABLE plain; CREATE TABLE plain (id int PRIMARY KEY, v text);"
        "ALTER PUBLICATION p ADD TABLE plain; COMMIT",
        {"plain"},
    ),
]

SINCE_15: list[tuple[str, set[str]]] = [
    (
        "ALTER PUBLICATION p SET TABLE plain (id), s.other WHERE (id > 1)",
        {"typed", "plain", "other"},
    ),
    ("ALTER PUBLICATION p SET TABLE plain (id), s.other WHERE (id > 2)", {"other"}),
    ("ALTER PUBLICATION p SET TABLE plain, s.other WHERE (id > 2)", {"plain"}),
    ("ALTER PUBLICATION p ADD TABLES IN SCHEMA s", {"other"}),
    ("CREATE TABLE s.newcomer (id int)", {"newcomer"}),
    ("ALTER PUBLICATION p DROP TABLES IN SCHEMA s", {"newcomer", "other"}),
]


server = server_fixture(SETUP, "module", EACH_VERSION)


@pytest.fixture
def other(spark: SparkSession, server: Server) -> Iterator[tuple[Server, LakeCatalog]]:
    """Give another server, for a test that changes many things, and its catalog."""
    with Server(server.version) as other:
        other.execute(SETUP)
        with source_client(spark, other) as client:
            yield other, LakeCatalog(client)


def changed_by(server: Server, catalog: LakeCatalog, statement: str) -> set[str]:
    """Run statements, and return the names of the tables whose fingerprints they change."""
    names = dict(server.execute("SELECT oid::bigint, relname FROM pg_class"))
    before = catalog.hashes(*PUBLICATIONS)
    with server.connect() as connection:
        for one in statement.split(";"):
            connection.execute(one.encode())
    after = catalog.hashes(*PUBLICATIONS)
    now = dict(server.execute("SELECT oid::bigint, relname FROM pg_class"))
    oids = {oid for oid, _ in before.items() ^ after.items()}
    assert set(after) == {table.oid() for table in catalog.tables(*published(server)).values()}
    return {names[oid] for oid in oids if oid in names} | {now[oid] for oid in oids if oid in now}


def published(server: Server) -> list[str]:
    """Return the publications that are there."""
    return [name for (name,) in server.execute("SELECT pubname FROM pg_publication")]


def wrong(
    server: Server, catalog: LakeCatalog, changes: list[tuple[str, set[str]]]
) -> dict[str, set[str]]:
    """Return the statements that change other fingerprints than expected, with what they change."""
    found = {
        statement: (changed_by(server, catalog, statement), expected)
        for statement, expected in changes
    }
    return {statement: one for statement, (one, expected) in found.items() if one != expected}


@pytest.mark.takes_long
def test_each_change_changes_the_fingerprints_of_its_tables(
    other: tuple[Server, LakeCatalog],
) -> None:
    assert wrong(*other, CHANGES) == {}


def test_lists_filters_and_schemas_of_publications_change_fingerprints(
    other: tuple[Server, LakeCatalog],
) -> None:
    if other[0].version < 15:
        pytest.skip("new in 15")
    assert wrong(*other, SINCE_15) == {}


def test_only_the_wanted_tables_have_a_fingerprint(server: Server, catalog: LakeCatalog) -> None:
    every = catalog.hashes(*PUBLICATIONS)
    oids = dict(
        server.execute("SELECT relname, oid::bigint FROM pg_class WHERE relkind IN ('r', 'p')")
    )
    wanted = [oids[name] for name in ("plain", "root", "low", "leaves", "unpublished")]
    expected = {oids[name]: every[oids[name]] for name in ("plain", "root")}
    assert catalog.hashes(*PUBLICATIONS, oids=wanted) == expected
    # There is a snapshot even if there is no table.
    nothing = catalog.fingerprint("p", oids=[])
    assert nothing.byOid().isEmpty()
    assert nothing.snapshot().sees(server.value("SELECT pg_current_xact_id()::text::bigint - 1"))


def test_a_right_of_the_role_changes_all_fingerprints(
    spark: SparkSession, server: Server, catalog: LakeCatalog
) -> None:
    server.execute("ALTER ROLE reader LOGIN REPLICATION PASSWORD 'x'")
    with source_client(spark, server, Server.database, "reader", "x") as reader:
        before = LakeCatalog(reader).hashes("p")
        assert len(before) == 3
        server.execute("ALTER ROLE reader BYPASSRLS")
        now = LakeCatalog(reader).hashes("p")
        assert all(now[oid] != found for oid, found in before.items())


def test_a_commit_that_waits_for_a_standby_is_not_seen(
    server: Server, catalog: LakeCatalog
) -> None:
    before = catalog.hashes("p")
    server.configure(synchronous_standby_names="nobody")
    with server.connect() as altering, server.connect() as asking:
        asking.execute("SET synchronous_commit = local")
        asking.execute("BEGIN")
        older = asking.execute("SELECT pg_current_xact_id()::text::bigint").fetchone()
        altering.execute("BEGIN")
        xid = altering.execute("SELECT pg_current_xact_id()::text::bigint").fetchone()
        assert xid
        assert older
        altering.execute("ALTER TABLE plain ADD c text")
        commit = threading.Thread(target=lambda: altering.execute("COMMIT"))
        commit.start()
        wait_until(
            lambda: server.execute("SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
        )
        asking.execute("COMMIT")
        look = catalog.fingerprint("p")
        assert not look.inRecovery()
        assert look.snapshot().sees(older[0])
        assert not look.snapshot().sees(xid[0])
        assert not look.snapshot().sees(xid[0] + 1)
        assert catalog.hashes("p") == before
        server.configure(synchronous_standby_names="")
        commit.join(30)
    look = catalog.fingerprint("p")
    assert look.snapshot().sees(xid[0])
    assert catalog.hashes("p") != before


@pytest.mark.takes_long
def test_fingerprints_of_1000_tables_take_less_than_5_seconds(
    other: tuple[Server, LakeCatalog],
) -> None:
    server, catalog = other
    server.execute(
        "DO $$ BEGIN FOR i IN 1..1000 LOOP EXECUTE format("
        "'CREATE TABLE many_%s (id int PRIMARY KEY, a text, b text, c mood, d numeric)', i);"
        "END LOOP; END $$; CREATE PUBLICATION every FOR ALL TABLES"
    )
    oid = server.value("SELECT 'many_500'::regclass::oid::bigint")
    times = {}
    for name, oids in (("all", None), ("one", [oid])):
        catalog.hashes("every", oids=oids)
        begin = time.monotonic()
        found = catalog.fingerprint("every", oids=oids)
        times[name] = time.monotonic() - begin
        assert (found.byOid().size() > 1000) == (oids is None)
    assert times["all"] < 5
    assert times["one"] < 1
