"""A server that pg_upgrade makes from another one."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spark_pgoutput.demo.server import PostgresServer
from support.servers import Server

# pg_upgrade runs these two programs to look at the old server's data, and the package of 17 lacks
# them. The pg_controldata of 18 reads the file of 17, and prints what pg_resetwal would print.
_CONTROL_DATA = """#!/bin/sh
exec "{bin}/pg_controldata" "$@" 2>/dev/null
"""
_RESET_WAL = """#!/bin/sh
[ "$1" = -n ] || exec "{bin}/pg_resetwal" "$@"
"{bin}/pg_controldata" "$2" 2>/dev/null
last=$(ls "$2/pg_wal" | grep -E '^[0-9A-F]{{24}}$' | sort | tail -n 1)
end=${{last#????????????????}}
printf 'First log segment after reset: %s%08X\\n' "${{last%"$end"}}" $((0x$end + 1))
"""


class Server16(Server):
    """A server of PostgreSQL 16 from the package of the demo, which has all programs."""

    def __init__(self) -> None:
        super().__init__(16)
        self.bin = PostgresServer().bin.parents[1] / "pginstall" / "bin"


@contextmanager
def upgraded(old: Server) -> Iterator[Server]:
    """Stop a server, and start the newest version on what pg_upgrade makes of its data."""
    with Server() as new:
        for server in (old, new):
            server.stop_fast()
        data = new.folder / "data-upgraded"
        checksums = "--data-checksums" if old.version == new.version else "--no-data-checksums"
        options = ["--username", new.user, "--encoding=UTF8", "--no-locale", "--no-sync", checksums]
        _run(new, "initdb", "--pgdata", data, *options)
        with (data / "postgresql.conf").open("a") as file:
            file.write((new.folder / "settings").read_text())
        _run(
            new,
            "pg_upgrade",
            *("--old-bindir", _programs(old), "--new-bindir", new.bin, "--username", new.user),
            *("--old-datadir", old.folder / "data", "--new-datadir", data),
            *("--old-port", str(old.port), "--new-port", str(new.port)),
            *("--socketdir", new.folder, "--no-sync"),
            password=old.password,
        )
        new.password = old.password
        new._data = data.name
        new.start_again()
        yield new


def _programs(old: Server) -> Path:
    """Return the folder of an old server's programs, with all that pg_upgrade needs."""
    if (old.bin / "pg_controldata").exists():
        return old.bin
    folder = old.folder / "bin"
    if folder.exists():
        return folder
    folder.mkdir()
    for name in ("postgres", "pg_ctl", "initdb"):
        (folder / name).symlink_to(old.bin / name)
    for name, script in (("pg_controldata", _CONTROL_DATA), ("pg_resetwal", _RESET_WAL)):
        (folder / name).write_text(script.format(bin=PostgresServer().bin))
        (folder / name).chmod(0o755)
    folder.chmod(0o755)
    return folder


def _run(server: Server, program: str, *arguments: str | Path, password: str = "") -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PG")}
    account = server._account
    ended = subprocess.run(
        [server.bin / program, *arguments],
        cwd=server.folder,
        env={**environment, "PGPASSWORD": password},
        user=account.pw_uid if account else None,
        group=account.pw_gid if account else None,
        extra_groups=[] if account else None,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, f"{ended.stdout[-2000:]}{ended.stderr[-2000:]}"
