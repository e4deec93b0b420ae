"""The documentation is true: its code prints what it shows, and its tables are complete."""

from __future__ import annotations

import contextlib
import itertools
import json
import operator
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, DataType, StructType

import spark_pgoutput
from spark_pgoutput.cli import parse
from spark_pgoutput.demo.server import PostgresServer
from support import lake
from support.documentation import (
    DOCS,
    OUTPUT,
    PAGES,
    README,
    ROOT,
    Block,
    Reader,
    assert_table,
    blocks,
    cells,
    markdown,
    matches,
    statements,
    table,
)
from support.server_values import range_type

# The documentation's address of a server, a role's password there, and its folder for data.
SERVER = "localhost:5432/shop"
PASSWORD = "change-me"
FOLDER = "/data/"

# The driver in the JAR reads this property of a running JVM instead of the variable PGPASSFILE.
PGPASS_PROPERTY = "io.sparkpgoutput.shaded.postgresql.pgpassfile"

ERRORS = ROOT / "jvm/src/main/resources/io/sparkpgoutput/errors"
SCALA = ROOT / "jvm/src/main/scala"
FOLDERS = [ROOT, ROOT / "jvm/src/main/resources", SCALA, SCALA / "io/sparkpgoutput"]

RUN = ("python", "sql", "postgresql")
SHELL = "bash"
CONFIG = "yaml"

CODE_PAGES = [
    page for page in PAGES if any(block.runs and block.language in RUN for block in blocks(page))
]

# The first page shows Delta, which does not run on each Spark. The second one shows a plan, which
# other versions of Spark print differently.
PAGES_OF_ONE_SPARK = [DOCS / "replicate.md", DOCS / "performance.md"]

# The pages that a new user reads first.
FIRST_PAGES = [README, DOCS / "replicate.md"]


@pytest.fixture
def reader(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Iterator[Reader]:
    """Give a reader that works in a folder of its own, and leaves the session as it was."""
    page: Path = request.param
    conf = spark.conf.getAll
    views = temporary_views(spark)
    with contextlib.ExitStack() as stack:
        server = None
        replacements = {FOLDER: f"{tmp_path}/"}
        if SERVER in page.read_text(encoding="utf-8"):
            server = stack.enter_context(PostgresServer())
            stack.enter_context(pytest.MonkeyPatch.context()).setenv("PGPASSWORD", server.password)
            stack.enter_context(pgpass_file(spark, server, tmp_path / "pgpass"))
            replacements[SERVER] = f"{server.host}:{server.port}/{server.database}"
            replacements[PASSWORD] = server.password
        if any('format("jdbc")' in block.text for block in blocks(page)):
            spark.sql(f"ADD JAR 'ivy://{jdbc_driver()}?transitive=false'")

        def execute(code: str) -> None:
            assert server
            with psycopg.connect(server.conninfo, autocommit=True) as connection:
                for statement in statements(code):
                    connection.execute(statement.encode())

        yield Reader(spark, replacements, execute if server else None)
    for view in temporary_views(spark) - views:
        spark.catalog.dropTempView(view)
    for name, value in spark.conf.getAll.items():
        if name not in conf:
            spark.conf.unset(name)
        elif value != conf[name]:
            spark.conf.set(name, conf[name])


@contextlib.contextmanager
def pgpass_file(spark: SparkSession, server: PostgresServer, path: Path) -> Iterator[None]:
    """Give the driver in the JAR the password of all roles that the documentation makes."""
    path.write_text(f"{server.host}:{server.port}:*:*:{server.password}\n", encoding="utf-8")
    path.chmod(0o600)
    system: Any = spark._jvm.java.lang.System  # type: ignore[union-attr]
    system.setProperty(PGPASS_PROPERTY, str(path))
    yield
    system.clearProperty(PGPASS_PROPERTY)


def jdbc_driver() -> str:
    """Return the JDBC driver that the documentation names, for Spark's source `jdbc`."""
    named = re.search(r"--packages ([\w.:-]+)", (DOCS / "messages.md").read_text(encoding="utf-8"))
    assert named
    return named[1]


def temporary_views(spark: SparkSession) -> set[str]:
    return {table.name for table in spark.catalog.listTables() if table.isTemporary}


def marks(page: Path) -> list[pytest.MarkDecorator]:
    """Return the marks of a page: most pages that need a server take long."""
    takes_long = SERVER in page.read_text(encoding="utf-8") and page not in FIRST_PAGES
    return [lake.needs_lake] * (page in PAGES_OF_ONE_SPARK) + [pytest.mark.takes_long] * takes_long


@pytest.mark.parametrize(
    ("page", "reader"),
    [pytest.param(page, page, id=page.name, marks=marks(page)) for page in CODE_PAGES],
    indirect=["reader"],
)
def test_code_prints_what_the_page_shows(page: Path, reader: Reader) -> None:
    for block in blocks(page):
        if block.runs and block.language in RUN:
            printed = reader.run(block)
            if block.output is not None and not matches(block.output, printed):
                assert printed == block.output, block.place


@pytest.mark.takes_long
@pytest.mark.parametrize("reader", [DOCS / "peek-slot.md"], indirect=True)
def test_a_slot_that_is_confirmed_is_peeked_at_again(reader: Reader) -> None:
    """The slot then has no message, not even a definition of the table."""
    *code, confirming = (block for block in blocks(DOCS / "peek-slot.md") if block.language in RUN)
    for block in code:
        reader.run(block)
    reader.run(Block(confirming.place, "postgresql", reader.run(confirming)))
    reader.run(Block(confirming.place, "python", "copy_new_changes()"))
    assert not reader.run(confirming)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_code_that_does_not_run_is_valid(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (example,) = [block for block in blocks(DOCS / "config-file.md") if block.language == CONFIG]
    Path("job.yaml").write_text(example.text, encoding="utf-8")
    for variable in re.findall(r"\$(\w+)", example.text):
        monkeypatch.setenv(variable, "x")
    for block in blocks(page):
        assert block.language in (*RUN, SHELL, OUTPUT, CONFIG), f"{block.place}: {block.language}"
        if block.language == "python":
            compile(block.text, block.place, "exec")
        elif block.language == SHELL:
            assert_valid_commands(block)


def assert_valid_commands(block: Block) -> None:
    """Check the syntax, the targets of make, and the arguments of spark-pgoutput."""
    syntax = subprocess.run(["bash", "-n"], input=block.text, text=True, check=False)
    assert syntax.returncode == 0, block.place
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^make ([a-z-]+)", block.text, re.M):
        assert re.search(rf"^{target}:", makefile, re.M), f"{block.place}: make {target}"
    lines = block.text.replace("\\\n", " ")
    for arguments in re.findall(r"(?:^|\$\()spark-pgoutput ([^)>\n]+)", lines, re.M):
        parse(arguments.split())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_a_page_and_a_heading(page: Path) -> None:
    for path, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)#?([^)\s]*)\)", text_of(page)):
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{page.name}: {path}"
        if anchor:
            assert anchor in headings(target), f"{page.name}: {path}#{anchor}"


def text_of(page: Path) -> str:
    """Return a page without its code blocks."""
    return re.sub(r"^ *```.*?^ *```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)


def headings(page: Path) -> set[str]:
    """Return the anchors that GitHub gives to the headings of a page."""
    titles = re.findall(r"^#+ (.+)$", text_of(page), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_readme_takes_three_minutes() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 150


# Pages to look something up, and pages for developers. The others are about one task each.
REFERENCES = {"architecture.md", "performance.md", "replicate-reference.md"}


def test_a_page_about_a_task_is_short_and_says_what_it_is_for() -> None:
    for page in DOCS.glob("*.md"):
        lines = page.read_text(encoding="utf-8").splitlines()
        assert (len(lines) > 200) == (page.name in REFERENCES), page.name
        assert lines[2].startswith(("After this page, you ", "Look up here ")), page.name


def test_readme_links_every_page() -> None:
    linked = set(re.findall(r"\]\((docs/\w[\w-]*\.md)", README.read_text(encoding="utf-8")))
    assert linked == {str(page.relative_to(ROOT)) for page in DOCS.glob("*.md")}


def test_readme_names_every_function(spark: SparkSession) -> None:
    listed = spark.sql("SHOW USER FUNCTIONS LIKE '*pg*'").collect()
    names = {row[0] for row in listed if "pgoutput" in row[0] or "lsn" in row[0]}
    assert names >= set(spark_pgoutput.functions.__all__)
    assert names <= set(re.findall(r"\w+", README.read_text(encoding="utf-8")))


@pytest.mark.parametrize("of", ["messages", "slots", "replicate"])
def test_table_of_errors(of: str) -> None:
    conditions, guide = (
        json.loads((ERRORS / name).read_text(encoding="utf-8"))
        for name in ("error-conditions.json", "error-guide.json")
    )
    assert sorted(itertools.chain.from_iterable(guide.values())) == sorted(conditions)
    rows = [
        [f"`{name}`", conditions[name]["sqlState"], *advice.values()]
        for name, advice in guide[of].items()
    ]
    lost = ["What is lost"] * (of != "messages")
    head = ["Condition", "SQLSTATE", "What it means", *lost, "What to do"]
    assert_table(DOCS / "errors.md", f"errors of {of}", markdown(head, rows))


def test_table_of_message_fields() -> None:
    schema = spark_pgoutput.message_schema()
    assert schema["key"].dataType == schema["old"].dataType == schema["new"].dataType
    rows = field_rows(StructType([f for f in schema if f.name not in ("key", "old")]))
    shared = [[f"`{name}`", "as `new`", comment(schema, name)] for name in ("key", "old")]
    expected = markdown(["Field", "Type", "Meaning"], [*rows, *shared])
    assert_table(DOCS / "decode.md", "message fields", expected)


def field_rows(schema: StructType, parent: str = "") -> list[list[str]]:
    rows = []
    for field in schema:
        name = f"{parent}{field.name}"
        rows.append([f"`{name}`", sql_type(field.dataType), comment(schema, field.name)])
        nested = field.dataType
        if isinstance(nested, ArrayType):
            nested = nested.elementType
        if isinstance(nested, StructType):
            rows += field_rows(nested, f"{name}.")
    return rows


def sql_type(data_type: DataType) -> str:
    if isinstance(data_type, StructType):
        return "STRUCT"
    if isinstance(data_type, ArrayType):
        return f"ARRAY&lt;{sql_type(data_type.elementType)}&gt;"
    return data_type.simpleString().upper()


def comment(schema: StructType, name: str) -> str:
    return str(schema[name].metadata["comment"])


@pytest.mark.parametrize(
    ("function", "name"),
    [("pgoutput_changes", "change columns"), ("pgoutput_open", "open columns")],
)
def test_table_of_columns(spark: SparkSession, function: str, name: str) -> None:
    spark.createDataFrame([], "seq BIGINT, data BINARY").createOrReplaceTempView("no_messages")
    schema = spark.sql(f"SELECT * FROM {function}('no_messages', 'seq')").schema
    columns = StructType([field for field in schema if field.name != "row"])
    expected = markdown(["Column", "Type", "Meaning"], field_rows(columns))
    assert_table(DOCS / "table-changes-reference.md", name, expected)


def test_table_of_columns_of_messages(spark: SparkSession) -> None:
    schema = declared_schema(spark, "source.output.MessageFields.schema")
    expected = markdown(["Column", "Type", "Meaning"], field_rows(schema))
    assert_table(DOCS / "slot-archive.md", "message columns", expected)


def test_table_of_metrics(spark: SparkSession) -> None:
    schema = declared_schema(spark, "source.slot.SlotMetrics.schema")
    expected = markdown(
        ["Metric", "Meaning"], [[f"`{name}`", comment(schema, name)] for name in schema.names]
    )
    assert_table(DOCS / "slot-operations.md", "metrics", expected)


def test_table_of_columns_of_a_history(spark: SparkSession) -> None:
    """The page describes the columns in other words than the page of `pgoutput_changes`."""
    modes = jvm_object(spark, "lake.catalog.TableMode")
    history = struct_type(modes.of("history", "_").get().columns())
    rows = described_columns(DOCS / "history.md", "history columns")
    assert [row[:2] for row in rows] == [row[:2] for row in field_rows(history)]
    kinds = comment(history, "_change_type").removeprefix("One of ").split(", ")
    snapshot = getattr(jvm_object(spark, "lake.catalog.TableMode$History$"), "MODULE$").Snapshot()
    (change_type,) = [meaning for name, _, meaning in rows if name == "`_change_type`"]
    assert set(re.findall(r"`(\w+)`", change_type)) == {*kinds, snapshot}


def test_table_of_columns_of_versions(spark: SparkSession) -> None:
    modes = jvm_object(spark, "lake.catalog.TableMode")
    versions = struct_type(modes.of("versions", "_").get().columns())
    rows = described_columns(DOCS / "row-versions.md", "version columns")
    assert [row[:2] for row in rows] == [
        [f"`{field.name}`", sql_type(field.dataType)] for field in versions
    ]


def test_table_of_columns_of_verify(spark: SparkSession) -> None:
    tables = jvm_object(spark, "lake.verify.VerifiedTable")
    schema = struct_type(tables.fromText(spark._jsparkSession, "").schema())
    rows = described_columns(DOCS / "verify.md", "verify columns")
    assert [row[:2] for row in rows] == [
        [f"`{field.name}`", sql_type(field.dataType)] for field in schema
    ]


def jvm_object(spark: SparkSession, name: str) -> Any:  # noqa: ANN401 - an object of the JVM
    return operator.attrgetter(f"io.sparkpgoutput.{name}")(spark._jvm)


def declared_schema(spark: SparkSession, name: str) -> StructType:
    return struct_type(jvm_object(spark, name)())


def struct_type(schema: Any) -> StructType:  # noqa: ANN401 - an object of the JVM
    return StructType.fromJson(json.loads(schema.json()))


def described_columns(page: Path, name: str) -> list[list[str]]:
    """Return the rows of a table. If a row describes several columns, each gets a row."""
    rows = cells(table(page, name))
    return [[column, *row[1:]] for row in rows for column in row[0].split(", ")]


@pytest.mark.parametrize(
    ("page", "function", "declared", "shared"),
    [
        ("decode.md", "pgoutput_decode", "options.DecodeOptions.decode", None),
        ("typed-rows-reference.md", "pgoutput_row", "options.RowOptions.row", None),
        (
            "table-changes-reference.md",
            "pgoutput_changes",
            "changes.sql.ChangesOptions.list",
            "options.RowOptions.row",
        ),
        ("slot-reference.md", "the source", "source.stream.SourceOptions.list", None),
        ("replicate-reference.md", "replicate", "lake.job.ReplicateOptions.list", None),
    ],
)
def test_table_of_options(
    spark: SparkSession, page: str, function: str, declared: str, shared: str | None
) -> None:
    """The options are those that Scala declares, without those of another page."""
    lines = option_lines(spark, declared)
    others = option_lines(spark, shared)[2:] if shared else []
    expected = "".join(line for line in lines if line not in others)
    assert_table(DOCS / page, f"options of {function}", expected)


def option_lines(spark: SparkSession, declared: str) -> list[str]:
    # Outside of code, Markdown reads <name> as HTML.
    lines = jvm_object(spark, declared)().markdown().splitlines(True)
    return [re.sub(r"(`[^`]*`)|<", lambda found: found[1] or "&lt;", line) for line in lines]


def test_table_of_metrics_of_a_job(spark: SparkSession) -> None:
    declared = jvm_object(spark, "lake.job.JobMetrics").markdown()
    assert_table(DOCS / "monitoring.md", "metrics of a job", declared)


def test_table_of_the_benchmark() -> None:
    measured = (ROOT / "benchmarks/output/queries.md").read_text(encoding="utf-8")
    assert_table(DOCS / "performance.md", "benchmark", measured)


OID = 99999
RELATION_OF_TYPE = """named_struct('namespace', '', 'name', 't', 'replica_identity', 'd', 'columns',
  array(named_struct('key', false, 'name', 'c', 'type_id', {oid}L, 'type_modifier', -1)))"""
NULLS = """named_struct('kinds', repeat('n', {columns}),
  'text', array_repeat(CAST(NULL AS STRING), {columns}), 'binary', CAST(NULL AS ARRAY<BINARY>))"""


def test_table_of_types(spark: SparkSession) -> None:
    """`pgoutput_schema` gives the default type, and `pgoutput_row` takes the others."""
    defaults, schemas, rows = {}, [], []
    for names, default, also in cells(table(DOCS / "typed-rows-reference.md", "types")):
        types = [*re.findall(r"`([^`]+)`", default + also), "STRING"]
        fields = ", ".join(f"c{number} {t}" for number, t in enumerate(types))
        nulls = NULLS.format(columns=len(types))
        for name in re.findall(r"`([^`]+)`", names):
            defaults[name] = column_type(f"c {types[0]}")
            options = f"map('type.{OID}', '{name}')"
            schemas.append(f"pgoutput_schema({RELATION_OF_TYPE.format(oid=OID)}, {options})")
            oids = f"array_repeat({OID}L, {len(types)})"
            rows.append(f"pgoutput_row({nulls}, '{fields}', {oids}, {options})")
    (found,) = spark.sql(f"SELECT {', '.join(schemas)}").collect()
    assert dict(zip(defaults, map(column_type, found), strict=True)) == defaults
    spark.sql(f"SELECT {', '.join(rows)}")


# Types that values can be read as. Other precisions, elements and fields change nothing.
TARGETS = [
    *("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(20,2)"),
    *("STRING", "BINARY", "VARIANT", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ"),
    *("INTERVAL DAY TO SECOND", "INTERVAL YEAR TO MONTH"),
    *("ARRAY<STRING>", "MAP<STRING, STRING>", "STRUCT<a: STRING, b: STRING>", range_type("STRING")),
]


def test_table_of_types_is_complete(spark: SparkSession) -> None:
    """The table has each type of PostgreSQL, and each Spark type that takes its values."""
    rows = cells(table(DOCS / "typed-rows-reference.md", "types"))
    described = {name: row[1:] for row in rows for name in re.findall(r"`([^`]+)`", row[0])}
    built_in = names_of(jvm_object(spark, "types.registry.BuiltInTypes").byName())
    declarations = jvm_object(spark, "types.TypeLookup").Declarations().split(", ")[1:]
    forms = {form.removeprefix("or ").partition(":")[0] for form in declarations}
    # A name with an underscore before it is that of an array type.
    bases = {name for name in built_in if not name.startswith("_")}
    assert {name.partition(":")[0] for name in described} == bases | forms

    registry = jvm_object(spark, "types.registry.TypeRegistry")
    registry = registry(getattr(registry, "apply$default$1")())
    options = jvm_object(spark, "options.RowOptions").row().defaults().conversion()
    from_ddl = spark._jvm.org.apache.spark.sql.types.DataType.fromDDL  # type: ignore[union-attr]
    targets = [(kind(target), from_ddl(target)) for target in TARGETS]
    for name, types in described.items():
        pg_type = registry.declared(name).get()
        taken = {kind for kind, target in targets if pg_type.to(target, options).isDefined()}
        listed = {kind(found) for found in re.findall(r"`([^`]+)`", "".join(types))}
        assert taken == {*listed, "STRING"}, name


def names_of(by_name: Any) -> set[str]:  # noqa: ANN401 - a map of the JVM
    return set(by_name.keySet().mkString(" ").split())


def kind(sql_type: str) -> str:
    """Return a Spark type without its precision, elements or fields."""
    return re.split(r"[<(]", sql_type)[0]


def column_type(ddl: str) -> DataType:
    schema = StructType.fromDDL(ddl)
    assert isinstance(schema, StructType)
    return schema.fields[0].dataType


@cache
def words_of_scala() -> set[str]:
    files = (ROOT / "jvm/src").rglob("*.scala")
    return {word for file in files for word in re.findall(r"\w+", file.read_text("utf-8"))}


@pytest.mark.parametrize("page", [ROOT / "CONTRIBUTING.md", DOCS / "architecture.md"], ids=str)
def test_pages_for_developers_name_what_exists(page: Path) -> None:
    assert set(re.findall(r"`([A-Z]\w*[a-z]\w*)`", text_of(page))) <= words_of_scala()
    folders = {path.name for path in (SCALA / "io/sparkpgoutput").iterdir() if path.is_dir()}
    assert folders <= set(re.findall(r"`(\w+)`", text_of(DOCS / "architecture.md")))
    for path in re.findall(r"`(\w[\w-]*(?:/[\w.-]+)+)`", text_of(page)):
        assert any((folder / path).exists() for folder in FOLDERS), path
