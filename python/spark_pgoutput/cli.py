"""The command `spark-pgoutput`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Parameters
    ----------
    arguments : sequence of str, optional
        Without them, those of the process.

    Returns
    -------
    int
        The exit status of the process.
    """
    options = _parser().parse_args(arguments)
    if options.command == "jar-path":
        from spark_pgoutput import jar_path

        print(jar_path())
        return 0
    from spark_pgoutput import demo

    return demo.run(
        url=options.url,
        user=options.user,
        slot=options.slot,
        publications=options.publication,
        limit=options.limit,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="spark-pgoutput",
        description="Decode PostgreSQL's logical replication messages (pgoutput) in Spark SQL.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    commands.add_parser(
        "jar-path", help="print the path of the JAR, for spark-submit --jars and spark-sql --jars"
    )
    demo = commands.add_parser(
        "demo",
        help="read and decode a slot of a real PostgreSQL",
        description="Read a logical replication slot with Spark and decode it, step by step. "
        "Without --url: of a temporary PostgreSQL that the demo starts and stops. With --url: of "
        "your own server; the slot is only peeked at, and nothing is changed on it.",
    )
    demo.add_argument("--url", help="jdbc:postgresql://host:port/database")
    demo.add_argument(
        "--user", help="a role with REPLICATION; its password is PGPASSWORD, else asked for"
    )
    demo.add_argument("--slot", help="the logical replication slot, of the plugin pgoutput")
    demo.add_argument(
        "--publication", action="append", default=[], help="a publication; may be given repeatedly"
    )
    demo.add_argument(
        "--limit",
        type=int,
        default=100_000,
        help="read about this many changes of the slot (default: %(default)s)",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
