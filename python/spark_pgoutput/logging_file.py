"""The file that says what the commands log."""

from __future__ import annotations

import re
from collections.abc import MutableMapping
from pathlib import Path

# Log4j reads the file that this variable of the environment names, from its first line on.
_VARIABLE = "LOG4J_CONFIGURATION_FILE"
_FILE = Path(__file__).with_name("log4j2.properties")
_LOGGER = re.compile(r"^logger\.(\w+)\.name = (\S+)\nlogger\.\1\.level = (\S+)$", re.MULTILINE)


def logger_levels() -> dict[str, str]:
    """Return the level of each logger that the file names."""
    loggers = _LOGGER.finditer(_FILE.read_text(encoding="utf-8"))
    return {logger[2]: logger[3] for logger in loggers}


def use_logging_file(environment: MutableMapping[str, str], spark_home: str) -> None:
    """Let Spark's JVM log as the file says, unless Spark has a file of the user.

    Parameters
    ----------
    environment : mapping of str to str
        The environment of the JVM.
    spark_home : str
        The folder of Spark.
    """
    folder = Path(environment.get("SPARK_CONF_DIR") or Path(spark_home) / "conf")
    # Spark's own folder has a template.
    if all(file.suffix == ".template" for file in folder.glob("log4j*")):
        environment.setdefault(_VARIABLE, _FILE.as_uri())
