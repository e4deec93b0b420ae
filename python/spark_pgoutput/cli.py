"""The command `spark-pgoutput`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import spark_pgoutput
from spark_pgoutput import replicate_command, target_commands


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Parameters
    ----------
    arguments : sequence of str, optional
        The command's arguments; by default, the arguments of the process.

    Returns
    -------
    int
        The exit status of the process.
    """
    options = parse(arguments)
    if options.command == "jar-path":
        print(spark_pgoutput.jar_path())
        return 0
    given = sys.argv[1:] if arguments is None else list(arguments)
    if options.command == "replicate":
        replicate_command.run(options, given)
    if options.command in ("resync", "status", "verify", "adopt"):
        target_commands.run(options, given)
    from spark_pgoutput import demo

    return demo.run(
        url=options.url,
        user=options.user,
        slot=options.slot,
        publications=options.publication,
        limit=options.limit,
    )


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command's arguments; by default, those of the process."""
    parser = _parser()
    options = parser.parse_args(arguments)
    target_commands.check(parser, options)
    return options


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="spark-pgoutput",
        description="Read PostgreSQL's logical replication with Spark.",
    )
    parser.add_argument(
        "--version", action="version", version=f"%(prog)s {spark_pgoutput.__version__}"
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    commands.add_parser(
        "jar-path", help="print the path of the JAR, for spark-submit --jars and spark-sql --jars"
    )
    demo = commands.add_parser(
        "demo",
        help="read a replication slot of a PostgreSQL server",
        description="Read a logical replication slot with Spark, step by step. "
        "Without --url, the demo starts a temporary PostgreSQL server and stops it at the end. "
        "With --url, it reads a slot of your own server, in a batch that leaves the slot as it is.",
    )
    demo.add_argument("--url", help="your server: jdbc:postgresql://host:port/database")
    demo.add_argument(
        "--user",
        help="a role with REPLICATION; the demo takes its password from PGPASSWORD or asks for it",
    )
    demo.add_argument("--slot", help="a logical replication slot with the plugin pgoutput")
    demo.add_argument(
        "--publication",
        action="append",
        default=[],
        help="a publication to read; repeat the option for more",
    )
    demo.add_argument(
        "--limit",
        type=int,
        default=100_000,
        help="read at most this many messages (default: %(default)s)",
    )
    replicate_command.add_arguments(
        commands.add_parser(
            "replicate",
            help="keep tables of Delta or Iceberg equal to those of a server",
            description="Copy the tables of publications into Delta or Iceberg, and apply each "
            "transaction. If you end the command at any point and start it again, it goes on. "
            "The password comes from PGPASSWORD, a pgpass file, --password-file or a prompt.",
        )
    )
    target_commands.add_resync_arguments(
        commands.add_parser(
            "resync",
            help="copy tables of a job again",
            description="Ask the job that writes a target to copy tables again, while its stream "
            "goes on. Readers keep the old rows until one commit replaces them.",
        )
    )
    target_commands.add_adopt_arguments(
        commands.add_parser(
            "adopt",
            help="let a job go on with a server after pg_upgrade",
            description="Let the job of a target continue with a server that pg_upgrade has made, "
            "and with the slot of the job. If the command cannot prove that no change is missing, "
            "it changes nothing. Use resync --all then.",
        )
    )
    target_commands.add_status_arguments(
        commands.add_parser(
            "status",
            help="show what the tables of a job have",
            description="Show the tables of a target, and with --url and --slot, the slot too.",
        )
    )
    target_commands.add_verify_arguments(
        commands.add_parser(
            "verify",
            help="compare the tables of a job with those of the server",
            description="Ask the job that writes a target to compare its tables with those of the "
            "server, both as of one LSN, while its stream goes on. The exit status is 0 if all "
            "tables are equal, 4 if a table differs, and else 3 if a table was skipped.",
        )
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
