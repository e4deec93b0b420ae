"""The password of a command. There is no `--password`: all users see the arguments of a process."""

from __future__ import annotations

import argparse
import getpass
import os
import sys
from pathlib import Path
from urllib.parse import parse_qs

SEEN_BY_ALL = "each user of the machine sees the arguments of a command"


def add_arguments(group: argparse._ArgumentGroup, *, url_is_required: bool) -> None:
    """Add the arguments of the server, the role and its password."""
    group.add_argument(
        "--url",
        required=url_is_required,
        type=url_without_password,
        help="jdbc:postgresql://host:port/database",
    )
    group.add_argument("--user", help="the role that connects; by default, the one of the URL")
    group.add_argument("--password-file", type=Path, help="a file whose first line is the password")
    group.set_defaults(password_variable=None)
    refuse(group)


def refuse(group: argparse._ActionsContainer) -> None:
    """Refuse `--password`. Otherwise, the text "unrecognized arguments" would show the password."""
    group.add_argument("--password", action=_Refused, nargs="?", help=argparse.SUPPRESS)


def variables(arguments: argparse.Namespace) -> dict[str, str]:
    """Return the variables of the environment that give another process the password.

    A command that does not connect to a server needs none.
    """
    if getattr(arguments, "url", None) is None:
        return {}
    if arguments.password_file is not None:
        try:
            return {"PGPASSWORD": first_line(arguments.password_file)}
        except ValueError as error:
            sys.exit(str(error))
    if arguments.password_variable is not None:
        return {"PGPASSWORD": os.environ[arguments.password_variable]}
    if "PGPASSWORD" in os.environ:
        return {}
    pgpass = Path(os.environ.get("PGPASSFILE") or Path.home() / ".pgpass")
    if pgpass.is_file():
        # The JDBC driver reads the file. By itself, it ignores HOME.
        return {"PGPASSFILE": str(pgpass)}
    password = ask(arguments.user)
    return {} if password is None else {"PGPASSWORD": password}


def url_without_password(url: str) -> str:
    """Return the argument `--url` unchanged. Refuse a URL that has a password."""
    if not url.startswith("jdbc:postgresql:"):
        raise argparse.ArgumentTypeError("the URL must begin with jdbc:postgresql:")
    if has_password(url):
        raise argparse.ArgumentTypeError(
            f"the URL has a password, but {SEEN_BY_ALL}. Give it in the variable PGPASSWORD"
        )
    if has_password(url, "sslpassword"):
        raise argparse.ArgumentTypeError(
            f"the URL has the parameter sslpassword, but {SEEN_BY_ALL}. Use a key without a "
            "password, in a file that only you can read"
        )
    return url


def has_password(url: str, parameter: str = "password") -> bool:
    """Return whether a JDBC URL has a parameter with a password."""
    return parameter in parse_qs(url.partition("?")[2], keep_blank_values=True)


def ask(user: str | None) -> str | None:
    """Ask for the password of a role. None if there is no terminal, or nothing was typed."""
    if sys.stdin is None or not sys.stdin.isatty():  # None if the user has closed it
        return None
    try:
        return getpass.getpass(f"Password of {user or 'the role'} (Enter for none): ") or None
    except EOFError:  # Ctrl+D
        return None


class _Refused(argparse.Action):
    """Ends the command, and shows nothing of the argument's value."""

    def __call__(self, parser: argparse.ArgumentParser, *rest: object, **named: object) -> None:
        parser.error(
            f"there is no --password, because {SEEN_BY_ALL}. Give the password in the variable "
            "PGPASSWORD"
        )


def first_line(file: Path) -> str:
    """Return the password, which is the first line of a file."""
    try:
        with file.open(encoding="utf-8") as lines:
            return lines.readline().rstrip("\r\n")
    except (OSError, UnicodeError) as error:
        raise ValueError(f"The file of --password-file cannot be read. {error}") from None
