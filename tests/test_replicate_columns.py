"""Columns that a job leaves out or hashes: their values are nowhere but at the server."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import spark_pgoutput
from support import lake
from support.job_report import states
from support.job_tables import JobTables
from support.lake_job import LakeJob, Replicate, job_fixtures
from support.lake_options import hashed
from support.processes import errors_of
from support.secrets import texts_of_files
from support.servers import Server, server_fixture, wait_until

pytestmark = [lake.needs_lake, pytest.mark.lake]

# A part of each value that is hidden.
PLAIN = "plain-marker"
SALT = "salt-marker-äö"

COLUMNS = {
    "public.users": {"excludeColumns": ["ssn"], "hash": ["email", "note", "score"]},
    "accounts": {"hash": ["email"]},
    "pairs": {"excludeColumns": ["secret"], "hash": ["email"]},
    "log": {"excludeColumns": ["secret"], "hash": ["email"]},
}

# `note` is so long that the server sends it only if it changes.
server = server_fixture(
    "CREATE DOMAIN address AS varchar(80);"
    "CREATE TABLE users (id int PRIMARY KEY, email address, ssn text, note text STORAGE EXTERNAL,"
    "  score numeric, born date);"
    "CREATE TABLE accounts (email text PRIMARY KEY, n int);"
    "CREATE TABLE pairs (email text, secret text, n int); ALTER TABLE pairs REPLICA IDENTITY FULL;"
    "CREATE TABLE log (id int PRIMARY KEY, email text, secret text);"
    "ALTER TABLE log REPLICA IDENTITY FULL;"
    f"CREATE FUNCTION m(n bigint) RETURNS text RETURN '{PLAIN}-' || n || '\\ö';"
    "INSERT INTO users SELECT g, m(g), m(g), repeat(m(g), 300), g + 0.50, '2026-01-01'"
    "  FROM generate_series(1, 20) g;"
    "INSERT INTO users VALUES (100); INSERT INTO users VALUES (101, '', '', '', 1);"
    "INSERT INTO accounts SELECT m(g), g FROM generate_series(1, 20) g;"
    "INSERT INTO pairs SELECT m(g % 3), m(g), 1 FROM generate_series(1, 20) g;"
    "INSERT INTO log SELECT g, m(g), m(g) FROM generate_series(1, 20) g;"
    "CREATE PUBLICATION p FOR TABLE users, accounts, pairs, log"
)
job, replicate = job_fixtures("p")

CHANGES = (
    "INSERT INTO users SELECT g, m(g), m(g), repeat(m(g), 300), g, NULL"
    "  FROM generate_series(30, 40) g;"
    "UPDATE users SET email = m(50) WHERE id = 1; UPDATE users SET score = 2.500 WHERE id < 9;"
    "UPDATE users SET note = NULL WHERE id = 2; UPDATE users SET id = 200 WHERE id = 3;"
    "UPDATE users SET ssn = m(60) WHERE id = 4; DELETE FROM users WHERE id = 5;"
    "UPDATE accounts SET n = n + 1; UPDATE accounts SET email = m(70) WHERE n = 5;"
    "DELETE FROM accounts WHERE n = 7; INSERT INTO accounts VALUES (m(80), 80);"
    "UPDATE pairs SET secret = m(90) WHERE n = 1; DELETE FROM pairs WHERE email = m(1);"
    "INSERT INTO pairs SELECT m(g), m(1), 2 FROM generate_series(1, 3) g;"
    "UPDATE log SET email = m(91) WHERE id = 1; DELETE FROM log WHERE id = 2;"
    "INSERT INTO log VALUES (30, m(92), m(93))"
)


def rows_of_server(server: Server, table: str, salt: str) -> Counter[tuple[Any, ...]]:
    """Return the rows that the target has to have."""
    queries = {
        "users": "SELECT id, email::text, note, score::text, born FROM users",
        "accounts": "SELECT email, n FROM accounts",
        "pairs": "SELECT email, n FROM pairs",
    }
    places = {"users": (1, 2, 3), "accounts": (0,), "pairs": (0,)}[table]
    return Counter(
        tuple(hashed(value, salt) if at in places else value for at, value in enumerate(row))
        for row in server.execute(queries[table])
    )


def copies(lines: list[str]) -> list[str]:
    """Return the tables of which a job began copies."""
    return [found[1] for line in lines if (found := re.search(r"Copying (\S+)\.", line))]


def assert_hidden(spark: SparkSession, job: LakeJob, salt: str = SALT) -> None:
    for table in ("users", "accounts", "pairs"):
        found = Counter(map(tuple, spark.table(job.sql_name(table)).collect()))
        wanted = rows_of_server(job.server, table, salt)
        assert found == wanted, (table, found - wanted, wanted - found)


def assert_nowhere(folder: Path) -> None:
    """Check that no file has a hidden value or the salt."""
    for path, text in texts_of_files(folder).items():
        assert PLAIN not in text, path
        assert "salt-marker" not in text, path


@pytest.fixture
def salt(tmp_path: Path) -> Path:
    """Give the file of the salt, which is not in the folder of the job."""
    (folder := tmp_path.parent / f"{tmp_path.name} secrets").mkdir()
    (file := folder / "salt").write_text(f"{SALT}\nanother line")
    return file


def test_rows_have_hashes_and_no_excluded_column(
    spark: SparkSession, server: Server, job: LakeJob, replicate: Replicate, salt: Path
) -> None:
    options: dict[str, Any] = {
        **{"columns": COLUMNS, "hashSaltFile": str(salt), "mode": {"log": "history"}},
        "types": {"score": "DOUBLE"},
    }

    def run(**more: object) -> list[str]:
        done = replicate(once=True, onTableError="stop", **{**options, **more})
        assert (done.exit_code, done.failed()) == (0, [])
        return done.report()

    assert len(copies(run())) == 4
    assert dict(spark.table(job.sql_name("users")).dtypes) == {
        **{"id": "int", "email": "string", "note": "string", "score": "string", "born": "date"}
    }
    assert_hidden(spark, job)
    server.execute(CHANGES)
    assert copies(run()) == []
    assert_hidden(spark, job)
    # Large cuts are folded by executors, and cuts after a TRUNCATE by a query.
    server.execute(
        "INSERT INTO accounts SELECT m(g), g FROM generate_series(1000, 12000) g;"
        "BEGIN; TRUNCATE pairs; INSERT INTO pairs VALUES (m(1), m(2), 3); COMMIT"
    )
    run()
    assert_hidden(spark, job)

    history = spark.table(job.sql_name("log"))
    assert history.columns[:2] == ["id", "email"]
    assert "secret" not in history.columns
    changes = history.where("_change_type <> 'snapshot'").orderBy("_commit_version", "_ordinal")
    assert [(row.id, row.email, row._change_type, row._keys) for row in changes.collect()] == [
        (1, hashed(f"{PLAIN}-1\\ö", SALT), "update_preimage", ["id", "email"]),
        (1, hashed(f"{PLAIN}-91\\ö", SALT), "update_postimage", ["id", "email"]),
        (2, hashed(f"{PLAIN}-2\\ö", SALT), "delete", ["id", "email"]),
        (30, hashed(f"{PLAIN}-92\\ö", SALT), "insert", ["id", "email"]),
    ]

    verified = spark_pgoutput.verify(spark, once=True, **{**job.options, **options}).collect()
    assert {row.table.removeprefix("public."): row.result for row in verified} == {
        **{"users": "equal", "accounts": "equal", "pairs": "equal", "log": "skipped"}
    }
    assert_nowhere(job.folder)

    # For another salt or another column, the job copies the tables that have it.
    salt.write_text("other")
    lines = run()
    assert sum("hashed with another salt now" in line for line in lines) == 4
    assert_hidden(spark, job, salt="other")
    fewer = {**COLUMNS, "pairs": {"excludeColumns": ["secret", "n"], "hash": ["email"]}}
    lines = run(columns=fewer)
    assert copies(lines) == ["public.pairs"]
    found = spark.table(job.sql_name("pairs")).select("email")
    assert [row.email for row in found.collect()] == [hashed(f"{PLAIN}-1\\ö", "other")]
    lines = run(columns={**COLUMNS, "accounts": {"hash": ["email", "n"]}})
    assert any("The options hash the column 'n' now" in line for line in lines)


def test_a_renamed_column_never_shows(
    spark: SparkSession, server: Server, job: LakeJob, replicate: Replicate, salt: Path
) -> None:
    options: dict[str, Any] = {
        **{"columns": COLUMNS, "hashSaltFile": str(salt), "excludeTables": "log"}
    }
    own = COLUMNS["public.users"]

    def failure(**more: object) -> str:
        done = replicate(once=True, **{**options, **more})
        assert done.exit_code == 3
        (found,) = done.failed()
        assert PLAIN not in found
        return found

    def run(**users: list[str]) -> list[str]:
        columns = {**COLUMNS, "public.users": {**own, **users}}
        done = replicate(once=True, **{**options, "columns": columns})
        assert (done.exit_code, done.failed()) == (0, [])
        return done.report()

    assert "names the column 'snn'" in failure(
        columns={**COLUMNS, "public.users": {"excludeColumns": ["snn"]}}
    )
    run()
    # The catalog is as before, but some changes have another column with the name.
    server.execute(
        "ALTER TABLE users RENAME ssn TO x; ALTER TABLE users ADD ssn text;"
        "INSERT INTO users (id, x) VALUES (44, m(44)); ALTER TABLE users DROP ssn;"
        "ALTER TABLE users RENAME x TO ssn"
    )
    reasons = ("so the job did not read the change", "the options exclude or hash, was altered")
    assert any(reason in line for line in run() for reason in reasons)
    assert_hidden(spark, job)
    server.execute("ALTER TABLE users RENAME ssn TO social; INSERT INTO users VALUES (41, m(41))")
    assert "has the name 'social' now" in failure()
    # Another column gets the name of the excluded one.
    server.execute(
        "ALTER TABLE users ADD ssn text; UPDATE users SET ssn = m(id), social = m(id), score = 7"
    )
    assert "has the name 'social' now" in failure()
    run(excludeColumns=["ssn", "social"])
    assert_hidden(spark, job)

    # The job runs while columns get other names.
    running = replicate(
        **{
            **options,
            "columns": {**COLUMNS, "public.users": {**own, "excludeColumns": ["ssn", "social"]}},
        }
    )
    JobTables(running).wait("live", "users")
    server.execute(
        "BEGIN; ALTER TABLE users RENAME social TO other; ALTER TABLE users ADD social text;"
        "COMMIT; INSERT INTO users (id, other) VALUES (42, m(42))"
    )
    JobTables(running).wait("failed", "users", reason="has the name 'other' now")
    running.stop()
    assert "other" not in spark.table(job.sql_name("users")).columns
    run(excludeColumns=["ssn", "social", "other"])
    assert_hidden(spark, job)

    # A table with another name.
    server.execute("ALTER TABLE accounts RENAME TO people; INSERT INTO people VALUES (m(43), 43)")
    columns = {**COLUMNS, "public.users": {"excludeColumns": ["ssn", "social", "other"]}}
    columns["public.users"]["hash"] = own["hash"]
    assert "has the name public.people now" in failure(columns=columns)
    columns["people"] = columns.pop("accounts")
    done = replicate(once=True, **{**options, "columns": columns})
    assert (done.exit_code, done.failed()) == (0, [])
    server.execute("ALTER TABLE people RENAME TO accounts")
    assert_hidden(spark, job)
    assert_nowhere(job.folder)


@pytest.mark.parametrize("target", lake.TARGETS)
def test_a_column_that_had_another_name_while_the_job_was_behind_never_shows(
    target: str, spark: SparkSession, server: Server, tmp_path: Path
) -> None:
    """The job looks at the catalog, which is as before, long before it reads the changes."""
    server.execute(
        "DROP PUBLICATION IF EXISTS behind; DROP TABLE IF EXISTS behind, wal;"
        "CREATE TABLE behind (id int PRIMARY KEY, ssn text, note text);"
        "INSERT INTO behind VALUES (1, m(1), 'a'); CREATE PUBLICATION behind FOR TABLE behind"
    )
    job = LakeJob(tmp_path, server, target, publication="behind", slot=f"behind_{target}")
    with job.session(spark) as replicate:
        options: dict[str, Any] = {"columns": {"behind": {"excludeColumns": ["ssn"]}}}
        assert replicate(once=True, **options).exit_code == 0
        names = "ALTER TABLE behind RENAME {} TO t; ALTER TABLE behind RENAME {} TO {};"
        swap = (names + "ALTER TABLE behind RENAME t TO {};").format("ssn", "note", "ssn", "note")
        server.execute(
            "CREATE TABLE wal AS SELECT g, repeat('x', 100) FROM generate_series(1, 1000000) g;"
            f"BEGIN; {swap} INSERT INTO behind (id, note, ssn) VALUES (2, m(2), 'b'); {swap} COMMIT"
        )
        assert replicate(once=True, **options).exit_code == 0
        found = spark.table(job.sql_name("behind")).select("id", "note").collect()
        assert sorted(map(tuple, found)) == [(1, "a"), (2, "b")]
    assert_nowhere(job.folder)


def test_a_table_that_comes_back_under_another_name_never_shows_its_hidden_column(
    spark: SparkSession, server: Server, job: LakeJob, replicate: Replicate, salt: Path
) -> None:
    columns = {"users": COLUMNS["public.users"], "pairs": {"excludeColumns": ["secret"]}}
    options = {"columns": columns, "hashSaltFile": str(salt), "excludeTables": "accounts,log,pairs"}
    assert replicate(once=True, **options).exit_code == 0
    server.execute("ALTER PUBLICATION p DROP TABLE users")
    done = replicate(once=True, **options)
    assert states(done)["users"] == "dropped"
    left = (
        "The table public.users is not published any more. Its rows in the target stay as they are."
    )
    report = done.report()
    assert any(line.startswith("The job goes on with 1 table, from ") for line in report), report
    assert report.count(left) == 1
    server.execute("ALTER TABLE users RENAME TO people; ALTER PUBLICATION p ADD TABLE people")
    for _ in range(2):
        (reason,) = replicate(once=True, **options).failed()
        assert "has the name public.people now" in reason
    assert "ssn" not in spark.table(job.sql_name("users")).columns
    columns["people"] = columns.pop("users")
    assert replicate(once=True, **options).exit_code == 0
    server.execute("ALTER TABLE people RENAME TO users")
    assert "ssn" not in spark.table(job.sql_name("users")).columns
    assert_nowhere(job.folder)


def test_a_table_whose_name_another_one_has_never_shows_its_hidden_column(
    spark: SparkSession, server: Server, job: LakeJob, replicate: Replicate
) -> None:
    options: dict[str, Any] = {
        "columns": {"users": {"excludeColumns": ["ssn"]}},
        "excludeTables": "accounts,log,pairs",
    }
    server.execute("UPDATE users SET email = NULL, note = NULL")
    assert replicate(once=True, **options).exit_code == 0
    server.execute(
        "ALTER PUBLICATION p DROP TABLE users; ALTER TABLE users RENAME TO people;"
        "CREATE TABLE users (id int PRIMARY KEY, ssn text); ALTER PUBLICATION p ADD TABLE users"
    )
    for _ in range(2):
        assert replicate(once=True, **options).exit_code == 0
    server.execute("ALTER PUBLICATION p ADD TABLE people")
    (reason,) = replicate(once=True, **options).failed()
    assert "has the name public.people now" in reason
    # All tables are copied again, while this table is not published. It has no name in the target.
    server.execute("ALTER PUBLICATION p DROP TABLE people")
    assert states(replicate(once=True, **options))[""] == "dropped"
    spark_pgoutput.resync(spark, checkpoint=job.checkpoint_url, all=True)
    assert replicate(once=True, **options).exit_code == 0
    server.execute("ALTER PUBLICATION p ADD TABLE people")
    (reason,) = replicate(once=True, **options).failed()
    assert "has the name public.people now" in reason
    options["columns"]["people"] = {"excludeColumns": ["ssn"]}
    assert replicate(once=True, **options).exit_code == 0
    assert "ssn" not in spark.table(job.sql_name("people")).columns
    assert_nowhere(job.folder)
    # The job forgets it when the server does not have it either.
    server.execute("DROP TABLE people")
    assert states(replicate(once=True, **options))["people"] == "dropped"
    shutil.rmtree(job.tables / "people")
    assert "people" not in states(replicate(once=True, **options))


def test_the_last_changes_of_a_table_have_the_hidden_columns_of_its_copy(
    spark: SparkSession, server: Server, job: LakeJob, replicate: Replicate, salt: Path
) -> None:
    excluded = {"excludeTables": "users,accounts,pairs"}
    assert replicate(once=True, **excluded).exit_code == 0
    server.execute("INSERT INTO log VALUES (50, m(50), m(51)); ALTER PUBLICATION p DROP TABLE log")
    last = replicate(
        once=True, columns={"log": {"hash": ["email"]}}, hashSaltFile=str(salt), **excluded
    )
    assert states(last)["log"] == "dropped"
    assert any("hide other columns" in line for line in last.report())
    emails = [row.email for row in spark.table(job.sql_name("log")).collect()]
    assert sorted(emails) == sorted(f"{PLAIN}-{n}\\ö" for n in range(1, 21))


def test_the_queues_have_no_hidden_value(
    spark: SparkSession, server: Server, job: LakeJob, replicate: Replicate, salt: Path
) -> None:
    if job.target.endswith("/shop"):
        pytest.skip("Queues have nothing to do with the format.")
    running = replicate(
        columns=COLUMNS, hashSaltFile=str(salt), queueMemory="1k", excludeTables="log,pairs"
    )
    JobTables(running).wait("live", "users")
    # The table fails, so that its queue stays.
    server.execute(
        "INSERT INTO users VALUES (900, m(1), m(2), m(3), 4, 'infinity');"
        "UPDATE users SET score = id, email = m(id), ssn = m(id)"
    )
    JobTables(running).wait("failed", "users", reason="infinity")

    def spilled() -> str:
        # LocalFolder makes the folder beside those of Spark's blocks.
        blocks = spark._jvm.org.apache.spark.SparkEnv.get().blockManager().diskBlockManager()  # type: ignore[union-attr]
        folder = Path(str(blocks.localDirs()[0].getParent()))
        files = folder.glob("spark-pgoutput-queues*/*")
        return "".join(file.read_text(errors="replace") for file in files)

    wanted = str(hashed(f"{PLAIN}-20\\ö", SALT))
    wait_until(lambda: wanted in spilled())
    text = spilled()
    assert PLAIN not in text
    assert "salt-marker" not in text


def test_keys_whose_equal_values_have_several_texts_cannot_be_hashed(
    server: Server, job: LakeJob, replicate: Replicate, salt: Path
) -> None:
    if job.target.endswith("/shop"):
        pytest.skip("The checks have nothing to do with the format.")
    types = {
        **{"numeric": "the type numeric", "float8": "the type double precision"},
        **{"char(5)": "the type character", "amount": "the type numeric"},
        **{"interval": "the type interval", 'text COLLATE "same"': "the collation same"},
    }
    exact = ["text", "uuid", "date", "address", "int8", "bytea"]
    tables = {f"k{n}": each for n, each in enumerate(types)}
    tables |= {f"e{n}": each for n, each in enumerate(exact)}
    server.execute('CREATE DOMAIN amount AS numeric; CREATE COLLATION same FROM "C"')
    for table, type_ in tables.items():
        server.execute(f"CREATE TABLE {table} (k {type_} PRIMARY KEY)")
    # The servers of the tests lack ICU, and only ICU has such collations.
    server.execute("UPDATE pg_collation SET collisdeterministic = false WHERE collname = 'same'")
    server.execute(f"CREATE PUBLICATION q FOR TABLE {', '.join(tables)}")
    hidden = {table: {"hash": ["k"]} for table in tables}
    done = replicate(once=True, publication="q", columns=hidden, hashSaltFile=str(salt))
    reasons = dict(line.split(": ", 1) for line in done.failed())
    assert set(reasons) == {f"public.k{n}" for n in range(len(types))}
    for n, why in enumerate(types.values()):
        assert f"equal values of {why}" in reasons[f"public.k{n}"], reasons

    wrong = {"e0": {"excludeColumns": ["k"]}}
    done = replicate(once=True, publication="q", columns=wrong, excludeTables="k*")
    (reason,) = done.failed()
    assert "names the column 'k', which is in the key" in reason
    with pytest.raises(Exception, match=r"excludeColumns\.nothing names no table"):
        replicate(
            once=True,
            publication="q",
            slot="another",
            checkpoint=str(job.folder / "another"),
            columns={"nothing": {"excludeColumns": ["k"]}},
        )


@pytest.mark.parametrize("target", ["iceberg"])
def test_the_command_shows_neither_values_nor_the_salt(
    server: Server, tmp_path: Path, target: str
) -> None:
    job = LakeJob(tmp_path, server, target, publication="p")
    (tmp_path / "events").mkdir()
    settings = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": str(tmp_path / "events"),
        "spark.log.level": "INFO",
    }
    arguments = [
        *("--once", "--exclude-column", "users.ssn", "--hash-column", "public.users.email"),
        *("--hash-column", "users.note", "--hash-column", "users.score"),
        *("--hash-column", "accounts.email", "--option", "excludeTables=pairs,log"),
        *("--option", "hashSaltVariable=MY_SALT"),
    ]
    environment = {"PGPASSWORD": server.password, "MY_SALT": SALT}
    for changes in ("", CHANGES):
        if changes:
            server.execute(changes)
        with job.running(*arguments, settings=settings, environment=environment) as process:
            output, _ = process.communicate(timeout=300)
        assert process.returncode == 0, output + errors_of(tmp_path)
        assert PLAIN not in output
        assert "salt-marker" not in output
    assert_nowhere(tmp_path)


@pytest.mark.parametrize(
    ("statement", "shown"),
    [
        ("ALTER TABLE late RENAME ssn TO social; ALTER TABLE late ADD ssn text", "'social' now"),
        ("ALTER TABLE late RENAME TO later", "has the name public.later now"),
    ],
)
def test_a_column_that_is_renamed_before_the_first_copy_never_shows(
    statement: str, shown: str, server: Server, job: LakeJob, replicate: Replicate
) -> None:
    server.execute(
        "CREATE TABLE late (id int PRIMARY KEY, ssn text); INSERT INTO late VALUES (1, m(1));"
        "CREATE PUBLICATION of_late FOR TABLE late"
    )
    columns = {"public.late": {"excludeColumns": ["ssn", "snn"]}}
    (reason,) = replicate(once=True, publication="of_late", columns=columns).failed()
    assert "names the column 'snn'" in reason
    server.execute(statement)
    columns["public.late"]["excludeColumns"] = ["ssn"]
    (reason,) = replicate(once=True, publication="of_late", columns=columns).failed()
    assert shown in reason
    assert_nowhere(job.folder)
