"""The schema of a table, from the messages of a replication stream."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ByteType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
)

from spark_pgoutput.functions import try_pgoutput_decode
from spark_pgoutput.relation_schema import relation_ddl

# As the option `tables` has it, but for a namespace's tables together.
_PART = r'"(?:[^"]|"")+"|`(?:[^`]|``)+`|[^\s"`.,*]+'
_NAME = re.compile(rf"\s*({_PART})\s*(?:\.\s*({_PART})\s*)?")

_DIGITS: dict[type[DataType], int] = {ByteType: 3, ShortType: 5, IntegerType: 10, LongType: 19}
_MAX_DIGITS = 38


class TableSchemas:
    """The layouts that a table had, in order, by its Relation messages.

    Parameters
    ----------
    messages : DataFrame
        Its columns are position, message and source, which tells streams apart.
    table : str
        The table's name as it is written in SQL; without a namespace one in public.
    options : mapping of str to str
        Those of `pgoutput_row`.
    """

    def __init__(self, messages: DataFrame, table: str, options: Mapping[str, str]) -> None:
        self._spark = messages.sparkSession
        namespace, name = _parsed(table)
        decoded = try_pgoutput_decode(
            "message", options={key: value for key, value in options.items() if key == "encoding"}
        )
        # What does not decode is left to those who read the changes: they say where it stands.
        definitions = (
            messages.where(F.substring("message", 1, 1).isin(F.lit(b"R"), F.lit(b"Y")))
            .where("position IS NOT NULL")
            .select("position", "source", decoded.alias("d"))
            .select("position", "source", "d.relation", "d.pg_type")
            .where(_is_table(namespace, name) | (F.col("pg_type.namespace") == ""))
            .groupBy("source", "relation", "pg_type")
            .agg(F.min("position").alias("first"), F.max("position").alias("last"))
            .collect()
        )
        self._relations = [row for row in definitions if row.relation is not None]
        self._base_types = sorted(
            (row for row in definitions if row.pg_type is not None), key=lambda row: row.last
        )
        self._declared = {key: value for key, value in options.items() if key.startswith("type.")}
        if not self._relations:
            raise ValueError(
                f"there is no Relation message of the table {table} ({namespace}.{name}) among the "
                "messages: give its schema, or name a view with earlier messages in the option "
                "'relations'"
            )

    def last(self) -> str:
        """Give the schema of the last layout as DDL."""
        return self._ddl(max(self._relations, key=lambda row: row.last))

    def union(self) -> StructType:
        """Give the columns of all layouts, in order of first appearance, with types for all."""
        ordered = sorted(self._relations, key=lambda row: row.first)
        layouts = [self._spark.createDataFrame([], self._ddl(row)).schema for row in ordered]
        fields: dict[str, StructField] = {}
        for field in (field for layout in layouts for field in layout):
            key = field.name if self._is_case_sensitive() else field.name.lower()
            fields[key] = _merged(fields[key], field) if key in fields else field
        return StructType(list(fields.values()))

    def _is_case_sensitive(self) -> bool:
        return self._spark.conf.get("spark.sql.caseSensitive") == "true"

    def _ddl(self, found: Row) -> str:
        """Of a domain, whose oid is not fixed, a Type message names the base type."""
        domains = {
            f"type.{row.pg_type.id}": row.pg_type.name
            for row in self._base_types
            if row.source == found.source
        }
        ddl = relation_ddl(self._spark, found.relation, {**domains, **self._declared})
        assert ddl is not None
        return ddl


def _is_table(namespace: str, name: str) -> Column:
    """Tell whether a row has the table's Relation message.

    An empty namespace is sent for pg_catalog.
    """
    sent = "" if namespace == "pg_catalog" else namespace
    return (F.col("relation.namespace") == sent) & (F.col("relation.name") == name)


def _parsed(table: str) -> tuple[str, str]:
    """Give the namespace and the name."""
    found = _NAME.fullmatch(table)
    if found is None:
        raise ValueError(
            f"'{table}' is no table's name; valid are names such as public.orders, orders for one "
            'in public, or "My"."Table"'
        )
    first, second = found.groups()
    return ("public", _unquoted(first)) if second is None else (_unquoted(first), _unquoted(second))


def _unquoted(part: str) -> str:
    quote = part[0]
    return part[1:-1].replace(quote * 2, quote) if quote in '"`' else part.lower()


def _merged(one: StructField, other: StructField) -> StructField:
    """Give a column that takes those of two layouts."""
    if one.dataType == other.dataType:
        return StructField(one.name, one.dataType, metadata=other.metadata)
    return StructField(one.name, _common_type(one.dataType, other.dataType))


def _common_type(one: DataType, other: DataType) -> DataType:
    """Give a number's type that takes both exactly, else STRING, which every type can be."""
    pair = {type(one), type(other)}
    if pair == {FloatType, DoubleType}:
        return DoubleType()
    if pair <= _DIGITS.keys():
        return max(one, other, key=lambda number: _DIGITS[type(number)])
    if pair <= {*_DIGITS, DecimalType}:
        decimals = [_as_decimal(one), _as_decimal(other)]
        scale = max(number.scale for number in decimals)
        digits = max(number.precision - number.scale for number in decimals) + scale
        if digits <= _MAX_DIGITS:
            return DecimalType(digits, scale)
    return StringType()


def _as_decimal(number: DataType) -> DecimalType:
    return number if isinstance(number, DecimalType) else DecimalType(_DIGITS[type(number)], 0)
