"""A file that `--print-config` prints gives the same job as the arguments that it is made of."""

from __future__ import annotations

import random
import string
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spark_pgoutput import cli, config_file, replication
from spark_pgoutput.config_arguments import printed
from spark_pgoutput.job_options import PREFIXES, declared
from spark_pgoutput.replicate_command import job_options


def random_text(chosen: random.Random) -> str:
    """Return a text that YAML can read as something else, or one of random characters."""
    special = ["off", "no", "1:30", "012", "1e3", "null", "~", "2026-01-01", "a: b", "- a", "$HOME"]
    special += [
        "$$",
        "#x",
        " x ",
        "'",
        '"',
        "{a}",
        "[a]",
        "*a",
        "&a",
        "!a",
        "%a",
        "@a",
        "é\u2028😀",
    ]
    letters = string.ascii_letters + string.digits + "$:#'\"{}[], _-."
    return chosen.choice([chosen.choice(special), "".join(chosen.choices(letters, k=9)) + "x"])


def random_arguments(chosen: random.Random) -> Iterator[str]:
    """Return random arguments of `replicate`, of any of its options."""
    own = {"url": "jdbc:postgresql://h/", "format": None, "once": None, "password": None}
    for name, kind in declared().items():
        if name in PREFIXES:
            argument = name.replace("_", "-").removesuffix("s")
            argument = {"propertie": "property"}.get(argument, argument)
            keys = ["orders", "public.Order lines", "s.t", "off", "12", "a$b"]
            for key in chosen.sample(keys, chosen.randrange(3)):
                option = chosen.choice([f"--{argument}=", f"--option={PREFIXES[name]}"])
                yield f"{option}{key}={random_text(chosen)}"
        elif name == "columns":
            for key in chosen.sample(["orders", "public.Order lines", "s.t", "a$b"], 2):
                what = chosen.choice(["exclude", "hash"])
                yield f"--{what}-column={key}.{random_text(chosen)}"
        elif name == "format":
            yield f"--format={chosen.choice(['delta', 'iceberg'])}"
        elif name == "once":
            yield from ["--once"] * chosen.randrange(2)
        elif name == "statusFile":
            yield f"--status-file={random_text(chosen)}"
        elif name in ("url", "user", "slot", "publication", "target", "checkpoint"):
            yield f"--{name}={own.get(name) or ''}{random_text(chosen)}"
        elif name != "password" and chosen.random() < 0.7:
            value = {int: str(chosen.randrange(100)), bool: chosen.choice(["true", "false"])}
            yield f"--option={name}={value.get(kind) or random_text(chosen)}"
    for setting in ("spark.a", "spark.sql.x.y"):
        yield f"--conf={setting}={random_text(chosen)}"
    for argument in ("master", "packages", "jars", "properties-file", "password-file"):
        if chosen.random() < 0.5:
            yield f"--{argument}={random_text(chosen)}"


def settings(arguments: Any) -> dict[str, str]:  # noqa: ANN401 - a namespace
    """Return the settings that spark-submit makes of the arguments."""
    found = dict(conf.split("=", 1) for conf in arguments.conf)
    if arguments.master:
        found["spark.master"] = arguments.master[-1]
    if arguments.packages:
        found["spark.jars.packages"] = arguments.packages[-1]
    return found | ({"spark.jars": arguments.jars} if arguments.jars else {})


@pytest.mark.parametrize("seed", range(60))
def test_a_printed_file_gives_the_same_job(seed: int, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    given = list(random_arguments(random.Random(seed)))
    wanted = cli.parse(["replicate", *given])
    file.write_text(printed(wanted), encoding="utf-8")
    found = cli.parse(["replicate", "--config", str(file)])
    assert strings(job_options(found)) == strings(job_options(wanted)), given
    assert settings(found) == settings(wanted)
    assert found.properties_file == wanted.properties_file[-1:]
    assert found.password_file == wanted.password_file
    # Python reads the same job.
    assert replication.java_options(config_file.read(file).options) == {
        name: value
        for name, value in replication.java_options(job_options(wanted)).items()
        if (name, value) != ("once", "false")
    }
    assert printed(found) == printed(wanted)


def strings(options: dict[str, object]) -> dict[str, object]:
    """Return options whose values are texts, as Scala gets them."""
    return {
        name: str(value).lower() if isinstance(value, bool) else value
        for name, value in options.items()
    }
