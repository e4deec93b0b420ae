"""The demo in a process of its own: its output, and that it leaves nothing behind."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pyspark
import pytest
from psycopg import sql
from pyspark.sql import SparkSession

from spark_pgoutput import cli
from spark_pgoutput.demo import main
from spark_pgoutput.demo.errors import DemoError
from spark_pgoutput.demo.server import PostgresServer
from spark_pgoutput.demo.session import DELTA_SPARKS, SETTINGS, has_delta
from spark_pgoutput.demo.slot import DemoSlot, source_errors
from spark_pgoutput.demo.workload import CHANGES, PUBLICATION, SLOT, run
from support.class_archive import SHORT_LIVED_JVM
from support.processes import accepts_connections
from support.servers import wait_until

DEMO = [sys.executable, "-m", "spark_pgoutput.cli", "demo"]

TYPES = ["BEGIN", "COMMIT", "ORIGIN", "RELATION", "TYPE", "INSERT", "UPDATE", "DELETE", "TRUNCATE"]


# The settings of the demo's session that a session of the tests can have.
FEW_ROWS = {name: value for name, value in SETTINGS.items() if name.startswith("spark.sql.")}


@pytest.fixture(autouse=True)
def short_lived_jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", SHORT_LIVED_JVM)


@pytest.fixture
def temporary_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder for temporary files of Python processes.

    It is not tmp_path, because a server that root starts runs as a user who cannot reach that.
    """
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o1777)
        monkeypatch.setenv("TMPDIR", folder)
        yield Path(folder)


@pytest.mark.demo
def test_reads_messages_and_a_stream_and_leaves_nothing_behind(
    temporary_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_REMOTE", "sc://localhost")  # which commands do not use
    demo = subprocess.run(DEMO, capture_output=True, text=True, timeout=600, check=False)
    output = demo.stdout
    assert (demo.returncode, demo.stderr) == (0, "")

    counts = dict(re.findall(r"^ +([A-Z_]+) +(\d+) +\d+ +\d+ *$", output, flags=re.MULTILINE))
    assert sorted(counts) == sorted(TYPES)
    assert int(counts["INSERT"]) == 2008

    assert '.options(**slot, output="messages")' in output
    assert "pgoutput_decode(data, false)" in output
    assert "public.customers  d         id*, name, email, picture" in output
    assert "new: id=1, name=Ada, email=NULL," in output
    assert "picture=<unchanged TOAST>" in output
    assert "key: id=2\n" in re.sub(" +\n", "\n", output)
    assert "old: id=1, customer_id=1, status=new" in output
    assert "DECIMAL(10,2) COMMENT 'numeric(10,2)'" in " ".join(output.split())
    assert "`placed_at` timestamp'" in output
    assert re.search(r"^ +\d+ +INSERT +1 +1 +new +12\.50 +20\d\d-", output, flags=re.MULTILINE)

    written, written_later = re.findall(r"^It has written (\d+) changes\.", output, re.MULTILINE)
    assert (written, written_later) == ("2018", "4")
    confirmed = re.findall(r"confirmed up to (\w+/\w+)\.", output)
    assert len(set(confirmed)) == 2
    assert re.search(r"^ public.customers +update_preimage +1 +1 *$", output, flags=re.MULTILINE)
    assert "missing: picture" in output
    assert re.search(r"^ public.customers +1 +4 +4 +4 *$", output, flags=re.MULTILINE)
    assert re.search(r"^ public.orders +3 +15 +15 +15 *$", output, flags=re.MULTILINE)
    assert "The rebuilt tables equal the server's tables." in output
    if has_delta():
        assert "The demo has killed the job with SIGKILL." in output
        assert re.search(r"^ public.customers +2 +8 +8 +8 *$", output, flags=re.MULTILINE)
        assert "The lake tables equal the server's tables." in output
    else:
        assert f"Delta does not run on Spark {pyspark.__version__}." in output

    assert "\x1b" not in output
    assert max(len(line.rstrip()) for line in output.splitlines()) <= 80
    assert list(temporary_folder.iterdir()) == []


def test_shows_a_slot_of_another_server_and_does_not_change_it(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own_session = spark.newSession()  # its views are its own
    for name, value in FEW_ROWS.items():
        own_session.conf.set(name, value)

    def session(log: Path, *, writes_delta: bool) -> contextlib.nullcontext[SparkSession]:
        assert not writes_delta  # which would download Delta
        return contextlib.nullcontext(own_session)

    monkeypatch.setattr(main, "spark_session", session)
    with PostgresServer() as server:
        for _ in run(CHANGES, server.conninfo):
            pass
        with psycopg.connect(server.conninfo, autocommit=True) as connection:
            publication = 'It\'s "odd"'
            for statement in (
                "CREATE ROLE reader LOGIN REPLICATION PASSWORD 'O''Neill'",
                sql.SQL("CREATE PUBLICATION {} FOR TABLE customers").format(
                    sql.Identifier(publication)
                ),
                "SELECT pg_create_logical_replication_slot('reader', 'pgoutput')",
                "INSERT INTO customers VALUES (5, E'\\x1b[31mBarbara', 'b', 'c')",
            ):
                connection.execute(statement)
            before = _slots(connection)
            monkeypatch.setenv("PGPASSWORD", "O'Neill")
            publications = [publication, PUBLICATION]
            main.demonstrate_server(server.jdbc_url, "reader", "reader", publications, limit=1000)
            output = capsys.readouterr().out
            assert re.search(r"^ public.customers +insert +1 +1 *$", output, re.MULTILINE)
            assert "new: id=5, name=\\x1b[31mBarbara, email=b," in output
            assert "O'Neill" not in output
            assert _slots(connection) == before
            left = "SELECT count(*) FROM pg_logical_slot_peek_binary_changes(%s, NULL, NULL, "
            left += "'proto_version', '4', 'publication_names', %s)"
            assert connection.execute(left, ("reader", PUBLICATION)).fetchone() == (4,)


def test_delta_runs_on_the_sparks_that_the_jar_names(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    delta = getattr(getattr(jvm.io.sparkpgoutput.lake.target, "LakeFormat$Delta$"), "MODULE$")
    assert delta.sparks().mkString(" ") == " ".join(DELTA_SPARKS)


def test_arguments_of_a_slot_need_the_url_of_a_server(capsys: pytest.CaptureFixture[str]) -> None:
    for argument in ("--slot", "--publication", "--user"):
        with pytest.raises(SystemExit):
            cli.parse(["demo", argument, "mine"])
        assert f"{argument} goes with --url" in capsys.readouterr().err


def _slots(connection: psycopg.Connection[tuple[object, ...]]) -> list[tuple[object, ...]]:
    return connection.execute(
        "SELECT slot_name, two_phase, restart_lsn, confirmed_flush_lsn, catalog_xmin "
        "FROM pg_replication_slots ORDER BY slot_name"
    ).fetchall()


@pytest.mark.takes_long
@pytest.mark.parametrize(
    ("sign", "ending", "status"),
    [
        ("PostgreSQL 18 is running", signal.SIGKILL, -9),
        ("PostgreSQL 18 is running", signal.SIGTERM, 143),
        pytest.param("PostgreSQL 18 is running", signal.SIGINT, 130, marks=pytest.mark.exhaustive),
        pytest.param("From PostgreSQL to Spark", signal.SIGTERM, 143, marks=pytest.mark.exhaustive),
    ],
)
def test_ends_its_processes_when_interrupted(
    temporary_folder: Path, sign: str, ending: signal.Signals, status: int
) -> None:
    with subprocess.Popen(DEMO, stdout=subprocess.PIPE, text=True) as demo:
        assert demo.stdout
        assert any(sign in line for line in demo.stdout)
        time.sleep(1)  # into the start of Spark's JVM, or into its first query
        (pid_file,) = temporary_folder.glob("*/data/postmaster.pid")
        port = int(pid_file.read_text().splitlines()[3])
        assert accepts_connections(port)
        processes = psutil.Process(demo.pid).children(recursive=True)
        assert len(processes) >= 2  # the server's guard, and Spark
        demo.send_signal(ending)
        demo.stdout.read()
        assert demo.wait(timeout=60) == status
    wait_until(lambda: not accepts_connections(port), 15)
    wait_until(lambda: not any(_is_alive(process) for process in processes), 15)
    wait_until(lambda: not list(temporary_folder.glob("*postgres*")), 15)
    if ending != signal.SIGKILL:
        assert list(temporary_folder.iterdir()) == []


def test_the_servers_data_and_processes_go_when_it_stops(temporary_folder: Path) -> None:
    with PostgresServer({"max_connections": "7"}) as server:
        with psycopg.connect(server.conninfo) as connection:
            assert connection.execute("SHOW wal_level").fetchone() == ("logical",)
            assert connection.execute("SHOW max_connections").fetchone() == ("7",)
        wrong = server.conninfo.replace(server.password, "guess")
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(wrong)
    assert not accepts_connections(server.port)
    server.stop()  # a second call does no harm
    assert not list(temporary_folder.glob("*postgres*"))


def test_a_server_that_does_not_start_says_why() -> None:
    with pytest.raises(DemoError, match="wal_levle"), PostgresServer({"wal_levle": "logical"}):
        pass


def test_errors_of_the_source_are_those_of_the_demo() -> None:
    with pytest.raises(DemoError) as raised, source_errors():
        raise RuntimeError(
            "[PGOUTPUT_SLOT_NOT_FOUND] The server has no slot. SQLSTATE: 42704\n\tat"
        )
    assert str(raised.value) == "The server has no slot."
    with pytest.raises(ZeroDivisionError), source_errors():
        _ = 1 / 0


def test_options_of_a_slot_lack_what_is_not_given() -> None:
    slot = DemoSlot("jdbc:postgresql://h/d", SLOT, [PUBLICATION, "other"], password="secret")
    assert "secret" not in repr(slot)
    assert slot.options == {
        "url": "jdbc:postgresql://h/d",
        "password": "secret",
        "slot": SLOT,
        "publication": "shop,other",
    }


def _is_alive(process: psutil.Process) -> bool:
    try:
        # Some containers have no init process, so an ended process can stay as a zombie.
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
