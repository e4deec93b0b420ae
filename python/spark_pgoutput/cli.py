"""The command `spark-pgoutput`."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence

import spark_pgoutput
from spark_pgoutput import checkpoint_commands, config_arguments, job_status, replicate_command
from spark_pgoutput.password import refuse, url_without_password
from spark_pgoutput.spark_submit import submit


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
    given = sys.argv[1:] if arguments is None else arguments
    options = parse(given)
    if options.command == "jar-path":
        print(spark_pgoutput.jar_path())
        return 0
    _prepare_stdout(options)
    if options.command == "replicate" and options.print_config:
        print(config_arguments.printed(options), end="")
        return 0
    if options.command == "status" and not checkpoint_commands.needs_spark(options):
        sys.exit(job_status.run(options))
    if options.command != "demo":
        submit(options, given)
    from spark_pgoutput import demo

    return demo.run(options)


def _prepare_stdout(options: argparse.Namespace) -> None:
    """Let names of tables be printed that the locale has no characters for."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        if getattr(options, "prometheus", False) or getattr(options, "print_config", False):
            sys.stdout.reconfigure(encoding="utf-8")  # as readers of these formats expect
        sys.stdout.reconfigure(errors="backslashreplace")


def parse(given: Sequence[str]) -> argparse.Namespace:
    """Read the command's arguments."""
    parser, commands = _parser()
    if given and given[0] in config_arguments.COMMANDS:
        config_arguments.take_file(commands[given[0]], given[0], given[1:])
    options, unknown = parser.parse_known_args(given)
    command = commands[options.command]  # whose errors begin with its own usage
    if unknown:
        command.error(f"unrecognized arguments: {' '.join(unknown)}")
    checkpoint_commands.check(command, options)
    if options.command == "demo" and options.url is None:
        for name in ("user", "slot", "publication"):
            if getattr(options, name):
                command.error(f"--{name} goes with --url")
    return options


def _parser() -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    """Return the parser, and those of the commands."""
    parser = argparse.ArgumentParser(
        prog="spark-pgoutput", description="Read PostgreSQL's logical replication with Spark."
    )
    parser.add_argument(
        "--version", action="version", version=f"%(prog)s {spark_pgoutput.__version__}"
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    commands.add_parser(
        "jar-path", help="print the path of the JAR, for spark-submit --jars and spark-sql --jars"
    )
    _add_demo(commands)
    replicate_command.add_parser(commands)
    checkpoint_commands.add_parsers(commands)
    config_arguments.add_arguments(commands)
    for command in commands.choices.values():
        # Otherwise, --password is an abbreviation of --password-file.
        command.allow_abbrev = False
    return parser, commands.choices


def _add_demo(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    demo = commands.add_parser(
        "demo",
        help="read a replication slot of a PostgreSQL server",
        description="Read a logical replication slot with Spark, step by step. "
        "Without --url, the demo starts a temporary PostgreSQL server and stops it at the end. "
        "With --url, it reads a slot of your own server, in a batch that leaves the slot as it is.",
    )
    demo.add_argument(
        "--url", type=url_without_password, help="your server: jdbc:postgresql://host:port/database"
    )
    demo.add_argument(
        "--user",
        help="a role with REPLICATION; the demo takes its password from PGPASSWORD or asks for it",
    )
    refuse(demo)
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


if __name__ == "__main__":
    sys.exit(main())
