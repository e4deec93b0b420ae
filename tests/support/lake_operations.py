"""Tables of a server, and how a test backs up the server and restores it."""

from __future__ import annotations

import shutil
import subprocess

from spark_pgoutput.replication import Replication
from support.servers import Server

TABLES = {table: table for table in ("orders", "seats", "readings")}
SETUP = """
CREATE TABLE orders (id int PRIMARY KEY, v text);
CREATE TABLE seats (id int PRIMARY KEY, v text);
CREATE TABLE readings (x int, y text);
ALTER TABLE readings REPLICA IDENTITY FULL;
INSERT INTO orders SELECT g, 'a' FROM generate_series(1, 50) g;
INSERT INTO seats SELECT g, 'a' FROM generate_series(1, 50) g;
INSERT INTO readings SELECT g % 10, 'a' FROM generate_series(1, 50) g;
CREATE PUBLICATION shop FOR TABLE orders, seats, readings;
"""


def write(server: Server, value: str) -> None:
    """Change all tables. If a job applies a change twice or not at all, a comparison finds it."""
    server.execute(
        f"UPDATE orders SET v = '{value}' WHERE id % 3 = 0; DELETE FROM orders WHERE id % 7 = 6;"
        f"INSERT INTO seats SELECT max(id) + 1, '{value}' FROM seats;"
        f"INSERT INTO readings VALUES (3, 'a'), (3, '{value}');"
        "DELETE FROM readings WHERE ctid = (SELECT min(ctid) FROM readings)"
    )


def back_up(server: Server) -> None:
    """Take a copy of the server's files while it is stopped."""
    server.stop_fast()
    _copy(server, "data", "backup")
    server.start_again()


def restore(server: Server) -> None:
    """Replace the server's files by the copy."""
    server.stop_fast()
    shutil.rmtree(server.folder / "data")
    _copy(server, "backup", "data")
    server.start_again()


def _copy(server: Server, source: str, copy: str) -> None:
    folders = server.folder / source, server.folder / copy
    subprocess.run(["cp", "--archive", *folders], check=True)


def copied(job: Replication) -> int:
    """Return how many tables a job has copied. The job must have ended without an error."""
    report = job.report()
    print("\n".join(report))
    assert job.exit_code == 0
    return sum(line.startswith("Copied") for line in report)
