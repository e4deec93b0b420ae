"""Text and binary captures of the same server give the same typed rows, for every table."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StringType, StructField, StructType

from spark_pgoutput import functions as PF
from support.data_files import TEXT_DEPENDS_ON_SETTINGS, VERSIONS, capture, declared_types
from support.server_values import range_type

TUPLES = ("key", "old", "new")

# A sample of the one large table, which has few different values.
SAMPLE_STEP = 17

# These values do not fit the default type: infinite dates, dates BC and after the year 9999, and
# arrays of several dimensions, because the type int4[] does not say the number of dimensions.
DO_NOT_FIT = {
    "c_date": {"infinity", "4713-01-01 BC"},
    "c_ts": {"infinity", "4713-01-01 00:00:00 BC"},
    "c_tstz": {"-infinity", "294276-12-31 23:59:59.999999+00"},
    "a_2d": {"{{1,2},{3,4}}", "{{{1}},{{2}}}"},
    "a_ts": {'{"2020-01-01 00:00:00+00",infinity}'},
}

OTHER_TYPES = {
    "c_int2": "DECIMAL(5,0)",
    "c_int8": "STRING",
    "c_f4": "DOUBLE",
    "c_num": "DOUBLE",
    "c_num102": "DECIMAL(20,5)",
    "c_money": "DECIMAL(22,4)",
    "c_ts": "TIMESTAMP",
    "c_tstz": "TIMESTAMP_NTZ",
    "c_interval": "INTERVAL DAY TO SECOND",
    "c_json": "VARIANT",
    "c_jsonb": "VARIANT",
    "c_i4r": range_type("INT"),
    "c_nr": range_type("DECIMAL(4,2)"),
    "c_tr": range_type("TIMESTAMP_NTZ"),
    "c_tzr": range_type("TIMESTAMP"),
    "c_dr": range_type("DATE"),
    "c_pair": "STRUCT<a: INT, b: STRING>",
    "a_int": "VARIANT",
    "a_2d": "ARRAY<ARRAY<INT>>",
    "a_num": "ARRAY<DOUBLE>",
    "a_ts": "ARRAY<TIMESTAMP_NTZ>",
    "a_uuid": "ARRAY<STRING>",
    "a_json": "ARRAY<VARIANT>",
}


class Change(NamedTuple):
    """A change, and the Relation message of its table."""

    version: str
    format: str
    seq: int
    data: bytes
    relation: bytes


@cache
def changes() -> list[Change]:
    return [
        Change(version, format_, seq, data, relation)
        for version in VERSIONS
        for format_ in ("text", "binary")
        for seq, data, relation in with_relations(capture(f"{version}-v1-stream_off-{format_}"))
        if seq % SAMPLE_STEP == 0 or b"\0streamed\0" not in relation
    ]


def with_relations(messages: Iterable[bytes]) -> Iterator[tuple[int, bytes, bytes]]:
    relations: dict[bytes, bytes] = {}
    for seq, data in enumerate(messages):
        if data[:1] == b"R":
            relations[data[1:5]] = data
        elif data[:1] in (b"I", b"U", b"D"):
            yield seq, data, relations[data[1:5]]


def frame_of(spark: SparkSession, some: list[Change]) -> DataFrame:
    columns = {name: [getattr(change, name) for change in some] for name in Change._fields}
    decoded = {
        "d": PF.pgoutput_decode("data", False),
        "r": PF.pgoutput_decode("relation", False)["relation"],
    }
    return spark.createDataFrame(pa.table(columns)).withColumns(decoded)


@pytest.fixture(scope="module")
def schemas(spark: SparkSession) -> dict[tuple[str, bytes], str]:
    """Give the results of pgoutput_schema by version and Relation message."""
    found = {}
    for version in VERSIONS:
        distinct = {c.relation: c for c in changes() if c.version == version}
        frame = frame_of(spark, list(distinct.values()))
        ddl = PF.pgoutput_schema("r", declared_types(version)).alias("ddl")
        for row in frame.select("relation", ddl).collect():
            found[version, bytes(row.relation)] = row.ddl
    return found


def is_all_types(change: Change) -> bool:
    return b"\0all_types\0" in change.relation


def groups(
    schemas: Mapping[tuple[str, bytes], str],
) -> dict[tuple[str, str], list[Change]]:
    """Group the changes by schema, and those of the table of all types by version too."""
    grouped = defaultdict(list)
    for change in changes():
        version = change.version if is_all_types(change) else VERSIONS[0]
        grouped[version, schemas[change.version, change.relation]].append(change)
    return grouped


Cells = dict[tuple[str, int, str, str], tuple[str, Any]]


def cells_by_format(
    spark: SparkSession,
    some: list[Change],
    schema: StructType,
    options: Mapping[str, str],
) -> dict[str, Cells]:
    """Return the values of text and of binary messages, with the kind of each cell.

    The values are in JSON, because Python has no timestamps after the year 9999, and NaN is not
    equal to itself.
    """

    def row(tuple_: str) -> Column:
        return PF.pgoutput_row(tuple_, schema, "r.columns.type_id", options)

    rows = [
        F.struct(
            F.to_json(row(f"d.{name}"), {"ignoreNullFields": "false"}).alias("row"),
            F.translate(f"d.{name}.kinds", "tb", "vv").alias("kinds"),
        ).alias(name)
        for name in TUPLES
    ]
    found: dict[str, Cells] = {"text": {}, "binary": {}}
    for collected in frame_of(spark, some).select("version", "format", "seq", *rows).collect():
        for name in TUPLES:
            json_text, kinds = collected[name]
            if json_text is not None:
                values = json.loads(json_text, parse_float=str)
                for (column, value), kind in zip(values.items(), kinds, strict=True):
                    key = (collected.version, collected.seq, name, column)
                    found[collected.format][key] = (kind, value)
    return found


def as_schema(ddl: str, types: Mapping[str, DataType] | None = None) -> StructType:
    schema = StructType.fromDDL(ddl)
    assert isinstance(schema, StructType)
    if types is None:
        return schema
    return StructType([StructField(f.name, types.get(f.name, f.dataType)) for f in schema])


@pytest.mark.takes_long
def test_tables_of_common_types_are_equal_in_text_and_binary(
    spark: SparkSession, schemas: dict[tuple[str, bytes], str]
) -> None:
    """All values fit their types, unlike in the next tests."""
    seen = 0
    for (_, ddl), some in groups(schemas).items():
        if not is_all_types(some[0]) and ddl:
            cells = cells_by_format(spark, some, as_schema(ddl), {"mode": "FAILFAST"})
            assert cells["text"] == cells["binary"]
            for kind, value in cells["text"].values():
                assert (value is None) == (kind in "nu")
            seen += len(cells["text"])
    assert seen > 40_000


def all_types(
    schemas: dict[tuple[str, bytes], str],
) -> Iterator[tuple[str, str, list[Change]]]:
    for (version, ddl), some in groups(schemas).items():
        if is_all_types(some[0]):
            yield version, ddl, some


def test_all_types_are_equal_in_text_and_binary(
    spark: SparkSession, schemas: dict[tuple[str, bytes], str]
) -> None:
    versions = []
    for version, ddl, some in all_types(schemas):
        options = declared_types(version)
        default = as_schema(ddl)
        strings = as_schema(ddl, dict.fromkeys(default.names, StringType()))
        texts = cells_by_format(spark, some, strings, options)
        for key, (kind, text) in texts["text"].items():
            if key[-1] not in TEXT_DEPENDS_ON_SETTINGS:
                assert texts["binary"][key] == (kind, text), key
        values = cells_by_format(spark, some, default, {**options, "mode": "PERMISSIVE"})
        assert values["text"] == values["binary"]
        do_not_fit = defaultdict(set)
        for key, (kind, value) in values["text"].items():
            if value is None and kind not in "nu":
                do_not_fit[key[-1]].add(texts["text"][key][1])
        assert do_not_fit == DO_NOT_FIT
        versions.append(version)
    assert versions == list(VERSIONS)


def test_all_types_read_as_other_types_are_equal_in_text_and_binary(
    spark: SparkSession, schemas: dict[tuple[str, bytes], str]
) -> None:
    for version, ddl, some in all_types(schemas):
        types = {name: as_schema(f"c {other}")["c"].dataType for name, other in OTHER_TYPES.items()}
        options = {**declared_types(version), "infinity": "clamp", "mode": "PERMISSIVE"}
        values = cells_by_format(spark, some, as_schema(ddl, types), options)
        assert values["text"] == values["binary"]
        read = {key[-1] for key, (_, value) in values["text"].items() if value is not None}
        # The servers were built without libxml: an xml value is always NULL.
        assert read == set(as_schema(ddl).names) - {"c_xml"}
