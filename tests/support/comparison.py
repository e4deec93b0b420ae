"""Spark's Python workers compare what Spark decoded with what the reference decoder decodes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame

from support import reference_decoder as reference

# If all rows differ, a few of them show why.
SHOWN = 3

ERROR = re.compile(
    r"(?P<message>[A-Z_]+|unknown message) at byte (?P<at>\d+)( \((?P<place>[^)]+)\))?: "
    r"(?P<problem>.+); message of (?P<size>\d+) bytes?: (?P<excerpt>[0-9a-f]+…?)"
)


class Comparison(NamedTuple):
    """The number of rows, the number of decoded messages among them, and Spark's mistakes."""

    rows: int
    decoded: int
    differences: list[str]


def compare(frame: DataFrame, encoding: str = "utf-8") -> Comparison:
    """Compare each row: does the reference decode `data` and `in_stream` to `decoded`?

    If the frame has a column `error`, its text must name the byte that the reference names.
    """

    def compare_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            differences = list(_differences(batch, encoding))
            decoded = batch.num_rows - batch.column("decoded").null_count
            counts = {"rows": [batch.num_rows], "decoded": [decoded]}
            columns = {**counts, "differences": [differences[:SHOWN]]}
            yield pa.RecordBatch.from_pydict(columns, schema)

    schema = pa.schema(
        [
            ("rows", pa.int64()),
            ("decoded", pa.int64()),
            ("differences", pa.list_(pa.string())),
        ]
    )
    ddl = "rows bigint, decoded bigint, differences array<string>"
    batches = frame.mapInArrow(compare_batches, ddl).collect()
    return Comparison(
        sum(batch["rows"] for batch in batches),
        sum(batch["decoded"] for batch in batches),
        [difference for batch in batches for difference in batch["differences"]][:SHOWN],
    )


def error_of(data: bytes, text: str) -> re.Match[str]:
    """Return the parts of an error's text. The error must belong to this message."""
    error = ERROR.fullmatch(text)
    assert error is not None, text
    assert int(error["size"]) == len(data), text
    assert error["excerpt"] == data[:32].hex() + ("…" if len(data) > 32 else ""), text
    return error


def _differences(batch: pa.RecordBatch, encoding: str) -> Iterator[str]:
    """Yield a text for each row that differs from what the reference decodes."""
    messages = list(
        zip(batch.column("data").to_pylist(), batch.column("in_stream").to_pylist(), strict=True)
    )
    outcomes = [_decode(data, in_stream, encoding) for data, in_stream in messages]
    decoded = _with_numbers_for_timestamps(batch.column("decoded"))
    expected = pa.array([_as_spark_has_it(fields) for fields, _ in outcomes], decoded.type)
    if not decoded.equals(expected):
        for message, is_so, should_be in zip(messages, decoded, expected, strict=True):
            if is_so != should_be:
                yield f"{_shown(message)}\nis        {is_so}\nshould be {should_be}"
    if "error" in batch.schema.names:
        errors = batch.column("error").to_pylist()
        for message, (_, at), text in zip(messages, outcomes, errors, strict=True):
            is_at = None if text is None else int(error_of(message[0], text)["at"])
            if is_at != at:
                yield f"{_shown(message)}\nerror     {text}\nshould be at byte {at}"


def _shown(message: tuple[bytes | None, bool | None]) -> str:
    data, in_stream = message
    return f"{None if data is None else data.hex()}, in_stream {in_stream}"


def _decode(
    data: bytes | None, in_stream: bool | None, encoding: str
) -> tuple[reference.Fields | None, int | None]:
    """Return the fields, or the byte where the message is malformed."""
    try:
        return None if data is None else reference.decode(data, in_stream, encoding), None
    except reference.Malformed as malformed:
        return None, malformed.at


def _with_numbers_for_timestamps(decoded: pa.StructArray) -> pa.StructArray:
    """Replace timestamps, because Python has none after the year 9999, unlike Spark."""
    fields = {
        field.name: values.cast(pa.int64()) if pa.types.is_timestamp(field.type) else values
        for field, values in zip(decoded.type, decoded.flatten(), strict=True)
    }
    return pa.StructArray.from_arrays(
        list(fields.values()), list(fields.keys()), mask=decoded.is_null()
    )


def _as_spark_has_it(fields: reference.Fields | None) -> reference.Fields | None:
    """Return bytes for the binary values, which the reference decoder gives in hexadecimal."""
    if fields is None:
        return None
    binary: dict[str, Any] = {}
    if "content" in fields:
        binary["content"] = bytes.fromhex(fields["content"])
    for part in fields.keys() & {"key", "old", "new"}:
        binary[part] = {**fields[part], "binary": _bytes_of(fields[part]["binary"])}
    return {**fields, **binary}


def _bytes_of(cells: Iterable[str | None] | None) -> list[bytes | None] | None:
    if cells is None:
        return None
    return [None if cell is None else bytes.fromhex(cell) for cell in cells]
