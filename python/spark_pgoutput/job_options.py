"""The options of a job: their names, and which one counts if two set the same thing."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from typing import TypeVar

from spark_pgoutput.jar import jar_json

PREFIXES = {
    "names": "names.",
    "types": "types.",
    "pg_types": "pgTypes.",
    "mode": "mode.",
    "on_delete": "onDelete.",
    "partition": "partition.",
    "cluster": "cluster.",
    "properties": "property.",
}
"""The arguments that are mappings, with the prefix that Scala's options have for their entries."""

OF_TABLES = ("mode", "on_delete")
"""The arguments that are also options, whose values apply to all tables that have no entry."""

LISTS = ("partition", "cluster")
"""The arguments whose entries can be lists."""

HIDDEN = {"excludeColumns": "excludeColumns.", "hash": "hashColumns."}
"""What the argument `columns` has for a table, with the prefix of Scala's options."""

_Entry = TypeVar("_Entry")


@functools.cache
def declared() -> dict[str, type]:
    """Return the options that Scala declares, each with the type of its values.

    The type is `str`, `bool`, `int`, or `list` for names with commas between them. Options that
    have an entry for each table, column or property are `dict`, under the name of their argument.
    """
    mappings = {option_key(name) for name in PREFIXES}
    found = {
        each["name"]: _type(each["values"])
        for each in jar_json("replicate-options.json")
        if "<" not in each["name"] and option_key(each["name"]) not in mappings
    }
    return {**found, **dict.fromkeys((*PREFIXES, "columns"), dict)}


def merged(weak: Mapping[str, object], strong: Mapping[str, object]) -> dict[str, object]:
    """Return the arguments of both mappings. If both set the same thing, `strong` counts."""
    found = dict(weak)
    for name, value in strong.items():
        if value is None:
            continue
        argument = argument_name(name)
        same = next((each for each in found if option_key(each) == option_key(name)), argument)
        if argument == "columns" and isinstance(value, Mapping):
            value = _merged_columns(entries_of(found.get(same)), value)
        elif argument in OF_TABLES or (argument in PREFIXES and isinstance(value, Mapping)):
            value = merged_entries(argument, entries_of(found.get(same)), entries_of(value))
        found[same] = value
    return found


def merged_entries(
    name: str, weak: Mapping[str, _Entry], strong: Mapping[str, _Entry]
) -> dict[str, _Entry]:
    """Return the entries of a mapping, with one for each table, column or property."""
    again = {entry_key(name, key) for key in strong}
    return {**{k: v for k, v in weak.items() if entry_key(name, k) not in again}, **strong}


def _merged_columns(weak: Mapping[str, object], strong: Mapping[str, object]) -> dict[str, object]:
    """Return the hidden columns of both, because a call must not show what a file hides."""
    found = {entry_key("columns", table): hidden for table, hidden in weak.items()}
    for table, hidden in strong.items():
        key = entry_key("columns", table)
        before = found.get(key, {})
        if isinstance(before, Mapping) and isinstance(hidden, Mapping):
            added = {what: _union(before.get(what, ()), names) for what, names in hidden.items()}
            found[key] = {**before, **added}
        else:
            found[key] = hidden  # which is refused later, if it is not a mapping
    return found


def _union(before: object, names: object) -> object:
    """Return the names of both lists. What is not a list is refused later."""
    if isinstance(names, str):
        names = [names]
    if not isinstance(before, Sequence) or not isinstance(names, Sequence):
        return names
    return list(dict.fromkeys([*([before] if isinstance(before, str) else before), *names]))


def with_prefixes(name: str, value: object) -> Mapping[str, object]:
    """Return Scala's options for an argument: one for each entry, if it is a mapping.

    Raises
    ------
    TypeError
        If the argument takes no mapping, or not this one.
    """
    name = argument_name(name)
    if name == "columns" and isinstance(value, Mapping):
        return _column_options(value)
    if not isinstance(value, Mapping) and (name not in OF_TABLES or value is None):
        return {name: value}
    prefix = PREFIXES.get(name)
    if prefix is None:
        raise TypeError(f"The option '{name}' takes no mapping.")
    return {
        prefix[:-1] if name in OF_TABLES and key == "*" else f"{prefix}{key}": entry
        for key, entry in entries_of(value).items()
    }


def _column_options(columns: Mapping[str, object]) -> dict[str, str]:
    """Return Scala's options for the argument `columns`.

    Raises
    ------
    TypeError
        If it is not a mapping of tables to mappings with names of columns.
    """
    found = {}
    for table, hidden in columns.items():
        if not isinstance(hidden, Mapping) or not hidden.keys() <= HIDDEN.keys():
            raise TypeError(
                f"The entry '{table}' of the option 'columns' must be a mapping with the keys "
                f"{' and '.join(HIDDEN)}."
            )
        for key, names in hidden.items():
            listed = [names] if isinstance(names, str) else names
            if not isinstance(listed, Sequence) or not all(isinstance(n, str) for n in listed):
                raise TypeError(f"'{key}' of '{table}' must be a list of names of columns.")
            if listed:
                quoted = ('"{}"'.format(name.replace('"', '""')) for name in listed)
                found[f"{HIDDEN[key]}{table}"] = ",".join(quoted)
    return found


def option_key(name: str) -> str:
    """Return one text for all spellings of an option's name."""
    return name.replace("-", "").replace("_", "").lower()


def argument_name(name: str) -> str:
    """Return the name of the argument that is a mapping, for any spelling of it: `on_delete`."""
    mappings = (*PREFIXES, "columns")
    return next((each for each in mappings if option_key(each) == option_key(name)), name)


def entry_key(name: str, key: str) -> str:
    """Return one text for all spellings of a key in a mapping: `orders` and `public.orders`."""
    names = ("names", "columns", *OF_TABLES, *LISTS)
    is_of_public = name in names and "." not in key and key != "*"
    return f"public.{key}" if is_of_public else key


def _type(values: str) -> type:
    if values == "true, false":
        return bool
    if re.fullmatch(r"\d+ to \d+", values):
        return int
    return list if values.endswith("with commas between them") else str


def entries_of(value: object) -> dict[str, object]:
    """Return the entries of a mapping. A single value is the entry `"*"`, for all tables."""
    if value is None:
        return {}
    return dict(value) if isinstance(value, Mapping) else {"*": str(value)}
