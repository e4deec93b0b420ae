"""What a job that keeps tables equal learns from the catalog of a real server."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from support.lake_catalog import LakeCatalog, elements, names
from support.postgres_binaries import NEWEST
from support.servers import EACH_VERSION, Server
from support.source import SourceClient, fails, source_client

TABLES = """
CREATE TABLE keyed (k int, "Ö b" text, v numeric(10, 2), PRIMARY KEY (v, k));
CREATE TABLE deferred (k int PRIMARY KEY DEFERRABLE, v int);
CREATE TABLE complete (k int PRIMARY KEY DEFERRABLE, v int);
ALTER TABLE complete REPLICA IDENTITY FULL;
CREATE TABLE by_index (k int, u int NOT NULL);
CREATE UNIQUE INDEX by_index_u ON by_index (u) INCLUDE (k);
ALTER TABLE by_index REPLICA IDENTITY USING INDEX by_index_u;
CREATE TABLE silent (k int PRIMARY KEY);
ALTER TABLE silent REPLICA IDENTITY NOTHING;
CREATE TABLE root (k int PRIMARY KEY, v text) PARTITION BY RANGE (k);
CREATE TABLE low PARTITION OF root FOR VALUES FROM (0) TO (10);
CREATE TABLE middle PARTITION OF root FOR VALUES FROM (10) TO (30) PARTITION BY RANGE (k);
CREATE TABLE middle_low PARTITION OF middle FOR VALUES FROM (10) TO (20);
CREATE TABLE middle_high (v text, k int NOT NULL);
CREATE PUBLICATION plain FOR TABLE keyed, deferred, complete, by_index, silent;
CREATE PUBLICATION leaves FOR TABLE root;
CREATE PUBLICATION roots FOR TABLE root WITH (publish_via_partition_root);
CREATE PUBLICATION inserts FOR TABLE keyed WITH (publish = 'insert');
"""


@pytest.fixture(scope="module", params=EACH_VERSION)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with Server(request.param) as server:
        server.execute(TABLES)
        server.execute(
            "ALTER TABLE middle ATTACH PARTITION middle_high FOR VALUES FROM (20) TO (30)"
        )
        yield server


def test_the_key_is_that_of_the_replica_identity(catalog: LakeCatalog) -> None:
    tables = catalog.tables("plain")
    assert {name: elements(table.key()) for name, table in tables.items()} == {
        "public.keyed": ["v", "k"],
        "public.deferred": [],  # a deferrable primary key is not a replica identity
        "public.complete": ["k"],
        "public.by_index": ["u"],
        "public.silent": [],
    }


def test_partitions_are_under_the_name_that_publications_send(
    server: Server, catalog: LakeCatalog
) -> None:
    leaves = ["public.low", "public.middle_low", "public.middle_high"]
    assert sorted(catalog.tables("leaves")) == sorted(leaves)
    # If one of two publications sends a partition as its root, both do.
    for publications in (["roots"], ["leaves", "roots"]):
        (root,) = catalog.tables(*publications).values()
        assert root.name().toString() == "public.root"
        assert names(root.leaves()) == leaves
        attached = [leaf.attached() for leaf in elements(root.leaves())]
        assert attached == [False, False, True]
        files = [leaf.fileNode() for leaf in elements(root.leaves())]
        assert files == [server.value(f"SELECT pg_relation_filenode('{name}')") for name in leaves]


def test_one_table_is_read_as_among_all(server: Server, catalog: LakeCatalog) -> None:
    of_tables = "relkind IN ('r', 'p') AND oid >= 16384"
    oids = server.value(f"SELECT array_agg(oid::bigint) FROM pg_class WHERE {of_tables}")
    for publications in (["plain", "inserts"], ["leaves"], ["roots"], ["leaves", "roots"]):
        all_tables = {table.oid(): table for table in catalog.tables(*publications).values()}
        assert all_tables
        alone = {oid: catalog.table(oid, *publications) for oid in oids}
        assert {oid: table for oid, table in alone.items() if table is not None} == all_tables


def test_operations_that_publications_leave_out(catalog: LakeCatalog) -> None:
    (table,) = catalog.tables("inserts").values()
    assert elements(table.unpublished()) == ["update", "delete", "truncate"]
    assert elements(catalog.tables("inserts", "plain")["public.keyed"].unpublished()) == []


def test_row_filters_and_column_lists_are_those_of_all_publications(
    server: Server, catalog: LakeCatalog
) -> None:
    if server.version < 15:
        pytest.skip("new in 15")
    server.execute(
        "CREATE PUBLICATION small FOR TABLE keyed (k, v) WHERE (v > 1);"
        "CREATE PUBLICATION sevens FOR TABLE keyed (k, v) WHERE (k = 7)"
    )
    (table,) = catalog.tables("small").values()
    assert names(table.columns()) == ["k", "v"]
    assert elements(table.unsent()) == [2]
    assert table.rowFilter().get() == "(v > (1)::numeric)"
    both = catalog.tables("small", "sevens")["public.keyed"]
    assert both.rowFilter().get() == "((k = 7)) OR ((v > (1)::numeric))"
    # Each operation has the filters of the publications that publish it.
    both = catalog.tables("small", "inserts")["public.keyed"]
    assert both.rowFilter().isEmpty()
    assert elements(both.unpublished()) == ["update", "delete"]
    # A publication without a filter sends all rows.
    assert catalog.tables("small", "plain")["public.keyed"].rowFilter().isEmpty()


def test_generated_columns_are_unsent_unless_they_are_published(
    server: Server, catalog: LakeCatalog
) -> None:
    server.execute(
        "CREATE TABLE generated (k int PRIMARY KEY, g int GENERATED ALWAYS AS (k * 2) STORED);"
        "CREATE PUBLICATION computed FOR TABLE generated"
    )
    (table,) = catalog.tables("computed").values()
    assert (names(table.columns()), elements(table.unsent())) == (["k"], [2])
    if server.version >= 18:
        server.execute("ALTER PUBLICATION computed SET (publish_generated_columns = stored)")
        (table,) = catalog.tables("computed").values()
        assert names(table.columns()) == ["k", "g"]


SHAPES = """
CREATE SCHEMA s;
CREATE TABLE s.a (k int PRIMARY KEY, gone int, g int GENERATED ALWAYS AS (k * 2) STORED);
ALTER TABLE s.a DROP COLUMN gone;
CREATE UNLOGGED TABLE s.unlogged (k int PRIMARY KEY);
CREATE TABLE s.tree (k int, v text) PARTITION BY RANGE (k);
CREATE TABLE below PARTITION OF s.tree FOR VALUES FROM (0) TO (10);
CREATE TABLE s.under PARTITION OF s.tree FOR VALUES FROM (10) TO (30) PARTITION BY RANGE (k);
CREATE TABLE deep PARTITION OF s.under FOR VALUES FROM (10) TO (20);
CREATE TABLE trees (k int, v text) PARTITION BY LIST (k);
CREATE TABLE s.leaf PARTITION OF trees DEFAULT;
"""

# What a publication can name. The second list is new in 15.
NAMED = ["ALL TABLES", "TABLE s.a, s.tree", "TABLE deep, s.leaf", "TABLE s.tree, s.under, below"]
NAMED_SINCE_15 = [
    "TABLES IN SCHEMA s",
    "TABLES IN SCHEMA s, TABLE s.tree, trees",
    "TABLES IN SCHEMA s, TABLE s.a WHERE (k > 3), deep WHERE (k > 12)",
    "TABLE s.a (k) WHERE (k > 3), s.tree, below (v, k) WHERE (v = 'x'), s.leaf WHERE (k <> 1)",
]

# A list or a filter of a root needs publish_via_partition_root.
NAMED_WITH_ROOTS = ["TABLE s.tree (k) WHERE (k = 1), below (k), trees WHERE (k = 2), s.leaf"]

# The partitions of each table of SHAPES.
BELOW = {
    "s.tree": {"public.below", "s.under", "public.deep"},
    "s.under": {"public.deep"},
    "public.trees": {"s.leaf"},
}


def test_tables_are_those_of_pg_publication_tables(server: Server, catalog: LakeCatalog) -> None:
    """A job does not read this view, which waits for locks of tables from version 16 on."""
    server.execute(SHAPES)
    named = NAMED + (NAMED_SINCE_15 if server.version >= 15 else [])
    roots = ["false", "true"]
    generated = ["none", "stored"] if server.version >= 18 else [None]
    publications: dict[str, str] = {}
    for what, root, computed in itertools.product([*named, *NAMED_WITH_ROOTS], roots, generated):
        if what in NAMED_WITH_ROOTS and (root == "false" or server.version < 15):
            continue
        name = f"shape{len(publications)}"
        options = f"publish_via_partition_root = {root}"
        if computed is not None:
            options += f", publish_generated_columns = {computed}"
        server.execute(f"CREATE PUBLICATION {name} FOR {what} WITH ({options})")
        publications[name] = f"{what} {options}"
    lists = "t.rowfilter, t.attnames" if server.version >= 15 else "NULL, NULL"
    with server.connect() as connection:
        seen = connection.execute(
            f"SELECT pubname, schemaname, tablename, {lists} FROM pg_publication_tables t "
            "WHERE pubname = ANY (%s)".encode(),
            [list(publications)],
        ).fetchall()
        found = connection.execute(
            catalog.published_sql(server.version).encode(), [list(publications)]
        ).fetchall()
        if server.version == NEWEST:  # of a later server, the view says what is published
            later = connection.execute(
                catalog.published_sql(NEWEST + 1).encode(), [list(publications)]
            ).fetchall()
            assert sorted(later, key=str) == sorted(seen, key=str)
    tables = {(name, f"{schema}.{table}") for name, schema, table, *_ in found}
    below = {(name, partition) for name, table in tables for partition in BELOW.get(table, set())}
    of_view = {
        (name, f"{schema}.{table}"): (row_filter, columns)
        for name, schema, table, row_filter, columns in seen
        if (name, f"{schema}.{table}") not in below
    }
    assert len(of_view) > 3 * len(publications)
    ours = {
        (name, f"{schema}.{table}"): (row_filter, columns)
        for name, schema, table, row_filter, columns in found
        if (name, f"{schema}.{table}") not in below
    }
    for place, (row_filter, columns) in of_view.items():
        own_filter, own_columns = ours.pop(place)
        about = (publications[place[0]], place[1])
        assert own_filter == row_filter, about
        if server.version >= 15:
            # Before 18, the view also names generated columns, which are not sent.
            sent = [c for c in columns if c != "g" or server.version >= 18]
            assert own_columns == sent, about
    assert ours == {}
    server.execute(
        "DROP SCHEMA s CASCADE; DROP TABLE trees; "
        + "".join(f"DROP PUBLICATION {name};" for name in publications)
    )


def test_no_lock_holds_up_the_catalog(
    server: Server, client: SourceClient, catalog: LakeCatalog
) -> None:
    """The stream goes on while an ALTER TABLE waits for the end of a copy."""
    client.sql.execute("SET lock_timeout = '1s'")
    with server.open_transaction() as other:
        other.execute("LOCK TABLE keyed, deferred, complete, by_index, silent, root")
        found = catalog.tables("plain", "roots")
        assert catalog.mirrored(found["public.keyed"]).targetKey().size() == 2
        assert catalog.compare(found["public.root"], found["public.root"]) == []
    client.sql.execute("RESET lock_timeout")


def test_types_of_the_target(server: Server, catalog: LakeCatalog) -> None:
    server.execute(
        "CREATE DOMAIN price AS numeric(8, 2); CREATE TYPE mood AS ENUM ('sad');"
        'CREATE TABLE typed (k int, p price, m mood, "X y" numeric);'
        "CREATE PUBLICATION typed FOR TABLE typed"
    )
    (table,) = catalog.tables("typed").values()
    types = {"p": "DECIMAL(20,2)", "public.typed.X y": "DOUBLE", "X y": "STRING"}
    assert catalog.mirrored(table).schema().toDDL() == (
        "k INT COMMENT 'int4',p DECIMAL(8,2) COMMENT 'price (numeric(8,2))',"
        "m STRING COMMENT 'mood',`X y` STRING COMMENT 'numeric'"
    )
    fields = catalog.mirrored(table, types=types).schema().fields()
    assert [field.dataType().sql() for field in fields] == [
        *("INT", "DECIMAL(20,2)", "STRING", "DOUBLE")
    ]
    for wrong, part in [
        ({"z": "INT"}, "types.z names no column"),
        ({"k": "NUMBER"}, "types.k has 'NUMBER'"),
        ({"k": "DATE"}, "cannot be read as DATE. Set types.public.typed.k to INT or STRING."),
    ]:
        with fails("PGOUTPUT_REPLICATE_OPTION", part):
            catalog.mirrored(table, types=wrong)


def test_an_array_of_elements_with_a_delimiter_of_their_own_is_a_text(
    server: Server, catalog: LakeCatalog
) -> None:
    server.execute(
        "CREATE TYPE shape; CREATE TYPE other;"
        + "".join(
            f"CREATE FUNCTION {name}_in(cstring) RETURNS {name} IMMUTABLE STRICT"
            " LANGUAGE internal AS 'textin';"
            f"CREATE FUNCTION {name}_out({name}) RETURNS cstring IMMUTABLE STRICT"
            " LANGUAGE internal AS 'textout';"
            f"CREATE TYPE {name} (INPUT = {name}_in, OUTPUT = {name}_out, DELIMITER = '{mark}');"
            for name, mark in (("shape", ":"), ("other", ","))
        )
        + "CREATE TYPE piece AS (n int, gone int, s shape[], b box[], o other[]);"
        "ALTER TYPE piece DROP ATTRIBUTE gone; CREATE TYPE nothing AS ();"
        "CREATE TABLE shapes (s shape[], o other[], p piece, e nothing);"
        "CREATE PUBLICATION shapes FOR TABLE shapes"
    )
    (table,) = catalog.tables("shapes").values()
    texts = catalog.mirrored(table).schema()
    assert texts.toDDL() == (
        "s STRING COMMENT 'shape[]',o STRING COMMENT 'other[]',p STRING COMMENT 'piece',"
        "e STRING COMMENT 'nothing'"
    )
    part = "STRUCT<n: INT, s: {}, b: {}, o: {}>"
    split = part.format("STRING", "STRING", "ARRAY<STRING>")
    given = {"o": "ARRAY<STRING>", "p": split}
    fields = catalog.mirrored(table, types=given).schema().fields()
    assert [field.dataType().sql() for field in fields] == [
        *("STRING", "ARRAY<STRING>", split, "STRING")
    ]
    with fails("PGOUTPUT_REPLICATE_OPTION", "Set types.public.shapes.s to STRING."):
        catalog.mirrored(table, types={"s": "ARRAY<STRING>"})
    for types in (("ARRAY<STRING>", "STRING", "STRING"), ("STRING", "ARRAY<STRING>", "STRING")):
        with fails("PGOUTPUT_REPLICATE_OPTION", "Set types.public.shapes.p to STRING."):
            catalog.mirrored(table, types={"p": part.format(*types)})


def test_types_of_the_target_by_those_of_the_server(server: Server, catalog: LakeCatalog) -> None:
    server.execute(
        "CREATE DOMAIN amount AS numeric;"
        "CREATE TABLE by_type (k int, free numeric, fixed numeric(8, 2), list numeric[], a amount,"
        " n numeric, at timestamptz); CREATE PUBLICATION by_type FOR TABLE by_type"
    )
    (table,) = catalog.tables("by_type").values()

    def types(pg_types: dict[str, str]) -> list[str]:
        found = catalog.mirrored(table, types={"n": "DOUBLE"}, pg_types=pg_types)
        return [field.dataType().sql() for field in found.schema().fields()]

    decimal = "DECIMAL(38,18)"
    assert types({"decimal": decimal, "timestamp with time zone": "TIMESTAMP_NTZ"}) == [
        *("INT", decimal, "DECIMAL(8,2)", "ARRAY<STRING>", "STRING", "DOUBLE", "TIMESTAMP_NTZ")
    ]
    assert types({"numeric[]": f"ARRAY<{decimal}>", "public.amount": "DOUBLE"}) == [
        *("INT", "STRING", "DECIMAL(8,2)", f"ARRAY<{decimal}>", "DOUBLE", "DOUBLE", "TIMESTAMP")
    ]
    for wrong, part in [
        ({"numerc": decimal}, "pgTypes.numerc names no type of the server"),
        # The server reports a syntax error.
        ({"timestamp with timezone": "DATE", "int4": "BIGINT"}, "with timezone names no type"),
        ({"numeric(8,2)": decimal}, "without a modifier"),
        ({"int4": "DATE"}, "The option pgTypes.int4 gives DATE to the column 'k'"),
        ({"int": "BIGINT", "int4": "DATE"}, "are two names of one type"),
    ]:
        with fails("PGOUTPUT_REPLICATE_OPTION", part):
            catalog.mirrored(table, pg_types=wrong)


def test_the_type_of_a_key_must_distinguish_its_values(
    server: Server, catalog: LakeCatalog
) -> None:
    server.execute(
        "CREATE TYPE pair AS (n numeric, b boolean); CREATE TYPE mixed AS (n numeric, t text);"
        "CREATE TABLE exact (big bigint, small smallint, num numeric, t text, f real, v bigint,"
        " u text, p pair, m mixed,"
        " PRIMARY KEY (big, small, num, t, f, p, m)); CREATE PUBLICATION exact FOR TABLE exact"
    )
    (table,) = catalog.tables("exact").values()
    catalog.mirrored(
        table,
        types={
            **{"big": "DECIMAL(19,0)", "small": "DOUBLE", "num": "DECIMAL(38,10)"},
            **{"t": "VARCHAR(9)", "f": "DOUBLE", "v": "DOUBLE"},
            **{"p": "STRUCT<n: DECIMAL(9,2), b: BOOLEAN>", "m": "STRUCT<n: STRING, t: STRING>"},
        },
    )
    for column, lossy in [
        *(("big", "DOUBLE"), ("big", "FLOAT"), ("num", "DOUBLE"), ("num", "FLOAT")),
        *(
            ("t", "CHAR(3)"),
            ("u", "CHAR(3)"),
            ("t", "STRING COLLATE UTF8_LCASE"),
            ("small", "STRING COLLATE UNICODE_CI"),
            # (1.0,a) and (1.00,a) are one value, and the text can also be ("1.0",a).
            ("m", "STRUCT<n: DECIMAL(9,2), t: STRING>"),
        ),
    ]:
        with fails("PGOUTPUT_REPLICATE_OPTION", f"Set types.public.exact.{column} to"):
            catalog.mirrored(table, types={column: lossy})
    # The rows of a table without a key are found by all of their values.
    server.execute(
        "CREATE TABLE inexact (t text, n numeric); ALTER TABLE inexact REPLICA IDENTITY FULL;"
        " CREATE PUBLICATION inexact FOR TABLE inexact"
    )
    (table,) = catalog.tables("inexact").values()
    catalog.mirrored(table, types={"n": "DOUBLE"})
    with fails("PGOUTPUT_REPLICATE_OPTION", "Set types.public.inexact.t to STRING"):
        catalog.mirrored(table, types={"t": "STRING COLLATE UTF8_LCASE"})


def test_a_new_partition_needs_the_replica_identity_full_of_its_root(
    server: Server, catalog: LakeCatalog
) -> None:
    """A partition does not inherit it, so its changes have no old rows."""
    server.execute(
        "CREATE TABLE full_root (k int PRIMARY KEY) PARTITION BY RANGE (k);"
        "ALTER TABLE full_root REPLICA IDENTITY FULL;"
        "CREATE TABLE full_1 PARTITION OF full_root FOR VALUES FROM (1) TO (2);"
        "ALTER TABLE full_1 REPLICA IDENTITY FULL;"
        "CREATE PUBLICATION full_root FOR TABLE full_root WITH (publish_via_partition_root)"
    )
    (kept,) = catalog.tables("full_root").values()
    server.execute("CREATE TABLE full_2 PARTITION OF full_root FOR VALUES FROM (2) TO (3)")
    (now,) = catalog.tables("full_root").values()
    assert "full_2 does not have REPLICA IDENTITY FULL" in catalog.compare(kept, now)
    server.execute("ALTER TABLE full_2 REPLICA IDENTITY FULL")
    (now,) = catalog.tables("full_root").values()
    assert catalog.compare(kept, now) == ["PartitionAdded public.full_2"]


def test_a_partition_that_identifies_rows_by_other_columns_needs_a_remedy(
    server: Server, catalog: LakeCatalog
) -> None:
    """The server announces the key of the root, but sends old rows with other columns."""
    server.execute(
        "CREATE TABLE drift (k int PRIMARY KEY, v int NOT NULL) PARTITION BY RANGE (k);"
        "CREATE TABLE drift_1 PARTITION OF drift FOR VALUES FROM (0) TO (10);"
        "CREATE UNIQUE INDEX drift_1_v ON drift_1 (v);"
        "CREATE UNIQUE INDEX drift_1_vk ON drift_1 (v, k);"
        "CREATE PUBLICATION drift FOR TABLE drift WITH (publish_via_partition_root)"
    )
    (kept,) = catalog.tables("drift").values()
    server.execute("ALTER TABLE drift_1 REPLICA IDENTITY USING INDEX drift_1_v")
    (now,) = catalog.tables("drift").values()
    reason = catalog.compare(kept, now)
    assert "The partition public.drift_1 identifies rows by (v)" in reason
    assert 'ALTER TABLE "public"."drift_1" REPLICA IDENTITY FULL' in reason
    for enough in ("USING INDEX drift_1_vk", "FULL", "NOTHING", "DEFAULT"):
        server.execute(f"ALTER TABLE drift_1 REPLICA IDENTITY {enough}")
        (now,) = catalog.tables("drift").values()
        assert catalog.compare(kept, now) == []


def test_a_root_without_a_key_needs_one_of_two_remedies(
    server: Server, catalog: LakeCatalog
) -> None:
    server.execute(
        "CREATE TABLE keyless (k int) PARTITION BY RANGE (k);"
        "CREATE TABLE keyless_1 (k int PRIMARY KEY);"
        "ALTER TABLE keyless ATTACH PARTITION keyless_1 FOR VALUES FROM (0) TO (10);"
        "CREATE TABLE keyless_2 PARTITION OF keyless FOR VALUES FROM (10) TO (20);"
        "CREATE PUBLICATION keyless FOR TABLE keyless WITH (publish_via_partition_root)"
    )
    (kept,) = catalog.tables("keyless").values()
    job, tables = catalog.readiness("keyless")
    assert job == []
    ((text,),) = tables.values()
    remedies = [
        "ALTER TABLE public.keyless ADD PRIMARY KEY (k)",
        "ALTER TABLE public.keyless REPLICA IDENTITY FULL; "
        "ALTER TABLE public.keyless_1 REPLICA IDENTITY FULL; "
        "ALTER TABLE public.keyless_2 REPLICA IDENTITY FULL;",
    ]
    assert "public.keyless_1 identifies rows by (k)" in text
    assert all(statement in text for statement in remedies)
    assert "its root has no key" in catalog.compare(kept, kept)
    with server.connect() as connection:
        for statement in remedies:
            connection.execute("BEGIN")
            for one in statement.strip(";").split(";"):
                connection.execute(one.encode())
            connection.execute("COMMIT")
            assert catalog.readiness("keyless") == ([], {})
            if "PRIMARY" in statement:
                connection.execute("ALTER TABLE keyless DROP CONSTRAINT keyless_pkey")
    server.execute("ALTER TABLE keyless REPLICA IDENTITY DEFAULT")
    assert "by the whole row" in catalog.readiness("keyless")[1]["public.keyless"][0]


def test_a_key_that_is_a_generated_column_needs_a_remedy(
    server: Server, catalog: LakeCatalog
) -> None:
    server.execute(
        "CREATE TABLE made (k int NOT NULL, g int GENERATED ALWAYS AS (k * 2) STORED PRIMARY KEY);"
        "CREATE PUBLICATION made FOR TABLE made"
    )
    job, tables = catalog.readiness("made")
    assert job == []
    ((text,),) = tables.values()
    remedy = (
        "ALTER TABLE public.made REPLICA IDENTITY FULL;"
        if server.version < 18
        else "ALTER PUBLICATION made SET (publish_generated_columns = stored);"
    )
    assert text.endswith(f"columns g of the key of public.made: {remedy}")
    if server.version >= 18:
        # The server refuses updates then too.
        server.execute("ALTER TABLE made REPLICA IDENTITY FULL")
        assert catalog.readiness("made")[1]["public.made"][0].endswith(remedy)
    server.execute(remedy)
    assert catalog.readiness("made") == ([], {})
    server.execute("INSERT INTO made VALUES (1); UPDATE made SET k = 2; DELETE FROM made")


def test_each_table_has_what_it_lacks(server: Server, catalog: LakeCatalog) -> None:
    server.execute(
        "CREATE TABLE zero (); CREATE TABLE fine (k int PRIMARY KEY);"
        "CREATE TABLE only_generated (g int GENERATED ALWAYS AS (1) STORED);"
        "CREATE PUBLICATION zeros FOR TABLE zero, fine, only_generated"
    )
    job, tables = catalog.readiness("zeros")
    assert job == []
    assert all("has no column that is sent" in text for (text,) in tables.values())
    assert sorted(tables) == ["public.only_generated", "public.zero"]
    # If no publication sends an operation, the job and each table lack it. Otherwise, only some
    # tables lack it.
    server.execute(
        "CREATE PUBLICATION grown FOR TABLE fine WITH (publish = 'insert');"
        "CREATE TABLE whole (k int PRIMARY KEY); CREATE PUBLICATION whole FOR TABLE whole"
    )
    job, tables = catalog.readiness("grown")
    assert (len(job), list(tables)) == (1, ["public.fine"])
    assert "of all tables by update, delete, truncate" in job[0]
    job, tables = catalog.readiness("grown", "whole")
    assert job == []
    ((text,),) = tables.values()
    assert "of public.fine by update, delete, truncate" in text
    # The tests of a module run in any order, and one of them looks at all tables.
    server.execute(
        "DROP PUBLICATION zeros, grown, whole; DROP TABLE zero, fine, only_generated, whole"
    )


def test_a_look_at_the_server_finds_everything_that_is_missing(
    spark: SparkSession, server: Server
) -> None:
    server.execute(
        'CREATE SCHEMA "Shut"; CREATE TABLE "Shut".t (k int PRIMARY KEY, v int);'
        "CREATE TABLE half (k int PRIMARY KEY, v int); CREATE TABLE ruled (k int PRIMARY KEY);"
        "ALTER TABLE ruled ENABLE ROW LEVEL SECURITY;"
        "CREATE TABLE parts (k int) PARTITION BY RANGE (k);"
        "ALTER TABLE parts REPLICA IDENTITY FULL;"
        "CREATE TABLE part PARTITION OF parts FOR VALUES FROM (0) TO (10);"
        "CREATE TABLE pairs (k int, v int, PRIMARY KEY (k, v)) PARTITION BY RANGE (k);"
        "CREATE TABLE other_key PARTITION OF pairs FOR VALUES FROM (0) TO (10);"
        "CREATE UNIQUE INDEX by_k ON other_key (k);"
        "ALTER TABLE other_key REPLICA IDENTITY USING INDEX by_k;"
        'CREATE PUBLICATION hidden FOR TABLE "Shut".t, half, ruled, parts, pairs'
        " WITH (publish = 'insert, update, delete', publish_via_partition_root);"
        "CREATE ROLE \"Reader\" LOGIN PASSWORD 'x';"
        'GRANT SELECT (k) ON half TO "Reader"; GRANT SELECT ON ruled, part, other_key TO "Reader"'
    )
    remedies = [
        'ALTER ROLE "Reader" REPLICATION;',
        'GRANT USAGE ON SCHEMA "Shut" TO "Reader";',
        'GRANT SELECT ON "Shut".t TO "Reader";',
        'GRANT SELECT (v) ON public.half TO "Reader";',
        'ALTER ROLE "Reader" BYPASSRLS;',
        "ALTER TABLE public.part REPLICA IDENTITY FULL;",
        "ALTER TABLE public.other_key REPLICA IDENTITY FULL;",
        "ALTER PUBLICATION hidden SET (publish = 'insert, update, delete, truncate');",
    ]
    with source_client(spark, server) as superuser:
        tables = LakeCatalog(superuser).tables("hidden")
        server.execute('ALTER ROLE "Reader" REPLICATION')  # for the client's second connection
        with source_client(spark, server, Server.database, "Reader", "x") as reader:
            server.execute('ALTER ROLE "Reader" NOREPLICATION')
            catalog = LakeCatalog(reader)
            job, missing = catalog.readiness("hidden", tables=tables)
            texts = {text for texts in (job, *missing.values()) for text in texts}
            for statement in remedies:
                assert any(statement in text for text in texts), statement
            # Each table of the publication lacks the operation TRUNCATE, too.
            assert len(texts) == len(remedies) + len(tables)
            for statement in remedies:
                server.execute(statement)
            assert catalog.readiness("hidden") == ([], {})
