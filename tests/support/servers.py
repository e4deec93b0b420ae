"""PostgreSQL servers of each version that a test stops, kills, starts again and replaces."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypedDict, TypeVar

import psutil
import psycopg
import pytest
from psycopg import sql

from spark_pgoutput.demo.server import PostgresServer
from support.postgres_binaries import NEWEST, VERSIONS, binaries
from support.processes import free_port

Connection = psycopg.Connection[Any]

Held = TypeVar("Held")

TIMEOUT = 60.0


class Account(TypedDict):
    """Where a server is and who connects, as the source and `replicate` name it."""

    url: str
    user: str
    password: str


class Server(PostgresServer):
    """A server that ends and starts again while its data stays.

    Parameters
    ----------
    version : int
        The major version of PostgreSQL.
    settings : mapping of str to str, optional
        Settings of the server, in addition to the settings that logical decoding needs.
    """

    _data = "data"

    def __init__(self, version: int = NEWEST, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(settings, binaries(version))
        self.version = version

    def __enter__(self) -> Server:
        super().__enter__()
        return self

    @property
    def account(self) -> Account:
        """The server and its superuser, as options."""
        return {"url": self.jdbc_url, "user": self.user, "password": self.password}

    @property
    def folder(self) -> Path:
        """The folder of everything that belongs to the server."""
        assert self._folder, "the server is not started"
        return self._folder

    @property
    def log(self) -> str:
        """What the server has written to its logs since its first start."""
        return "".join(path.read_text(errors="replace") for path in self.folder.glob("log*"))

    @property
    def postmaster(self) -> int:
        """The process id of the server's first process."""
        return int((self.folder / self._data / "postmaster.pid").read_text().split("\n")[0])

    def connect(self, database: str = PostgresServer.database) -> Connection:
        """Connect to a database. Each statement is a transaction unless a test begins one."""
        return psycopg.connect(self.conninfo, dbname=database, autocommit=True)

    @contextmanager
    def open_transaction(self) -> Iterator[Connection]:
        """Give a connection with an open transaction that has an xid."""
        with self.connect() as connection:
            connection.execute("BEGIN")
            connection.execute("SELECT txid_current()")
            yield connection

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        """Execute statements on a connection of their own, and return the rows of the last one."""
        with self.connect() as connection:
            cursor = connection.execute(statement.encode())
            while cursor.nextset():
                pass
            return cursor.fetchall() if cursor.description else []

    def value(self, query: str) -> Any:  # noqa: ANN401 - a value of any type
        """Return the one value of a query."""
        ((value,),) = self.execute(query)
        return value

    def confirmed(self, slot: str) -> int:
        """Return the LSN that the reader of a slot has confirmed."""
        lsn = "SELECT confirmed_flush_lsn - '0/0' FROM pg_replication_slots"
        return int(self.value(f"{lsn} WHERE slot_name = '{slot}'"))

    def wal_end(self) -> int:
        """Return the LSN up to which the server has written its WAL to disk."""
        return int(self.value("SELECT pg_current_wal_flush_lsn() - '0/0'"))

    def create_slot(self, name: str, arguments: str = "") -> None:
        """Make a slot of pgoutput. The other arguments of the function begin with a comma."""
        self.execute(f"SELECT pg_create_logical_replication_slot('{name}', 'pgoutput'{arguments})")

    def drop_slot(self, name: str) -> None:
        """Drop a slot. A task that a stopped query leaves behind can hold it for a moment."""

        def is_dropped() -> bool:
            try:
                self.execute(f"SELECT pg_drop_replication_slot('{name}')")
            except psycopg.errors.ObjectInUse:
                return False
            return True

        wait_until(is_dropped)

    def configure(self, **settings: str) -> None:
        """Change settings that need no restart. When this returns, new sessions have them."""
        with self.connect() as connection:
            loaded = "SELECT pg_conf_load_time()"
            before = connection.execute(loaded).fetchone()
            for name, value in settings.items():
                parts = sql.Identifier(name), sql.Literal(value)
                connection.execute(sql.SQL("ALTER SYSTEM SET {} = {}").format(*parts))
            connection.execute("SELECT pg_reload_conf()")
            wait_until(lambda: connection.execute(loaded).fetchone() != before)

    def stop_fast(self, timeout: float = TIMEOUT) -> None:
        """Stop the server as administrators do: it first sends all WAL to its walsenders."""
        self._pg_ctl("stop", "-w", "-t", str(int(timeout)), "-m", "fast")

    def stop_immediately(self) -> None:
        """Stop the server without a checkpoint, so that it recovers when it starts again."""
        self._pg_ctl("stop", "-w", "-m", "immediate")

    def kill(self) -> None:
        """Kill the postmaster with SIGKILL, and wait until its other processes have ended too."""
        postmaster = psutil.Process(self.postmaster)
        processes = [postmaster, *postmaster.children(recursive=True)]
        postmaster.kill()
        _, alive = psutil.wait_procs(processes, timeout=TIMEOUT)
        assert not alive, alive

    def crash(self, process: int) -> None:
        """Kill a backend with SIGKILL: the server ends all others, recovers and goes on."""
        with self.connect() as other:
            os.kill(process, signal.SIGKILL)
            wait_until(lambda: _is_broken(other))
        wait_until(self.accepts)

    def start_again(self) -> None:
        """Start the server on the data that it has."""
        log = self.folder / f"log-{self._data}"
        self._pg_ctl("start", "-w", "-t", str(int(TIMEOUT)), "-l", str(log))

    def accepts(self) -> bool:
        """Return whether the server accepts connections."""
        try:
            self.connect().close()
        except psycopg.OperationalError:
            return False
        return True

    @contextmanager
    def standby(self) -> Iterator[Standby]:
        """Give a standby that streams from this server and, from 17 on, synchronizes slots."""
        standby = Standby(self)
        standby.start()
        try:
            yield standby
        finally:
            standby.stop()

    def _pg_ctl(self, *arguments: str) -> None:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PG")}
        ended = subprocess.run(
            [self.bin / "pg_ctl", *arguments, "-D", self.folder / self._data],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,  # the postmaster would keep a pipe open
            stderr=subprocess.DEVNULL,
            cwd=self.folder,
            env=environment,
            user=self._account.pw_uid if self._account else None,
            group=self._account.pw_gid if self._account else None,
            extra_groups=[] if self._account else None,
            start_new_session=True,
            check=False,
        )
        assert ended.returncode == 0, f"pg_ctl {' '.join(arguments)} failed"


class Standby(Server):
    """A standby whose data is a base backup in the folder of its primary."""

    _data = "data-standby"

    def __init__(self, primary: Server) -> None:
        super().__init__(primary.version)
        self.password = primary.password
        self.bin = primary.bin
        self._primary = primary

    def start(self) -> None:
        """Take a base backup, and start to stream from the primary."""
        self._folder = self._primary.folder
        self.port = free_port()
        data = self._folder / self._data
        # Only the demo's version has pg_basebackup, which can also back up older servers.
        backup: Sequence[str | Path] = [
            *(PostgresServer().bin / "pg_basebackup", "--pgdata", data, "--checkpoint=fast"),
            *("--create-slot", "--slot=standby", "--no-sync", "--dbname", self._primary.conninfo),
        ]
        taken = subprocess.run(backup, capture_output=True, text=True, check=False)
        assert taken.returncode == 0, taken.stderr
        (data / "standby.signal").touch()
        settings = {
            "port": str(self.port),
            "primary_conninfo": self._primary.conninfo,
            "primary_slot_name": "standby",
            "hot_standby_feedback": "on",
        }
        if self.version >= 17:
            settings["sync_replication_slots"] = "on"
        with (data / "postgresql.auto.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())
        if self._account:
            owner = f"{self._account.pw_uid}:{self._account.pw_gid}"
            subprocess.run(["chown", "-R", owner, data], check=True)
        self.start_again()

    def stop(self) -> None:
        """Stop the standby and remove its data."""
        if self._folder:
            if (self._folder / self._data / "postmaster.pid").exists():
                self.stop_immediately()
            shutil.rmtree(self._folder / self._data, ignore_errors=True)
            self._folder = None

    @property
    def url_of_primary(self) -> str:
        """The URL that names both servers, and leads to the one that is the primary."""
        hosts = f"{self._primary.host}:{self._primary.port},{self.host}:{self.port}"
        return f"jdbc:postgresql://{hosts}/{self.database}?targetServerType=primary"

    def catch_up(self) -> None:
        """Wait until the standby has all WAL of its primary."""
        lsn = self._primary.value("SELECT pg_current_wal_flush_lsn()")
        wait_until(lambda: self.value(f"SELECT pg_last_wal_replay_lsn() >= '{lsn}'"))

    def wait_for_slot(self, slot: str, moved: Callable[[], object]) -> None:
        """Wait until a slot is synchronized. `moved` moves the slot of the primary each time."""
        synchronized = (
            "SELECT count(*) FROM pg_replication_slots"
            f" WHERE slot_name = '{slot}' AND synced AND NOT temporary"
        )
        # While the slots do not advance, the standby looks at them every 30 seconds.
        wait_until(lambda: (moved(), self.value(synchronized))[1], 3 * TIMEOUT, pause=0.5)

    def promote(self) -> None:
        """Make the standby a primary, on a new timeline."""
        self._pg_ctl("promote", "-w")


def each_version(mark: pytest.MarkDecorator) -> list[object]:
    """Return the versions as parameters of a fixture. Tests of the older ones have the mark."""
    return [NEWEST, *(pytest.param(version, marks=mark) for version in VERSIONS[:-1])]


# `make test-lake` runs the older versions too.
EACH_VERSION = each_version(pytest.mark.lake)


def server_fixture(
    setup: str = "",
    scope: Literal["function", "module"] = "function",
    versions: Sequence[object] | None = None,
) -> Any:  # noqa: ANN401 - pytest has no public type for it
    """Return a fixture that gives a server, on which statements ran, to each test or to a module.

    Parameters
    ----------
    setup : str, optional
        The statements, which the server runs as one transaction.
    scope : str, optional
        ``module`` if the tests share the server.
    versions : sequence, optional
        The versions of PostgreSQL, for each of which the tests run. By default, the tests run with
        the newest one, and a test can give the fixture another one as its parameter.
    """

    @pytest.fixture(scope=scope, params=versions)
    def server(request: pytest.FixtureRequest) -> Iterator[Server]:
        with Server(getattr(request, "param", NEWEST)) as server:
            if setup:
                server.execute(setup)
            yield server

    return server


@contextmanager
def small_slot() -> Iterator[str]:
    """Give the options of a slot with ten inserts, as JSON, while its server runs."""
    with Server() as server:
        server.execute("CREATE TABLE t (id int PRIMARY KEY); CREATE PUBLICATION p FOR TABLE t")
        server.create_slot("s")
        server.execute("INSERT INTO t SELECT generate_series(1, 10)")
        yield json.dumps({**server.account, "slot": "s", "publication": "p"})


def wait_until(holds: Callable[[], Held], timeout: float = TIMEOUT, pause: float = 0.05) -> Held:
    """Wait until a function returns a true value, and return the value."""
    deadline = time.monotonic() + timeout
    while not (held := holds()):
        assert time.monotonic() < deadline, "the condition does not become true"
        time.sleep(pause)
    return held


def _is_broken(connection: Connection) -> bool:
    try:
        connection.execute("SELECT")
    except psycopg.OperationalError:
        return True
    return False
