"""The file of `--config`, which has the options of a job in YAML."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from string import Template
from typing import NamedTuple

import yaml
from yaml import MappingNode, Node, ScalarNode, SequenceNode

from spark_pgoutput.job_options import HIDDEN, LISTS, OF_TABLES, declared, entry_key, option_key
from spark_pgoutput.password import has_password

# What a file has in addition to the options of the job.
_OTHERS = ("passwordFile", "propertiesFile", "tables", "spark")

_OF_TABLE = ("name", *OF_TABLES, "types", *LISTS, *HIDDEN)

_TYPES = {"bool": "a boolean", "int": "a number", "float": "a number", "timestamp": "a time"}
_NUMBER = re.compile(r"0|[1-9]\d*")

# Spark and the formats read these as YAML does, unlike `off` or `1:30`.
_PLAIN = re.compile(r"true|false|-?(0|[1-9]\d*)(\.\d+)?")

_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})", re.ASCII)

# Spark does not show the values of such settings. The last two belong to Iceberg and to Azure.
_SECRET = re.compile(r"(?i)secret|password|token|access[.]?key|credential$|account[.]key")

_HEAD = """\
# The password is not in this file. The job takes it from PGPASSWORD or a pgpass file. You can also
# name another variable, as in password: $NAME, or a file that has it, as in passwordFile: /path.
"""


class ConfigFile(NamedTuple):
    """What a file says. It has no secret, but the names of variables that have one."""

    options: Mapping[str, object] = {}
    """The arguments of `spark_pgoutput.replicate`, without the password."""

    spark: Mapping[str, str] = {}
    """The settings of Spark, without the secret ones."""

    secrets: Mapping[str, str] = {}
    """The variables of the environment that have the values of Spark's secret settings."""

    password_variable: str | None = None
    """The variable of the environment that has the password."""

    password_file: Path | None = None
    properties_file: Path | None = None


def read(path: str | os.PathLike[str]) -> ConfigFile:
    """Read a file.

    Raises
    ------
    ValueError
        If the file cannot be read, or something in it is wrong. The text has the line.
    """
    return _Reader(Path(path)).read()


def is_secret(setting: str) -> bool:
    """Return whether the value of a setting of Spark must not show."""
    return bool(_SECRET.search(setting))


def text(config: ConfigFile) -> str:
    """Write a file that `read` reads."""
    types = {option_key(name): kind for name, kind in declared().items()}
    found = {
        _shown(name): _written(value, types.get(option_key(name), str))
        for name, value in config.options.items()
        if value not in (None, {}) and (name, value) != ("once", False)
    }
    if config.password_variable is not None:
        found["password"] = f"${config.password_variable}"
    files = {"passwordFile": config.password_file, "propertiesFile": config.properties_file}
    found |= {name: _escaped(str(file)) for name, file in files.items() if file is not None}
    settings = {name: _escaped(value) for name, value in config.spark.items()}
    settings |= {name: f"${variable}" for name, variable in config.secrets.items()}
    if settings:
        found["spark"] = settings
    return _HEAD + str(yaml.safe_dump(found, sort_keys=False, allow_unicode=True, width=10_000))


def _written(value: object, kind: type) -> object:
    if isinstance(value, Mapping):
        return {key: _written(entry, str) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_escaped(str(each)) for each in value]
    text = str(value)
    if kind is bool and text.lower() in ("true", "false"):
        return text.lower() == "true"
    return int(text) if kind is int and _NUMBER.fullmatch(text) else _escaped(text)


def _escaped(text: str) -> str:
    return text.replace("$", "$$")


def _shown(name: str) -> str:
    """Return the spelling of a Python argument's name that the documentation has for a file."""
    return re.sub(r"_(.)", lambda found: found[1].upper(), name)


class _Reader:
    """Reads the nodes that YAML's composer makes. A node has its line and its original text."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._types = declared()
        self._options: dict[str, object] = {}

    def read(self) -> ConfigFile:
        settings: dict[str, str] = {}
        secrets: dict[str, str] = {}
        files: dict[str, Path] = {}
        variable = None
        for name, node in self._known(self._root(), (*self._types, *_OTHERS)):
            match name:
                case "password":
                    variable = self._variable("the password", node)
                case "passwordFile" | "propertiesFile":
                    files[name] = Path(self._text(name, node))
                case "tables":
                    self._take_tables(node)
                case "columns":
                    for table, _, entries in self._entries(name, node):
                        for key, names in self._known(entries, tuple(HIDDEN)):
                            self._hide(table, key, names)
                case "spark":
                    for setting, _, value in self._entries("spark", node):
                        if not setting.startswith("spark."):
                            why = "because their names begin with 'spark.'"
                            problem = f"'{setting}' is not a setting of Spark, {why}."
                            raise self._wrong(value, problem)
                        if is_secret(setting):
                            secrets[setting] = self._variable(f"the value of {setting}", value)
                        else:
                            settings[setting] = self._plain(setting, value)
                case _ if name in OF_TABLES and isinstance(node, ScalarNode):
                    self._take_entry(name, "*", node)
                case _ if self._types[name] is dict:
                    for key, _, value in self._entries(_shown(name), node):
                        self._take_entry(name, key, value)
                case _:
                    self._options[name] = self._value(name, node)
        if variable is not None and "passwordFile" in files:
            raise ValueError(f"{self._file} has a password and a passwordFile. Leave one out.")
        password, properties = files.get("passwordFile"), files.get("propertiesFile")
        return ConfigFile(self._options, settings, secrets, variable, password, properties)

    def _root(self) -> Node | None:
        if self._file.exists() and not self._file.is_file():
            raise ValueError(
                f"The config file {self._file} is not a regular file. The command reads it twice, "
                "so it cannot be a pipe."
            )
        try:
            content = self._file.read_text(encoding="utf-8")
            root: Node | None = yaml.compose(content, Loader=yaml.SafeLoader)
        except (OSError, UnicodeError) as error:
            raise ValueError(f"The config file {self._file} cannot be read. {error}") from None
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            assert mark is not None
            # The text of the error can have a part of the line, which can be a password.
            problem = re.sub(r"'.{2,}'", "'…'", error.problem or str(error.context))
            raise ValueError(
                f"{self._file}, line {mark.line + 1}: This is not YAML, because {problem}."
            ) from None
        except yaml.YAMLError as error:
            raise ValueError(f"{self._file} is not YAML. {error}") from None
        return root

    def _take_tables(self, node: Node) -> None:
        for table, _, entries in self._entries("tables", node):
            qualified = entry_key("names", table)
            for name, value in self._known(entries, _OF_TABLE):
                if name == "types":
                    for column, _, one in self._entries(f"types of {table}", value):
                        self._take_entry(name, f"{qualified}.{column}", one)
                elif name in HIDDEN:
                    self._hide(qualified, name, value)
                else:
                    self._take_entry("names" if name == "name" else name, qualified, value)

    def _hide(self, table: str, key: str, node: Node) -> None:
        """Take the names of columns that are excluded or hashed."""
        columns = self._options.setdefault("columns", {})
        assert isinstance(columns, dict)
        qualified = entry_key("columns", table)
        hidden = columns.setdefault(qualified, {})
        what = f"{key} of {table}"
        if key in hidden:
            raise self._wrong(node, f"'{what}' is given twice. Leave one out.")
        nodes = node.value if isinstance(node, SequenceNode) else [node]
        hidden[key] = [self._text(what, each) for each in nodes]

    def _take_entry(self, name: str, key: str, node: Node) -> None:
        entries = self._options.setdefault(name, {})
        assert isinstance(entries, dict)
        what = f"{_shown(name)} of {key}"
        if entry_key(name, key) in {entry_key(name, each) for each in entries}:
            raise self._wrong(node, f"'{what}' is given twice. Leave one out.")
        if name in LISTS and isinstance(node, SequenceNode):
            entries[key] = ",".join(self._text(what, item) for item in node.value)
        else:
            entries[key] = (self._plain if name == "properties" else self._text)(what, node)

    def _known(self, node: Node | None, names: tuple[str, ...]) -> Iterator[tuple[str, Node]]:
        """Return the entries of a mapping that has only some keys, in any spelling."""
        known = {option_key(name): name for name in names}
        given: dict[str, str] = {}
        for key, place, value in self._entries("the file", node) if node else ():
            same = option_key(key)
            if same not in known:
                (near,) = difflib.get_close_matches(same.split(".")[0], known, n=1, cutoff=0)
                raise self._wrong(
                    place,
                    f"There is no option '{key}' here. The nearest one is '{_shown(known[near])}'.",
                )
            if same in given:
                raise self._wrong(
                    place, f"'{given[same]}' and '{key}' are one option. Leave one out."
                )
            given[same] = key
            yield known[same], value

    def _entries(self, what: str, node: Node) -> Iterator[tuple[str, Node, Node]]:
        """Return the keys of a mapping, with the nodes of the keys and the values."""
        if not isinstance(node, MappingNode):
            raise self._wrong(node, f"Here must be a mapping for {what}, such as 'key: value'.")
        keys = set()
        for key, value in node.value:
            if not isinstance(key, ScalarNode) or self._tag(key) != "str":
                raise self._wrong(
                    key, "A key must be a text. Quote it, if YAML takes it for something else."
                )
            if key.value in keys:
                raise self._wrong(key, f"The key '{key.value}' is given twice. Leave one out.")
            keys.add(key.value)
            yield key.value, key, value

    def _value(self, name: str, node: Node) -> object:
        """Return the value of an option that has no entries."""
        kind, tag = self._types[name], self._tag(node)
        if kind is list and isinstance(node, SequenceNode):
            return ",".join(self._text(name, item) for item in node.value)
        if kind is bool:
            text = node.value.lower() if tag == "bool" else self._text(name, node)
            if text in ("true", "yes", "on", "false", "no", "off"):
                return text in ("true", "yes", "on")
            raise self._wrong(node, f"'{name}' must be true or false.")
        if kind is int and tag != "str":
            if tag == "int" and _NUMBER.fullmatch(node.value):
                return str(node.value)
            raise self._wrong(node, f"'{name}' must be a whole number such as 4.")
        text = self._text(name, node)
        if name == "url" and has_password(text):
            raise self._wrong(
                node,
                "The URL has a password. Take it out of the URL, and give it in the variable "
                "PGPASSWORD or in a file that passwordFile names.",
            )
        if name == "url" and has_password(text, "sslpassword"):
            raise self._wrong(
                node,
                "The URL has the parameter sslpassword. Use a key without a password, in a file "
                "that only you can read.",
            )
        return text

    def _plain(self, what: str, node: Node) -> str:
        """Return a value that can have any type, if its text has one meaning only."""
        if self._tag(node) in ("bool", "int", "float") and _PLAIN.fullmatch(node.value):
            return str(node.value)
        return self._text(what, node)

    def _text(self, what: str, node: Node) -> str:
        tag = self._tag(node)
        if tag == "null":
            raise self._wrong(node, f"'{what}' has no value. Leave it out, or quote the value.")
        if tag in _TYPES:
            raise self._wrong(
                node,
                f"'{what}' takes a text, and YAML reads {node.value} as {_TYPES[tag]}. Quote it: "
                f'"{node.value}".',
            )
        if tag != "str":
            raise self._wrong(node, f"'{what}' takes a text, and not a list or a mapping.")
        try:
            return Template(node.value).substitute(os.environ)
        except KeyError as error:
            raise self._unset(error.args[0], f"a part of '{what}'", node) from None
        except ValueError:
            raise self._wrong(
                node, f"'{what}' has a $ without a name. Write $NAME for a variable, or $$ for a $."
            ) from None

    def _variable(self, what: str, node: Node) -> str:
        """Return the name of a variable of the environment that has a secret."""
        found = _VARIABLE.fullmatch(node.value) if isinstance(node, ScalarNode) else None
        if found is None:
            raise self._wrong(
                node,
                f"Here is {what}, and everybody who reads the file sees it. Write the name of a "
                "variable of the environment, such as $PGPASSWORD"
                f"{', or name a file in passwordFile' if what == 'the password' else ''}.",
            )
        name: str = found[1] or found[2]
        if name not in os.environ:
            raise self._unset(name, what, node)
        return name

    def _unset(self, variable: str, what: str, node: Node) -> ValueError:
        return self._wrong(
            node,
            f"{what[0].upper()}{what[1:]} is in the variable {variable} of the environment, which "
            "is not set. Set it, or write $$ for a $.",
        )

    @staticmethod
    def _tag(node: Node) -> str:
        return str(node.tag).removeprefix("tag:yaml.org,2002:")

    def _wrong(self, node: Node, problem: str) -> ValueError:
        return ValueError(f"{self._file}, line {node.start_mark.line + 1}: {problem}")
