"""How a command becomes a process of spark-submit."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pyspark
import pytest

import spark_pgoutput
from spark_pgoutput import cli
from spark_pgoutput.spark_submit import TERMINAL

URL = ["--url", "jdbc:postgresql://localhost:5432/shop"]
TARGET = ["--target", "/data/lake"]
CHECKPOINT = ["--checkpoint", "/data/checkpoint"]
SERVER = [*URL, "--slot", "lake", "--publication", "shop"]
JOB = [*TARGET, *CHECKPOINT, *SERVER]

# The arguments of each command.
COMMANDS = {
    "replicate": [*JOB, "--name", "public.Order lines=order_lines"],
    "verify": CHECKPOINT,
    "status": [*CHECKPOINT, *URL, "--slot", "lake", "--json"],
    "resync": [*CHECKPOINT, "--table", "public.orders"],
    "adopt": [*CHECKPOINT, *SERVER, "--last-lsn", "16/B374D848"],
}
FOR_SPARK = {
    "--master": ["local[2]"],
    "--conf": ["spark.driver.extraJavaOptions=-Da=b -Dc='d e'", "spark.x=1", "spark.x=2"],
    "--packages": ["io.delta:delta-spark_4.1_2.13:4.4.0,org.example:other:1.0"],
    "--properties-file": ["/data/my spark.conf"],
}


class Replaced(Exception):  # noqa: N818 - no error
    """The command's process is replaced by another program."""


@pytest.fixture(autouse=True)
def faked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Raise `Replaced` instead of running the new program, and give Spark no settings."""

    def replace(program: str, line: list[str], environment: dict[str, str]) -> NoReturn:
        assert program == line[0]
        raise Replaced(line, environment)

    monkeypatch.setattr(os, "execve", replace)
    monkeypatch.setenv("PGPASSWORD", "inherited")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    for name in ("SPARK_HOME", "PYSPARK_PYTHON", "SPARK_SUBMIT_OPTS", TERMINAL):
        monkeypatch.delenv(name, raising=False)


def submitted(*arguments: str) -> tuple[list[str], dict[str, str]]:
    """Return the command line and the environment that a command gives to spark-submit."""
    with pytest.raises(Replaced) as replaced:
        cli.main(arguments)
    line, environment = replaced.value.args
    return line, environment


def jars(*arguments: str) -> list[str]:
    """Return the JARs that `status` adds to Spark."""
    line, _ = submitted("status", *CHECKPOINT, *arguments)
    return line[line.index("--jars") + 1].split(",")


@pytest.mark.parametrize("command", COMMANDS)
def test_arguments_for_spark_reach_spark_submit_unchanged(command: str) -> None:
    given = [command, *COMMANDS[command]]
    for name, values in FOR_SPARK.items():
        for value in values:
            given += [name, value]
    line, environment = submitted(*given)
    end = line.index(str(Path(cli.__file__).with_name("job_process.py")))
    assert line[0] == str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
    options = list(zip(line[1:end:2], line[2:end:2], strict=True))
    ours = {
        "--conf": [f"spark.pyspark.driver.python={sys.executable}"],
        "--deploy-mode": ["client"],
        "--jars": [spark_pgoutput.jar_path()],
    }
    for name in {**FOR_SPARK, **ours}:
        values = FOR_SPARK.get(name, []) + ours.get(name, [])
        assert [value for option, value in options if option == name] == values
    assert {name for name, _ in options} == {*FOR_SPARK, *ours}
    assert line[end + 1 :] == given  # which the script reads again
    assert Path(line[end]).exists()
    assert environment["PYSPARK_PYTHON"] == sys.executable
    assert environment["PGPASSWORD"] == "inherited"
    for variable in ("SPARK_DRIVER_MEMORY", "SPARK_SUBMIT_OPTS"):
        assert (variable in environment) == (command == "replicate")


def launched(*arguments: str) -> list[str]:
    """Return the command of the JVM that a job runs in, as spark-submit makes it."""
    line, environment = submitted("replicate", *JOB, *arguments)
    # The script of spark-submit sets the variable.
    environment["SPARK_SCALA_VERSION"] = "2.13"
    launcher = ["java", "-cp", f"{Path(pyspark.__file__).parent}/jars/*"]
    launcher += ["org.apache.spark.launcher.Main", "org.apache.spark.deploy.SparkSubmit"]
    found = subprocess.run(
        [*launcher, *line[1:]], env=environment, check=True, capture_output=True, text=True
    )
    return found.stdout.split("\0")


@pytest.mark.parametrize(
    ("given", "heap"),
    [
        ("nothing", "2g"),
        ("config", "3g"),
        ("variable", "3g"),
        ("defaults", "3g"),
        ("properties", "3g"),
    ],
)
def test_a_job_has_a_heap_of_2g_unless_the_user_gives_another(
    given: str, heap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting, file, arguments = f"spark.driver.memory={heap}", tmp_path / "given", list[str]()
    match given:
        case "config":
            file.write_text(f"spark: {{spark.driver.memory: {heap}}}")
            arguments = ["--config", str(file)]
        case "variable":
            monkeypatch.setenv("SPARK_DRIVER_MEMORY", heap)
        case "defaults":
            (tmp_path / "spark-defaults.conf").write_text(setting)
        case "properties":
            file.write_text(setting)
            arguments = ["--properties-file", str(file)]
    assert f"-Xmx{heap}" in launched(*arguments)


def test_options_of_the_jvm_that_the_user_gives_come_last(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "-XX:Tier4InvocationThreshold"
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", f"{name}=1")
    line = launched("--conf", f"spark.driver.extraJavaOptions={name}=2")
    found = [option for option in line if option.startswith(f"{name}=")]
    assert found == [f"{name}=30000", f"{name}=1", f"{name}=2"]


def test_jars_of_the_user_stay(tmp_path: Path) -> None:
    """The option --jars of spark-submit replaces the setting spark.jars."""
    ours = spark_pgoutput.jar_path()
    assert jars() == [ours]
    (tmp_path / "spark-defaults.conf").write_text("spark.jars default.jar")
    assert jars() == ["default.jar", ours]
    file = tmp_path / "my.conf"
    file.write_bytes(b"# a comment in Latin-1: \xe9\n")
    assert jars("--properties-file", str(file)) == [ours]
    file.write_text("spark.x = 1\nspark.jars = file.jar,other.jar\n")
    of_file = ("--properties-file", str(file))
    assert jars(*of_file) == ["file.jar", "other.jar", ours]
    conf = (*of_file, "--conf", "spark.jars=conf.jar", "--conf", "spark.x=2")
    assert jars(*conf) == ["conf.jar", ours]
    assert jars(*conf, "--jars", "a.jar,b.jar") == ["a.jar", "b.jar", ours]


def test_spark_of_the_user_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/python")
    line, environment = submitted("status", *CHECKPOINT)
    assert line[0] == "/opt/spark/bin/spark-submit"
    assert environment["PYSPARK_PYTHON"] == "/opt/python"


def test_the_script_runs_in_the_python_of_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """Notebooks set the variable so that `pyspark` starts Jupyter."""
    monkeypatch.setenv("PYSPARK_DRIVER_PYTHON", "jupyter")
    _, environment = submitted("status", *CHECKPOINT)
    assert environment["PYSPARK_DRIVER_PYTHON"] == sys.executable


def test_a_command_is_not_a_client_of_spark_connect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_REMOTE", "sc://localhost")
    monkeypatch.setenv("SPARK_API_MODE", "connect")
    _, environment = submitted("status", *CHECKPOINT)
    assert "SPARK_REMOTE" not in environment
    # This variable wins over SPARK_CONNECT_MODE and the package pyspark-connect.
    assert environment["SPARK_API_MODE"] == "classic"


def test_a_command_says_what_to_do_without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.find_spark_home", None)
    with pytest.raises(SystemExit, match="pyspark is not installed"):
        cli.main(["status", *CHECKPOINT])


@pytest.mark.parametrize("name", ["url", "Checkpoint", "mode", "names", "password"])
def test_an_option_cannot_replace_an_argument(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        cli.parse(["replicate", *JOB, "--option", f"{name}=x"])
    assert "own argument" in (error := capsys.readouterr().err) or "PGPASSWORD" in error


@pytest.mark.parametrize(
    "arguments",
    [
        ["verify", *CHECKPOINT, "--user", "lake"],
        ["verify", *CHECKPOINT, *TARGET],
        ["verify", *CHECKPOINT, "--option", "onTableError=stop"],
        ["verify", *JOB, "--once", "--timeout", "7"],
        ["verify", *CHECKPOINT, "--once"],
        ["verify", *CHECKPOINT, *SERVER, "--once"],
        ["status", *CHECKPOINT, "--user", "lake"],
        ["status", *CHECKPOINT, *URL],
        ["resync", *TARGET, "--table", "public.orders"],
        ["resync", *CHECKPOINT, "--format", "delta", "--all"],
    ],
)
def test_an_argument_without_effect_is_an_error(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        cli.parse(arguments)
    assert re.search(r"error: (--.+|resync) (go|goes|needs)\b", capsys.readouterr().err)


def test_a_copy_of_all_tables_needs_the_checkpoint_or_the_target(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The target is for a checkpoint folder that is lost."""
    for given in (CHECKPOINT, TARGET, [*TARGET, "--format", "iceberg"]):
        assert cli.parse(["resync", "--all", *given]).all
    for given in ([], [*CHECKPOINT, *TARGET]):
        with pytest.raises(SystemExit):
            cli.parse(["resync", "--all", *given])
        assert "resync needs --checkpoint, or --target with --all" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["status", "verify", "adopt", "replicate"])
def test_a_command_needs_the_checkpoint(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.parse([command])
    assert "--checkpoint" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["verify", *CHECKPOINT, "--timeout", "nan"],
        ["verify", *CHECKPOINT, "--timeout", "-1"],
        ["adopt", *CHECKPOINT, *SERVER, "--last-lsn", "1234"],
        ["status", *CHECKPOINT, "--url", "jdbc:mysql://localhost/shop", "--slot", "lake"],
        ["status", *CHECKPOINT, "--url", "postgresql://localhost/shop", "--slot", "lake"],
    ],
)
def test_a_wrong_value_is_an_error_before_spark_starts(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.parse(arguments)
    assert ended.value.code == 2
    assert re.search(r"error: argument --[a-z-]+: ", capsys.readouterr().err)


def test_a_password_is_in_the_environment_only(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("secret\n")
    line, environment = submitted("replicate", *JOB, "--password-file", str(file))
    assert environment["PGPASSWORD"] == "secret"
    assert "secret" not in " ".join(line)


def test_script_knows_the_width_of_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """The script itself writes to a pipe of spark-submit."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False)
    assert TERMINAL not in submitted("status", *CHECKPOINT)[1]
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "101")
    _, environment = submitted("status", *CHECKPOINT)
    assert (environment[TERMINAL], environment["COLUMNS"]) == ("1", "101")
