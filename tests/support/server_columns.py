"""A table with a column of each type and one of its arrays, and all views of the columns."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, NamedTuple

from support.server_values import JSON, STRING, TYPES, USER_TYPES, ServerType, View

ELEMENTS = "generate_subscripts({}, 1) AS i ORDER BY i"


class Column(NamedTuple):
    """A column of the table, and all views of it."""

    name: str
    views: list[View]


def of(expression: str, value: str) -> str:
    return expression.replace("{}", value)


def array_of(view: View) -> View:
    """Return a view of arrays of one dimension. An array is NULL if one element does not fit."""

    def each(expected: str) -> str:
        element = of(expected, "({})[i]")
        return (
            f"CASE WHEN {{}} IS NOT NULL AND NOT EXISTS (SELECT FROM generate_subscripts({{}}, 1) "
            f"AS i WHERE num_nonnulls(({{}})[i]) = 1 AND num_nonnulls({element}) = 0) "
            f"THEN ARRAY(SELECT {element} FROM {ELEMENTS}) END"
        )

    return View(
        f"ARRAY<{view.spark_type}>",
        f"transform({{}}, x -> {of(view.shown, 'x')})",
        each(view.expected),
        view.of_text and each(view.of_text),
    )


def columns() -> Iterator[Column]:
    for number, one in enumerate(TYPES):
        alone = [one.printed or STRING, *one.views]
        yield Column(f"c{number}", alone)
        # The text of an array is as the server sent it, unlike the text of its elements.
        whole = [] if one.printed else [STRING]
        yield Column(f"a{number}", [*whole, *map(array_of, alone)])


def value_of(one: ServerType, number: int) -> str:
    """Return an expression for the extremes in the first rows, and then for random values."""
    extremes = ", ".join("'" + text.replace("'", "''") + "'" for text in one.extremes)
    return (
        f"CASE WHEN n <= {len(one.extremes)} THEN (ARRAY[{extremes}])[n]::{one.name} "
        f"WHEN (n + {number}) % 13 <> 0 THEN ({one.random})::{one.name} END"
    )


def statements(rows: int) -> Iterator[str]:
    yield USER_TYPES
    numbers = range(len(TYPES))
    declarations = [f"c{i} {TYPES[i].name}, a{i} {TYPES[i].name}[]" for i in numbers]
    yield f"CREATE TABLE t (n int PRIMARY KEY, {', '.join(declarations)})"
    yield "CREATE PUBLICATION p FOR TABLE t"
    yield "SELECT pg_create_logical_replication_slot('s', 'pgoutput')"
    yield "SELECT setseed(0.5)"
    values = ", ".join(f"({value_of(TYPES[i], i)})::{TYPES[i].name} AS c{i}" for i in numbers)
    arrays = ", ".join(f"c{i}, {array_value(i)}" for i in numbers)
    yield (
        f"INSERT INTO t SELECT n, {arrays} "
        f"FROM (SELECT n, {values} FROM generate_series(1, {rows}) AS n)"
    )


def array_value(i: int) -> str:
    name = TYPES[i].name
    return (
        f"CASE (n + {i}) % 5 WHEN 0 THEN NULL WHEN 1 THEN '{{}}' WHEN 2 THEN ARRAY[c{i}] ELSE "
        f"ARRAY[c{i}, lag(c{i}) OVER (ORDER BY n), NULL, c{i}] END::{name}[]"
    )


def same(view: View, one: Any, other: Any) -> bool:  # noqa: ANN401
    if view is JSON or view == array_of(JSON):
        return bool(parsed(one) == parsed(other))
    return repr(one) == repr(other)  # NaN is not equal to itself, and 0 is to -0


def parsed(value: Any) -> Any:  # noqa: ANN401
    match value:
        case list():
            return [parsed(element) for element in value]
        case str():
            return json.loads(value, parse_float=Decimal, parse_int=Decimal)
        case _:
            return value


MOST_VIEWS = max(len(column.views) for column in columns())
