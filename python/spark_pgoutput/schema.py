"""The struct that a message decodes to, and the schema of a table from a Relation message."""

from __future__ import annotations

from pyspark.sql import Row, SparkSession
from pyspark.sql.types import StructField, StructType

from spark_pgoutput.arguments import Options, checked
from spark_pgoutput.functions import pgoutput_schema
from spark_pgoutput.jar import jar_json

_EXPECTED = "the field 'relation' of a collected row of pgoutput_decode's struct"


def message_schema() -> StructType:
    """Return the struct that `spark_pgoutput.functions.pgoutput_decode` returns.

    It is flat. A field is NULL if it does not apply to the type of message. Each field has a
    comment. You need no session, because Python reads the struct from the JAR.

    Returns
    -------
    StructType
        The decoder's struct, with its comments.

    Examples
    --------
    >>> from spark_pgoutput import message_schema
    >>> message_schema()["lsn"].dataType
    LongType()
    """
    return StructType.fromJson(jar_json("message-schema.json"))


def schema_of(relation_row: Row, options: Options | None = None) -> StructType:
    """Return the Spark schema of a table, for `spark_pgoutput.functions.pgoutput_row`.

    It runs a small query in the active session.

    Parameters
    ----------
    relation_row : Row
        The field ``relation`` of a collected row of the struct that `pgoutput_decode` returns. Only
        Relation messages have it.
    options : mapping of str to str, number, bool or None, optional
        The options of `spark_pgoutput.functions.pgoutput_row`. Only ``type.<oid>`` matters here: it
        names the type behind an oid that PostgreSQL does not fix.

    Returns
    -------
    StructType
        The columns, with the names of PostgreSQL's types in their comments.

    Raises
    ------
    TypeError
        If `relation_row` is not a Row.
    ValueError
        If `relation_row` is None, as it is for a message other than a Relation message, or has
        other fields than ``relation``.

    Examples
    --------
    >>> from spark_pgoutput import functions as PF, schema_of
    >>> relation = "520000404a7075626c6963006f726465727300640001016964000000001400000000"
    >>> df = spark.createDataFrame([(bytearray.fromhex(relation),)], "data binary")
    >>> row = df.select(PF.pgoutput_decode("data")["relation"].alias("relation")).first()
    >>> schema_of(row.relation)["id"].dataType
    LongType()
    """
    relation = message_schema()["relation"].dataType
    assert isinstance(relation, StructType)
    _check(relation_row, relation.names)
    message = StructType([StructField("relation", relation)])
    frame = SparkSession.active().createDataFrame([(relation_row,)], message)
    (row,) = frame.select(pgoutput_schema("relation", options)).collect()
    schema = StructType.fromDDL(row[0])
    assert isinstance(schema, StructType)
    return schema


def _check(row: Row, names: list[str]) -> None:
    if row is None:
        raise ValueError(
            f"The argument 'relation_row' is None. It must be {_EXPECTED}. Only Relation messages "
            "have it: filter the messages on type = 'RELATION'."
        )
    fields = checked("relation_row", _EXPECTED, row, Row).asDict()
    if list(fields) != names:
        raise ValueError(
            f"The argument 'relation_row' must be {_EXPECTED}, with the fields "
            f"{', '.join(names)}. This Row has the fields {', '.join(fields)}."
        )
    if fields["columns"] is None:
        raise ValueError("The columns of the argument 'relation_row' are None.")
