"""The schema of a table, from a Relation message that was collected."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Row, SparkSession
from pyspark.sql.types import StructField, StructType

from spark_pgoutput.functions import pgoutput_schema
from spark_pgoutput.schema import message_schema


def schema_of(relation_row: Row, options: Mapping[str, str] | None = None) -> StructType:
    """Give the Spark schema of a table, as `spark_pgoutput.functions.pgoutput_row` takes it.

    It is asked of the active session.

    Parameters
    ----------
    relation_row : Row
        The field ``relation`` of a collected row of `pgoutput_decode`'s struct.
    options : mapping of str to str, optional
        As for `spark_pgoutput.functions.pgoutput_row`, of which ``type.<oid>`` tells what types are
        whose oids PostgreSQL does not fix.

    Returns
    -------
    StructType
        With the names of PostgreSQL's types in the columns' comments.

    Examples
    --------
    >>> from spark_pgoutput import functions as PF, schema_of
    >>> relation = "520000404a7075626c6963006f726465727300640001016964000000001400000000"
    >>> df = spark.createDataFrame([(bytearray.fromhex(relation),)], "data binary")
    >>> row = df.select(PF.pgoutput_decode("data")["relation"].alias("relation")).first()
    >>> schema_of(row.relation)["id"].dataType
    LongType()
    """
    found = relation_ddl(SparkSession.active(), relation_row, options)
    schema = StructType.fromDDL(found) if found else StructType()
    assert isinstance(schema, StructType)
    return schema


def relation_ddl(
    spark: SparkSession, relation_row: Row, options: Mapping[str, str] | None = None
) -> str | None:
    """Give the schema as DDL; None where there is no relation."""
    relation = StructField("relation", message_schema()["relation"].dataType)
    frame = spark.createDataFrame([(relation_row,)], StructType([relation]))
    ddl: str | None = frame.select(pgoutput_schema("relation", options)).collect()[0][0]
    return ddl
