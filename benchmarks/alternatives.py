"""Two ways to the same data without this package: decode in Python, or read JSON."""

from __future__ import annotations

import pandas as pd
from pypgoutput.decoders import Begin, Commit, Delete, Insert, Relation, Truncate, Update
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.functions import pandas_udf

from benchmarks.queries import CHANGE, CHANGE_TYPE

_DECODERS = {
    ord(tag): decoder
    for tag, decoder in {
        "B": Begin,
        "C": Commit,
        "D": Delete,
        "I": Insert,
        "R": Relation,
        "T": Truncate,
        "U": Update,
    }.items()
}


def register_pypgoutput(spark: SparkSession) -> None:
    """Register the decoders of the package pypgoutput as the SQL function `pypgoutput_decode`.

    Parameters
    ----------
    spark : SparkSession
        The session that gets the function.
    """
    result = "type STRING, relation_id BIGINT, new ARRAY<STRING>"
    decode = pandas_udf(_decode, result)  # type: ignore[call-overload]
    spark.udf.register("pypgoutput_decode", decode)


def changes(messages: DataFrame) -> DataFrame:
    """Convert messages to JSON.

    Parameters
    ----------
    messages : DataFrame
        With the message in the column `data`.

    Returns
    -------
    DataFrame
        The message as JSON in the column `change`.
    """
    decoded = messages.selectExpr("pgoutput_decode(data) AS d")
    return decoded.selectExpr(f"to_json({CHANGE}) AS change")


def require_same_answers(messages: DataFrame) -> None:
    """Check that the alternatives give the same values as `pgoutput_decode`.

    Parameters
    ----------
    messages : DataFrame
        With the message in the column `data`; the session has `pypgoutput_decode`.

    Raises
    ------
    RuntimeError
        If an alternative gives another value.
    """
    decoded = messages.selectExpr("data", "pgoutput_decode(data) AS d")
    # Spark removes from_json(to_json(…)) from a query that has both, so the JSON is cached.
    written = decoded.selectExpr("d", f"to_json({CHANGE}) AS change").cache()
    json = written.selectExpr(f"from_json(change, '{CHANGE_TYPE}') <=> {CHANGE} AS same")
    udf = decoded.selectExpr("d", "pypgoutput_decode(data) AS p").selectExpr(
        "p <=> named_struct('type', d.type, 'relation_id', d.relation_id, 'new', d.new.text) "
        "AS same"
    )
    for name, answers in (("from_json", json), ("pypgoutput", udf)):
        different = answers.where("NOT same").count()
        if different:
            raise RuntimeError(f"{name} gives other values for {different:,} messages")
    written.unpersist()


def _decode(data: pd.Series) -> pd.DataFrame:
    rows = []
    for message in data:
        decoded = _DECODERS[message[0]](message)
        new = getattr(decoded, "new_tuple", None)
        rows.append(
            (
                type(decoded).__name__.upper(),
                getattr(decoded, "relation_id", None),
                None if new is None else [cell.col_data for cell in new.column_data],
            )
        )
    columns = pd.DataFrame(rows, columns=["type", "relation_id", "new"])
    return columns.astype({"relation_id": "Int64"})
