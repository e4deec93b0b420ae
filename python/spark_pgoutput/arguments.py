"""Checks of the Python arguments, and their form as arguments of the SQL functions."""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping, Sequence, Set
from decimal import Decimal
from numbers import Real
from typing import TypeAlias, TypeVar

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

ColumnOrName: TypeAlias = Column | str
Options: TypeAlias = Mapping[str, str | float | Decimal | os.PathLike[str] | None]
Schema: TypeAlias = str | StructType | Column
InStream: TypeAlias = ColumnOrName | bool | None
TypeIds: TypeAlias = ColumnOrName | Sequence[int | None] | None

_Value = TypeVar("_Value")

_BY_NAME = "Pass options by name: options={'mode': 'PERMISSIVE'}."


def option_texts(options: Options | None) -> dict[str, str]:
    """Turn options into the texts that the SQL functions take.

    An option whose value is None counts as not given.
    """
    if options is None:
        return {}
    if not isinstance(options, Mapping):
        raise wrong_type("options", "a mapping such as {'mode': 'PERMISSIVE'}", options)
    for name in options:
        if not isinstance(name, str):
            raise TypeError(f"The name of an option must be a str, not {_kind(name)}: {name!r}.")
    return {name: _text(name, value) for name, value in options.items() if value is not None}


def options_map(options: Options) -> Column:
    """Make a constant map of options."""
    return F.create_map(*[F.lit(text) for entry in option_texts(options).items() for text in entry])


def column(argument: str, value: ColumnOrName) -> ColumnOrName:
    """Check an argument that can be a column or its name."""
    return checked(argument, "a Column or the name of a column", value, Column, str)


def column_name(argument: str, value: str) -> str:
    """Check an argument that can only be the name of a column."""
    if isinstance(value, Column):
        raise wrong_type(
            argument,
            "the name of a column",
            value,
            f"Add the Column to the DataFrame and pass its name: "
            f"df.withColumn({argument!r}, …), {argument}={argument!r}.",
        )
    return checked(argument, "the name of a column", value, str)


def checked(argument: str, expected: str, value: _Value, *types: type) -> _Value:
    """Check that an argument has one of these types. The text "false" is not a bool."""
    if not isinstance(value, types):
        raise wrong_type(argument, expected, value)
    return value


def path_text(path: str | os.PathLike[str]) -> str:
    """Turn a path into a text. A path always names a folder, and never a namespace."""
    text = str(path)
    return text if isinstance(path, str) or "/" in text else f"./{text}"


def table_names(tables: str | Sequence[str]) -> list[str]:
    """Check the names of tables. A str is the name of one table."""
    if isinstance(tables, str):
        return [tables]
    expected = "the name of a table or a list of names"
    checked("tables", expected, tables, Sequence)
    return [checked("tables", expected, name, str) for name in tables]


def in_stream_column(value: InStream) -> ColumnOrName:
    """Turn the argument `in_stream` into a column or its name."""
    if value is None or isinstance(value, bool):
        return F.lit(value)
    if not isinstance(value, (Column, str)):
        expected = "a Column, the name of a column, a bool or None"
        raise wrong_type("in_stream", expected, value, _BY_NAME)
    return value


def schema_text(schema: str | StructType) -> str:
    """Turn a schema into text that the JVM reads: DDL or JSON."""
    if isinstance(schema, StructType):
        return schema.json()
    expected = "DDL such as 'id BIGINT, note STRING' or a StructType"
    return checked("schema", expected, schema, str)


def schema_column(schema: Schema) -> Column:
    """Turn a schema into a constant column."""
    return schema if isinstance(schema, Column) else F.lit(schema_text(schema))


def type_ids_column(type_ids: TypeIds) -> ColumnOrName:
    """Turn the argument `type_ids` into a column or its name."""
    if type_ids is None:
        return F.lit(None)
    if isinstance(type_ids, (Column, str)):
        return type_ids
    expected = "a Column, the name of a column, or a list of ints and None"
    if isinstance(type_ids, Mapping):
        raise wrong_type("type_ids", expected, type_ids, _BY_NAME)
    if isinstance(type_ids, Set):
        raise wrong_type("type_ids", expected, type_ids, "A set has no order.")
    try:
        oids = [None if oid is None else operator.index(oid) for oid in type_ids]
    except (TypeError, ValueError):
        raise wrong_type("type_ids", expected, type_ids) from None
    return F.array(*[F.lit(oid) for oid in oids]).cast("array<bigint>")


def wrong_type(argument: str, expected: str, value: object, advice: str = "") -> TypeError:
    """Make the error for an argument of a wrong type."""
    return TypeError(
        f"The argument '{argument}' must be {expected}, not {_kind(value)}. {advice}".rstrip()
    )


def _text(name: str, value: object) -> str:
    match value:
        case str():
            return value
        case bool():
            return str(value).lower()
        case Real() | Decimal():
            return str(value)
        case os.PathLike():
            return path_text(value)
        case _:
            raise TypeError(
                f"The option '{name}' must be a str, a number, a bool or None, not {_kind(value)}."
            )


def _kind(value: object) -> str:
    if value is None:
        return "None"
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"
