"""The columns of a published table, as the catalog of a real server has them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from support.servers import Server, each_version
from support.source import SourceClient, fails

TABLES = """
CREATE SCHEMA "My";
CREATE TYPE mood AS ENUM ('sad', 'it''s fine');
CREATE TYPE part AS (label text, size mood, at timestamptz);
CREATE DOMAIN price AS numeric(10, 2) CHECK (VALUE >= 0);
CREATE DOMAIN cheap AS price CHECK (VALUE < 10);
CREATE DOMAIN labels AS text[];
CREATE TYPE pricerange AS RANGE (subtype = price, multirange_type_name = prices);
CREATE TABLE "My"."Types" (
    k bigint PRIMARY KEY,
    dropped int,
    amount numeric(12, 3),
    name varchar(20),
    cost cheap,
    costs cheap[],
    words labels,
    feeling mood,
    feelings mood[],
    piece part,
    pieces part[],
    span pricerange,
    spans prices,
    seen timestamptz,
    double_k bigint GENERATED ALWAYS AS (k * 2) STORED
);
ALTER TABLE "My"."Types" DROP COLUMN dropped;
CREATE TABLE plain (k int, secret text, v int);
CREATE TABLE unpublished (k int);
CREATE TABLE root (k int, v text) PARTITION BY RANGE (k);
CREATE TABLE low (v text, k int);
ALTER TABLE root ATTACH PARTITION low FOR VALUES FROM (0) TO (10);
CREATE TABLE high PARTITION OF root FOR VALUES FROM (10) TO (20);
CREATE PUBLICATION types FOR TABLE "My"."Types", plain;
CREATE PUBLICATION leaves FOR TABLE root;
CREATE PUBLICATION roots FOR TABLE root WITH (publish_via_partition_root);
CREATE PUBLICATION nothing;
INSERT INTO "My"."Types" VALUES (
    1, 1.5, 'one', 9.99, '{1,NULL,2.5}', '{a,"b c"}', 'it''s fine', '{sad,NULL}',
    '("x y",sad,2020-01-01 00:00+00)', '{"(z,,)"}', '[1,2.5)', '{[1,2),[3,4)}',
    '2020-01-01 00:00+00'
)
"""

# The type of each column in Spark.
TYPES = {
    "k": "bigint",
    "amount": "decimal(12,3)",
    "name": "string",
    "cost": "decimal(10,2)",
    "costs": "array<decimal(10,2)>",
    "words": "array<string>",
    "feeling": "string",
    "feelings": "array<string>",
    "piece": "string",
    "pieces": "array<string>",
    "span": "string",
    "spans": "string",
    "seen": "timestamp",
}

COMMENTS = {
    "amount": "numeric(12,3)",
    "name": "varchar(20)",
    "cost": "cheap (numeric(10,2))",
    "costs": "cheap[] (numeric(10,2)[])",
    "words": "labels (text[])",
    "feelings": "mood[]",
    "piece": "part",
    "spans": "prices",
}


@pytest.fixture(scope="module", params=each_version(pytest.mark.exhaustive))
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with Server(request.param) as server:
        server.create_slot("s")
        server.execute(TABLES)
        yield server


def find(
    client: SourceClient,
    publications: list[str],
    name: str,
    namespace: str = "public",
    declared: dict[int, str] | None = None,
) -> Any:  # noqa: ANN401 - an object of the JVM
    registry = client.jvm.io.sparkpgoutput.types.registry.TypeRegistry
    types = registry(getattr(registry, "apply$default$1")())
    for declaration in (declared or {}).items():
        types = getattr(types, "$plus")(client.jvm.scala.Tuple2(*declaration))
    return client.java("table.PublishedTable").find(
        client.sql,
        client.seq(publications),
        client.jvm.io.sparkpgoutput.changes.TableName(namespace, name),
        types,
    )


def types_of(found: Any) -> dict[str, str]:  # noqa: ANN401 - an object of the JVM
    return {field.name(): field.dataType().simpleString() for field in found.schema().fields()}


def options_of(found: Any) -> dict[str, str]:  # noqa: ANN401 - an object of the JVM
    """Return the declarations as options of pgoutput_changes."""
    declarations = found.types().declarations().iterator()
    options = {}
    while declarations.hasNext():
        declaration = declarations.next()
        options[f"type.{declaration._1()}"] = declaration._2()
    return options


def test_each_type_is_that_of_the_catalog(client: SourceClient) -> None:
    found = find(client, ["types"], "Types", "My")
    assert types_of(found) == TYPES
    fields = {field.name(): field for field in found.schema().fields()}
    assert {name: fields[name].getComment().get() for name in COMMENTS} == COMMENTS


@pytest.mark.parametrize("binary", [False, True])
def test_a_row_is_read_with_the_types_of_the_catalog(
    spark: SparkSession, server: Server, binary: bool
) -> None:
    read = spark.read.format("pgoutput").options(
        **server.account,
        slot="s",
        publication="types",
        table='"My"."Types"',
        binary=binary,
    )
    (row,) = read.load().selectExpr(*(f"string({name}) AS {name}" for name in TYPES)).collect()
    assert row.asDict() == {
        "k": "1",
        "amount": "1.500",
        "name": "one",
        "cost": "9.99",
        "costs": "[1.00, null, 2.50]",
        "words": "[a, b c]",
        "feeling": "it's fine",
        "feelings": "[sad, null]",
        "piece": '("x y",sad,"2020-01-01 00:00:00+00")',
        "pieces": "[(z,,)]",
        "span": "[1.00,2.50)",
        "spans": "{[1.00,2.00),[3.00,4.00)}",
        "seen": "2020-01-01 00:00:00",
    }


def test_a_type_that_the_user_declares_stays(server: Server, client: SourceClient) -> None:
    oid = server.value("SELECT 'mood'::regtype::oid::int")
    found = find(client, ["types"], "Types", "My", {oid: "text"})
    assert options_of(found)[f"type.{oid}"] == "text"


def test_types_of_extensions_are_known(server: Server, client: SourceClient) -> None:
    extensions = {"citext": "string", "hstore": "map<string,string>", "vector": "string"}
    known = {name for (name,) in server.execute("SELECT name FROM pg_available_extensions")}
    expected = {name: kind for name, kind in extensions.items() if name in known}
    assert expected
    for name in expected:
        server.execute(f"CREATE EXTENSION {name}")
    columns = ", ".join(f"{name} {name}, {name}s {name}[]" for name in expected)
    server.execute(f"CREATE TABLE extended ({columns})")
    server.execute("ALTER PUBLICATION types ADD TABLE extended")
    found = find(client, ["types"], "extended")
    types = types_of(found)
    assert {name: types[name] for name in expected} == expected
    # The binary format of a vector is not known, so its arrays are not read either.
    arrays = {"citext": "array<string>", "hstore": "array<map<string,string>>", "vector": "string"}
    assert {name: types[f"{name}s"] for name in expected} == {n: arrays[n] for n in expected}


def test_a_column_list_leaves_out_columns(server: Server, client: SourceClient) -> None:
    assert types_of(find(client, ["types"], "plain")) == {
        "k": "int",
        "secret": "string",
        "v": "int",
    }
    if server.version >= 15:
        server.execute("CREATE PUBLICATION open FOR TABLE plain (v, k)")
        assert types_of(find(client, ["open"], "plain")) == {"k": "int", "v": "int"}


def test_generated_columns_are_found_if_they_are_published(
    server: Server, client: SourceClient
) -> None:
    if server.version < 18:
        pytest.skip("publish_generated_columns is new in 18")
    server.execute(
        'CREATE PUBLICATION generated FOR TABLE "My"."Types" '
        "WITH (publish_generated_columns = stored)"
    )
    assert types_of(find(client, ["generated"], "Types", "My")) == {**TYPES, "double_k": "bigint"}


def test_no_lock_holds_up_the_columns(server: Server, client: SourceClient) -> None:
    """From version 16 on, pg_publication_tables opens each table, and waits for an ALTER TABLE."""
    of_plain = "plain (k, v) WHERE (v > 1)" if server.version >= 15 else "plain"
    server.execute(f'CREATE PUBLICATION locked FOR TABLE "My"."Types", root, {of_plain}')
    client.sql.execute("SET lock_timeout = '1s'")
    with server.open_transaction() as other:
        other.execute('LOCK TABLE "My"."Types", root, plain')
        assert "v" in types_of(find(client, ["locked"], "plain"))
        assert types_of(find(client, ["locked"], "Types", "My")) == TYPES
        with fails("PGOUTPUT_TABLE_NOT_PUBLISHED", "public.root is partitioned"):
            find(client, ["locked"], "root")
    client.sql.execute("RESET lock_timeout")


def test_a_partition_is_found_by_the_name_that_is_published(client: SourceClient) -> None:
    condition = "PGOUTPUT_TABLE_NOT_PUBLISHED"
    assert list(types_of(find(client, ["roots"], "root"))) == ["k", "v"]
    assert list(types_of(find(client, ["leaves"], "low"))) == ["v", "k"]
    # If one of two publications sends a partition as its root, both do.
    assert list(types_of(find(client, ["leaves", "roots"], "root"))) == ["k", "v"]
    with fails(condition, "public.low is a partition", "those of public.root"):
        find(client, ["leaves", "roots"], "low")
    with fails(condition, "public.root is partitioned", "names: public.high, public.low."):
        find(client, ["leaves"], "root")


def test_a_table_that_is_not_published_is_an_error(client: SourceClient) -> None:
    condition = "PGOUTPUT_TABLE_NOT_PUBLISHED"
    with fails(condition, "no table public.types", '"My"."Types"', "public.plain", "upper case"):
        find(client, ["types"], "types")
    statement = "ALTER PUBLICATION types ADD TABLE public.unpublished"
    with fails(condition, "changes of the table public.unpublished", statement):
        find(client, ["types"], "unpublished")
    with fails(condition, "have no tables"):
        find(client, ["nothing"], "unpublished")
    with fails("PGOUTPUT_PUBLICATION_NOT_FOUND", "'missing' does not exist"):
        find(client, ["types", "missing"], "plain")


def test_names_in_proposed_statements_are_quoted_as_the_server_quotes_them(
    spark: SparkSession, server: Server
) -> None:
    odd = ["orders", "_1", "a_1", "a$b", "1st", "Orders", "größe", "two words", 'say "hi"', ""]
    with server.connect() as connection:
        names = connection.execute(
            "SELECT name, quote_ident(name) FROM ("
            "SELECT word FROM pg_get_keywords() UNION SELECT unnest(%s::text[])) AS names (name)",
            [odd],
        ).fetchall()
    assert len(names) > 400 + len(odd)
    jvm: Any = spark._jvm
    quoted = {name: jvm.io.sparkpgoutput.source.SqlIdentifier.apply(name) for name, _ in names}
    others = {name for name, by_server in names if quoted[name] != by_server}
    assert others <= ({"json"} if server.version < 17 else set())  # `json` is reserved from 17 on
