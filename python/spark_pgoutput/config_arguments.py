"""The arguments `--config` and `--print-config`, which read and write a file with arguments."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path

from spark_pgoutput import config_file
from spark_pgoutput.config_file import ConfigFile
from spark_pgoutput.replicate_command import argument_values, job_options
from spark_pgoutput.spark_defaults import spark_default

COMMANDS = ("replicate", "status", "resync", "verify", "adopt")

_MASTER = {"master": "spark.master", "packages": "spark.jars.packages"}


def add_arguments(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the arguments to the commands."""
    for name in COMMANDS:
        group = commands.choices[name].add_argument_group("the config file")
        group.add_argument(
            "--config",
            type=Path,
            help="a YAML file with options of the job; other arguments of the command win",
        )
        if name == "replicate":
            group.add_argument(
                "--print-config",
                action="store_true",
                help="print the arguments as such a file, and end",
            )


def take_file(parser: argparse.ArgumentParser, command: str, given: Sequence[str]) -> None:
    """Make what a file says the defaults of a command.

    Parameters
    ----------
    parser : argparse.ArgumentParser
        The parser of the command.
    command : str
        The name of the command.
    given : sequence of str
        The arguments of the command.
    """
    scan = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for name in ("--config", "--target", "--checkpoint", "--status-file", "--url"):
        scan.add_argument(name, nargs="?")
    for name in ("--once", "--check", "--prometheus"):
        scan.add_argument(name, action="store_true")
    for name in ("--conf", "--properties-file"):
        scan.add_argument(name, nargs="?", action="append", default=[])
    found, _ = scan.parse_known_args(given)
    if found.config is None:
        return
    try:
        file = _without(config_file.read(found.config), found)
    except ValueError as error:
        parser.error(str(error))
    values = argument_values(file)
    names = _names(command, found, set(values)) | {"conf", "properties_file", "secrets"}
    names &= {action.dest for action in parser._actions} | {"secrets", "password_variable"}
    parser.set_defaults(**{name: value for name, value in values.items() if name in names})
    for action in parser._actions:
        if action.dest in names & set(values):
            action.required = False
    for group in parser._mutually_exclusive_groups:
        if any(action.dest in names & set(values) for action in group._group_actions):
            group.required = False


def _names(command: str, given: argparse.Namespace, values: set[str]) -> set[str]:
    """Return which arguments of a job a command takes from a file."""
    match command:
        case "verify" if given.once:
            return values - {"once"}
        case "verify":
            return {"checkpoint"}  # the job of this checkpoint knows the rest
        case "resync":
            # The checkpoint can be lost. The target is then in its place.
            return {"format", "slot"} if given.target else {"checkpoint"}
        case "status" if given.status_file:
            return set()
        case "status" if given.check or given.prometheus:  # these start no Spark
            has_file = "status_file" in values and not given.checkpoint
            return {"status_file"} if has_file else {"checkpoint"}
        case "status" if given.url or "url" in values:
            return values - {"status_file"}
        case "status":
            return {"checkpoint"}  # without a URL, it asks no server
        case _:
            return values


def _without(file: ConfigFile, given: argparse.Namespace) -> ConfigFile:
    """Return a file without the settings of Spark that the command line has."""
    named = {conf.partition("=")[0] for conf in given.conf if conf}
    if any(given.properties_file):
        properties = Path(given.properties_file[-1])
        settings = {*file.spark, *file.secrets}
        named |= {name for name in settings if spark_default(name, properties) is not None}
    return file._replace(
        spark={name: value for name, value in file.spark.items() if name not in named},
        secrets={name: value for name, value in file.secrets.items() if name not in named},
    )


def printed(arguments: argparse.Namespace) -> str:
    """Return the file that says the same as the arguments of `replicate`."""
    settings = dict(conf.split("=", 1) for conf in arguments.conf if "=" in conf)
    for name, setting in _MASTER.items():
        if values := getattr(arguments, name):
            settings[setting] = values[-1]
    if arguments.jars:
        settings["spark.jars"] = arguments.jars
    secrets = {
        name: arguments.secrets.get(name) or re.sub(r"\W", "_", name).upper()
        for name in {**settings, **arguments.secrets}
        if config_file.is_secret(name)
    }
    return config_file.text(
        ConfigFile(
            job_options(arguments),
            {name: value for name, value in settings.items() if name not in secrets},
            secrets,
            None if arguments.password_file else arguments.password_variable,
            arguments.password_file,
            Path(arguments.properties_file[-1]) if arguments.properties_file else None,
        )
    )
