"""Where a command finds the password of its role."""

from __future__ import annotations

import getpass
import os
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from spark_pgoutput import cli, password
from spark_pgoutput.replication import java_options

URL = "jdbc:postgresql://localhost:5432/shop"
ACCOUNT = ["--url", URL, "--user", "lake"]
JOB = ["--slot", "lake", "--publication", "shop", "--checkpoint", "/data/checkpoint"]

# The commands that connect to a server.
COMMANDS = [
    ["demo", *ACCOUNT],
    ["replicate", *ACCOUNT, "--target", "/data/lake", *JOB],
    ["verify", *ACCOUNT, "--target", "/data/lake", *JOB, "--once"],
    ["status", *ACCOUNT, "--checkpoint", "/data/checkpoint", "--slot", "lake"],
    ["adopt", *ACCOUNT, *JOB, "--last-lsn", "0/1"],
]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give an empty home folder."""
    monkeypatch.delenv("PGPASSWORD", raising=False)
    monkeypatch.delenv("PGPASSFILE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


class Terminal:
    """What a user types at prompts."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.typed = "typed"
        self.is_there = True
        self.prompts: list[str] = []
        monkeypatch.setattr(sys.stdin, "isatty", lambda: self.is_there)
        monkeypatch.setattr(getpass, "getpass", self._prompt)

    def _prompt(self, text: str) -> str:
        self.prompts.append(text)
        return self.typed


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    return Terminal(monkeypatch)


def variables(*arguments: str, url: str = URL) -> dict[str, str]:
    """Return the variables of the environment that a command gives to spark-submit."""
    command = ["status", "--checkpoint", "/data/checkpoint", "--slot", "lake", "--user", "lake"]
    return password.variables(cli.parse([*command, "--url", url, *arguments]))


def test_the_first_place_that_has_a_password_wins(
    home: Path, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, named, default = home / "password", home / "named", home / ".pgpass"
    file.write_text("of the file\nanother line\n")
    named.touch()
    default.touch()
    monkeypatch.setenv("PGPASSWORD", "of the environment")
    monkeypatch.setenv("PGPASSFILE", str(named))
    assert variables("--password-file", str(file)) == {"PGPASSWORD": "of the file"}
    assert variables() == {}  # spark-submit inherits PGPASSWORD
    monkeypatch.delenv("PGPASSWORD")
    assert variables() == {"PGPASSFILE": str(named)}
    monkeypatch.delenv("PGPASSFILE")
    assert variables() == {"PGPASSFILE": str(default)}
    monkeypatch.setenv("PGPASSFILE", "")
    assert variables() == {"PGPASSFILE": str(default)}
    monkeypatch.delenv("PGPASSFILE")
    assert terminal.prompts == []
    default.unlink()
    assert variables() == {"PGPASSWORD": "typed"}
    assert terminal.prompts == ["Password of lake (Enter for none): "]


def test_a_pgpass_file_that_is_not_there_has_no_password(
    home: Path, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSFILE", str(home / "absent"))
    assert variables() == {"PGPASSWORD": "typed"}


def test_a_role_can_have_no_password(
    home: Path, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal.typed = ""
    assert variables() == {}
    terminal.is_there = False
    assert variables() == {}
    monkeypatch.setattr(sys, "stdin", None)
    assert variables() == {}
    assert len(terminal.prompts) == 1  # nobody is asked without a terminal
    empty = home / "password"
    empty.touch()
    assert variables("--password-file", str(empty)) == {"PGPASSWORD": ""}


def test_a_password_file_that_cannot_be_read_ends_the_command(
    home: Path, terminal: Terminal
) -> None:
    binary = home / "binary"
    binary.write_bytes(b"\xff\xfe")
    for file in (home / "absent", home, binary):
        with pytest.raises(SystemExit, match=r"^The file of --password-file cannot be read\. "):
            variables("--password-file", str(file))


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_no_argument_takes_the_password_itself(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Each user of the machine sees the arguments of a process."""
    cli.parse(command)
    for given in (["--password", "secret"], ["--password=secret"]):
        with pytest.raises(SystemExit) as ended:
            cli.parse([*command, *given])
        assert ended.value.code == 2
        shown = capsys.readouterr().err
        assert "error: there is no --password, because each user" in shown
        assert "secret" not in shown
    for option in ("--pass", "--password-f"):
        with pytest.raises(SystemExit) as ended:
            cli.parse([*command, option, "value"])
        assert ended.value.code == 2
        assert f"unrecognized arguments: {option}" in capsys.readouterr().err
    url = command.index(URL)
    for parameters, what in (
        ("password=secret", "a password"),
        ("sslmode=require&password=secret", "a password"),
        ("sslpassword=secret", "the parameter sslpassword"),
    ):
        with pytest.raises(SystemExit) as ended:
            cli.parse([*command[:url], f"{URL}?{parameters}", *command[url + 1 :]])
        assert ended.value.code == 2
        shown = capsys.readouterr().err
        assert f"argument --url: the URL has {what}" in shown
        assert "secret" not in shown


def test_a_function_takes_the_password_that_is_nearest(monkeypatch: pytest.MonkeyPatch) -> None:
    """As libpq does: an argument, the URL, and then the variable of the environment."""
    monkeypatch.setenv("PGPASSWORD", "of the environment")
    given = {"url": URL, "password": "of the argument"}
    assert java_options(given)["password"] == "of the argument"
    assert "password" not in java_options({"url": f"{URL}?password=of+the+URL"})
    assert java_options({"url": URL, "password": None})["password"] == "of the environment"


def test_only_commands_that_connect_ask_for_a_password(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[str | None] = []

    def replace(program: str, line: list[str], environment: dict[str, str]) -> NoReturn:
        given.append(environment.get("PGPASSWORD"))
        raise SystemExit

    monkeypatch.setattr(os, "execve", replace)
    of_checkpoint = ["--checkpoint", "/data/checkpoint"]
    for command in (
        ["status", *of_checkpoint],
        ["verify", *of_checkpoint],
        ["resync", "--all", *of_checkpoint],
    ):
        with pytest.raises(SystemExit):
            cli.main(command)
    assert given == [None, None, None]
    assert terminal.prompts == []
    for command in COMMANDS[1:]:
        with pytest.raises(SystemExit):
            cli.main(command)
    assert given[3:] == ["typed"] * len(COMMANDS[1:])
