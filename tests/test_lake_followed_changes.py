"""Which changes of a table, its partitions and its publications a job follows, on a real server."""

from __future__ import annotations

import itertools

import pytest

from support.lake_catalog import LakeCatalog
from support.servers import EACH_VERSION, Connection, Server, server_fixture
from support.source import SourceClient

server = server_fixture("CREATE TABLE keyed (k int PRIMARY KEY)", "module", EACH_VERSION)

REWRITTEN = "ALTER TABLE has rewritten it"
TYPE = "has another type"

# Statements on a table of START, and the changes that a job then follows, or a part of the reason
# for a new copy.
START = (
    "(k int PRIMARY KEY, s smallint, r real, c varchar(10), n numeric(8, 2), gone int, "
    "late int NOT NULL DEFAULT 5)"
)
FOLLOWED: list[tuple[str, list[str] | str]] = [
    ("ALTER TABLE {} ADD COLUMN x int", ["ColumnAdded x"]),
    ("ALTER TABLE {} ADD COLUMN x int; ALTER TABLE {} ALTER x SET DEFAULT 5", ["ColumnAdded x"]),
    ("ALTER TABLE {} DROP COLUMN gone", ["ColumnDropped gone"]),
    (
        "ALTER TABLE {} ADD COLUMN x int, ADD y int; ALTER TABLE {} DROP gone",
        ["ColumnDropped gone", "ColumnAdded x", "ColumnAdded y"],
    ),
    ("ALTER TABLE {} ADD COLUMN x int; ALTER TABLE {} DROP x", []),
    ("ALTER TABLE {} RENAME gone TO x", ["ColumnRenamed gone x"]),
    ("ALTER TABLE {} ALTER c TYPE varchar(11)", ["ColumnWidened c c"]),
    ("ALTER TABLE {} ALTER c TYPE text", ["ColumnWidened c c"]),
    ("ALTER TABLE {} ALTER n TYPE numeric(9, 2)", ["ColumnWidened n n"]),
    ("VACUUM FULL {}", []),
    ("CLUSTER {} USING {}_pkey", []),
    ("TRUNCATE {}", []),
    ("TRUNCATE {} RESTART IDENTITY; VACUUM FULL {}; ANALYZE {}", []),
    ("ALTER TABLE {} ALTER gone SET NOT NULL, ALTER s SET STATISTICS 7; ANALYZE {}", []),
    ("ALTER TABLE {} SET (fillfactor = 50); REINDEX TABLE {}", []),
    ("GRANT SELECT (gone) ON {} TO PUBLIC; VACUUM {}", []),
]
REASONS: list[tuple[str, list[str] | str]] = [
    ("ALTER TABLE {} ADD COLUMN x int DEFAULT 1", "'x' was added with a default"),
    ("ALTER TABLE {} ADD COLUMN x int DEFAULT 1; VACUUM FULL {}", "'x' was added and the table"),
    ("ALTER TABLE {} ADD COLUMN x float8 DEFAULT random()", "'x' was added and the table was"),
    ("ALTER TABLE {} ADD COLUMN x serial", "'x' was added and the table was rewritten"),
    ("ALTER TABLE {} ALTER gone TYPE text", TYPE),
    # The catalog does not distinguish these two.
    ("ALTER TABLE {} ALTER s TYPE int", TYPE),
    ("ALTER TABLE {} ALTER s TYPE int USING s * 2", TYPE),
    ("ALTER TABLE {} ALTER s TYPE bigint; VACUUM FULL {}", TYPE),
    ("ALTER TABLE {} ALTER r TYPE float8", TYPE),
    ("ALTER TABLE {} ALTER missing TYPE bigint", TYPE),
    ("ALTER TABLE {} ALTER n TYPE numeric(9, 3)", TYPE),
    ("ALTER TABLE {} ALTER n TYPE numeric(7, 2)", TYPE),
    ("ALTER TABLE {} ALTER c TYPE varchar(9)", TYPE),
    ("ALTER TABLE {} ALTER c TYPE text USING upper(c)", "another type and the table was rewritten"),
    ("ALTER TABLE {} ALTER gone TYPE int USING gone + 1", REWRITTEN),
    ("ALTER TABLE {} ALTER late TYPE int USING 7", REWRITTEN),
    ("ALTER TABLE {} ALTER missing TYPE int USING missing * 2", "has rewritten public.{}"),
    ("ALTER TABLE {} ALTER n TYPE numeric(40, 2)", TYPE),
    ("ALTER TABLE {} DROP gone, ADD gone text", "'gone' is a new one with a name"),
    (
        "ALTER TABLE {} ADD x int; ALTER TABLE {} DROP x; ALTER TABLE {} ADD x int",
        "dropped before the column 'x' was added",
    ),
    ("ALTER TABLE {} RENAME gone TO x; ALTER TABLE {} ADD gone int", "'gone' is a new one with"),
    ("ALTER TABLE {} DROP s; ALTER TABLE {} RENAME gone TO s", "'gone' was renamed to 's'"),
    (
        'ALTER TABLE {} RENAME gone TO "Gone"',
        "'gone' was renamed to 'Gone', which is the same name in the target",
    ),
    ("ALTER TABLE {} REPLICA IDENTITY FULL", "replica identity was DEFAULT and is FULL"),
    ("ALTER TABLE {} REPLICA IDENTITY NOTHING", "replica identity was DEFAULT and is NOTHING"),
    ("ALTER TABLE {} DROP CONSTRAINT {}_pkey", "Its key was (k) and is ()"),
]

# The changes that VACUUM FULL, CLUSTER and TRUNCATE of tables and partitions count as.
REWRITES = ("PartitionRewritten", "Vacuumed")

# A partitioned table refuses these statements, some only before version 15, or is copied again.
NOT_OF_ROOTS = ("CLUSTER", "fillfactor", "RESTART IDENTITY; VACUUM FULL")


def run(connection: Connection, statements: str) -> None:
    for statement in statements.split("; "):
        connection.execute(statement.replace("\n", ";").encode())


@pytest.mark.parametrize("partitioned", [False, True])
def test_changes_of_a_table_are_followed_or_need_a_copy(
    server: Server, catalog: LakeCatalog, partitioned: bool
) -> None:
    """Compare many tables at once, because each look at the catalog reads all of them."""
    kind = "p" if partitioned else "t"
    cases: dict[str, tuple[str, list[str] | str]] = {}
    for number, case in enumerate(itertools.chain(FOLLOWED, REASONS)):
        if not partitioned or not any(word in case[0] for word in NOT_OF_ROOTS):
            cases[f"{kind}{number}"] = case
    with server.connect() as connection:
        for name in cases:
            by = " PARTITION BY RANGE (k)" if partitioned else ""
            run(connection, f"CREATE TABLE {name} {START}{by}")
            for part in (1, 2) if partitioned else ():
                bounds = f"FROM ({part}) TO ({part + 1})"
                run(
                    connection,
                    f"CREATE TABLE {name}_{part} PARTITION OF {name} FOR VALUES {bounds}",
                )
            run(connection, f"INSERT INTO {name} VALUES (1, 2, 3, '4', 5, 6)")
            run(connection, f"INSERT INTO {name} VALUES (2, 2, 3, '4', 5, 6)")
            # So atthasmissing is set, which VACUUM FULL clears.
            run(connection, f"ALTER TABLE {name} ADD COLUMN missing int DEFAULT 8")
        all_tables = f"CREATE PUBLICATION {kind} FOR TABLE {', '.join(cases)}"
        run(connection, f"{all_tables} WITH (publish_via_partition_root)")
        kept = catalog.tables(kind)
        for name, (statements, _) in cases.items():
            run(connection, statements.replace("{}", name))
    now = catalog.tables(kind)
    wrong = []
    for name, (statements, expected) in cases.items():
        found = catalog.compare(kept[f"public.{name}"], now[f"public.{name}"])
        if isinstance(expected, str):
            expected = expected.replace("{}", name)
        matches = expected in found if isinstance(expected, str) else found == expected
        kinds = [change for change in found if not change.startswith(REWRITES)]
        if not (matches or (isinstance(found, list) and kinds == expected)):
            wrong.append((statements, expected, found))
    assert wrong == []


def test_changes_of_partitions_are_followed_or_need_a_copy(
    server: Server, catalog: LakeCatalog
) -> None:
    bounds = "FOR VALUES FROM ({0}) TO ({1})"
    third = bounds.format(3, 4)
    cases: list[tuple[str, list[str] | str]] = [
        (f"CREATE TABLE {{0}}_3 PARTITION OF {{0}} {third}", ["PartitionAdded public.{0}_3"]),
        (
            f"CREATE TABLE {{0}}_3 PARTITION OF {{0}} {third}; INSERT INTO {{0}} VALUES (3); "
            "TRUNCATE {0}_3",
            "{0}_3 was truncated or rewritten",
        ),
        ("VACUUM FULL {0}_1", ["PartitionRewritten public.{0}_1"]),
        ("TRUNCATE {0}", ["PartitionRewritten public.{0}_1", "PartitionRewritten public.{0}_2"]),
        (
            "TRUNCATE {0}; ANALYZE {0}; INSERT INTO {0} VALUES (1); VACUUM {0}",
            ["PartitionRewritten public.{0}_1", "PartitionRewritten public.{0}_2"],
        ),
        ("TRUNCATE {0}_1", "{0}_1 was truncated"),
        ("TRUNCATE {0}_1; TRUNCATE {0}_2", "{0}_1 was truncated"),
        # After VACUUM FULL, the catalog does not show that one statement has emptied both.
        ("TRUNCATE {0}; VACUUM FULL {0}_1", "{0}_1 was truncated, or has none of its rows"),
        ("TRUNCATE {0}_1; INSERT INTO {0} VALUES (1); ANALYZE {0}", "{0}_1 was truncated"),
        ("DROP TABLE {0}_1", "{0}_1 was detached or dropped"),
        ("ALTER TABLE {0} DETACH PARTITION {0}_2", "{0}_2 was detached or dropped"),
        (
            f"CREATE TABLE {{0}}_3 (k int); ALTER TABLE {{0}} ATTACH PARTITION {{0}}_3 {third}",
            "{0}_3 was attached",
        ),
        (
            "BEGIN\nCREATE TABLE {0}_3 (k int)\nINSERT INTO {0}_3 VALUES (3)\n"
            f"ALTER TABLE {{0}} ATTACH PARTITION {{0}}_3 {third}\nCOMMIT",
            "{0}_3 had rows before",
        ),
        (
            "CREATE TABLE {0}_m (k int) PARTITION BY RANGE (k); "
            f"CREATE TABLE {{0}}_3 PARTITION OF {{0}}_m {third}; "
            f"INSERT INTO {{0}}_3 VALUES (3); ALTER TABLE {{0}} ATTACH PARTITION {{0}}_m {third}",
            "{0}_3 was attached",
        ),
        (
            "BEGIN\nCREATE TABLE {0}_m (k int) PARTITION BY RANGE (k)\n"
            f"CREATE TABLE {{0}}_3 PARTITION OF {{0}}_m {third}\nINSERT INTO {{0}}_m VALUES (3)\n"
            f"ALTER TABLE {{0}} ATTACH PARTITION {{0}}_m {third}\nCOMMIT",
            "{0}_3 had rows before",
        ),
        (
            "BEGIN\nALTER TABLE {0} DETACH PARTITION {0}_2\nDELETE FROM {0}_2\n"
            f"ALTER TABLE {{0}} ATTACH PARTITION {{0}}_2 {bounds.format(2, 3)}\nCOMMIT",
            "{0}_2 was detached and attached again",
        ),
        (
            f"CREATE UNLOGGED TABLE {{0}}_3 PARTITION OF {{0}} {third}",
            "changes of the partition public.{0}_3 are not in the WAL",
        ),
    ]
    names = [f"q{number}" for number in range(len(cases))]
    all_tables = f"CREATE PUBLICATION q FOR TABLE {', '.join(names)}"
    with server.connect() as connection:
        for name in names:
            run(connection, f"CREATE TABLE {name} (k int) PARTITION BY RANGE (k)")
            for part in (1, 2):
                values = bounds.format(part, part + 1)
                run(connection, f"CREATE TABLE {name}_{part} PARTITION OF {name} {values}")
            run(connection, f"INSERT INTO {name} VALUES (1), (2)")
        run(connection, f"{all_tables} WITH (publish_via_partition_root)")
        kept = catalog.tables("q")
        for name, (statements, _) in zip(names, cases, strict=True):
            run(connection, statements.format(name))
    now = catalog.tables("q")
    for name, (statements, expected) in zip(names, cases, strict=True):
        found = catalog.compare(kept[f"public.{name}"], now[f"public.{name}"])
        if isinstance(expected, str):
            assert expected.format(name) in found, statements
        else:
            assert found == [change.format(name) for change in expected], statements


def test_a_truncate_of_the_only_partition_is_not_one_of_the_table(
    server: Server, catalog: LakeCatalog
) -> None:
    """The server sends a TRUNCATE only of the root, but both give the partition a new file."""
    server.execute(
        "CREATE TABLE alone (k int) PARTITION BY RANGE (k);"
        "CREATE TABLE alone_1 PARTITION OF alone FOR VALUES FROM (1) TO (9);"
        "INSERT INTO alone VALUES (1);"
        "CREATE PUBLICATION alone FOR TABLE alone WITH (publish_via_partition_root)"
    )
    (kept,) = catalog.tables("alone").values()
    server.execute("TRUNCATE alone_1")
    (now,) = catalog.tables("alone").values()
    assert "public.alone_1 was truncated" in catalog.compare(kept, now)


def test_a_role_that_cannot_look_at_rows_asks_for_a_copy(
    server: Server, client: SourceClient, catalog: LakeCatalog
) -> None:
    """The system columns, which show what happened to rows, need SELECT on the table."""
    server.execute(
        "CREATE ROLE of_columns;"
        "CREATE TABLE seen (k int) PARTITION BY RANGE (k);"
        "CREATE TABLE seen_1 PARTITION OF seen FOR VALUES FROM (1) TO (2);"
        "GRANT SELECT (k) ON seen, seen_1 TO of_columns;"
        "CREATE PUBLICATION seen FOR TABLE seen WITH (publish_via_partition_root)"
    )
    (kept,) = catalog.tables("seen").values()
    server.execute(
        "CREATE TABLE seen_2 PARTITION OF seen FOR VALUES FROM (2) TO (3);"
        "GRANT SELECT (k) ON seen_2 TO of_columns"
    )
    (now,) = catalog.tables("seen").values()
    assert catalog.compare(kept, now) == ["PartitionAdded public.seen_2"]
    client.sql.execute("SET ROLE of_columns")
    try:
        assert "needs SELECT on the table" in catalog.compare(kept, now)
    finally:
        client.sql.execute("RESET ROLE")


def test_changes_of_a_publication_need_a_copy(server: Server, catalog: LakeCatalog) -> None:
    server.execute(
        "CREATE TABLE pub (k int PRIMARY KEY, v int); CREATE PUBLICATION c FOR TABLE pub"
    )
    (kept,) = catalog.tables("c").values()
    server.execute("ALTER PUBLICATION c SET (publish = 'insert')")
    (now,) = catalog.tables("c").values()
    assert "operations was insert, update, delete, truncate and is insert." in catalog.compare(
        kept, now
    )
    # The job does not know which changes the publication did not send.
    server.execute("ALTER PUBLICATION c SET (publish = 'insert, update, delete, truncate')")
    (now,) = catalog.tables("c").values()
    assert "publication was altered" in catalog.compare(kept, now)
    kept = now
    server.execute("CREATE TABLE beside (k int)")
    server.execute("VACUUM (FULL, FREEZE) pg_publication")
    server.execute("ALTER PUBLICATION c SET TABLE pub; ALTER PUBLICATION c ADD TABLE beside")
    assert catalog.compare(kept, catalog.tables("c")["public.pub"]) == []
    server.execute("ALTER PUBLICATION c DROP TABLE beside; DROP TABLE beside")
    server.execute("ALTER PUBLICATION c DROP TABLE pub; ALTER PUBLICATION c ADD TABLE pub")
    (now,) = catalog.tables("c").values()
    assert "taken out of the publication and put back" in catalog.compare(kept, now)
    if server.version >= 15:
        server.execute("ALTER PUBLICATION c SET TABLE pub (k)")
        (now,) = catalog.tables("c").values()
        assert "does not send the column 'v' any more" in catalog.compare(kept, now)
        assert "sends the column 'v' now" in catalog.compare(now, kept)
        server.execute("ALTER PUBLICATION c SET TABLE pub WHERE (k > 1)")
        (now,) = catalog.tables("c").values()
        assert "row filter of the publication was none and is (k > 1)." in catalog.compare(
            kept, now
        )
        # The text of the filter has the new name of a column, and the filter is the same.
        kept = now
        server.execute("ALTER TABLE pub RENAME k TO key")
        (now,) = catalog.tables("c").values()
        assert catalog.compare(kept, now) == ["ColumnRenamed k key"]
        server.execute("ALTER PUBLICATION c SET TABLE pub WHERE (key > 2)")
        (now,) = catalog.tables("c").values()
        assert "row filter of the publication was (k > 1) and is (key > 2)" in catalog.compare(
            kept, now
        )


def test_each_publication_of_a_table_counts(server: Server, catalog: LakeCatalog) -> None:
    """Publications of a table can send different rows, and different operations."""
    server.execute(
        "CREATE TABLE twice (k int PRIMARY KEY);"
        "CREATE PUBLICATION inserted FOR TABLE twice WITH (publish = 'insert');"
        "CREATE PUBLICATION others FOR TABLE twice WITH (publish = 'update, delete, truncate')"
    )
    (kept,) = catalog.tables("inserted", "others").values()
    server.execute("ALTER PUBLICATION inserted DROP TABLE twice")
    server.execute("ALTER PUBLICATION inserted ADD TABLE twice")
    (now,) = catalog.tables("inserted", "others").values()
    assert "taken out of the publication and put back" in catalog.compare(kept, now)


def test_a_publication_of_all_tables_that_is_made_again_is_another_one(
    server: Server, catalog: LakeCatalog
) -> None:
    server.execute("CREATE PUBLICATION everything FOR ALL TABLES")
    kept = catalog.tables("everything")["public.keyed"]
    assert catalog.compare(kept, catalog.tables("everything")["public.keyed"]) == []
    server.execute("DROP PUBLICATION everything; CREATE PUBLICATION everything FOR ALL TABLES")
    now = catalog.tables("everything")["public.keyed"]
    assert "taken out of the publication and put back" in catalog.compare(kept, now)
    server.execute("DROP PUBLICATION everything")
