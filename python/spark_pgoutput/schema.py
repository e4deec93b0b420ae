"""The struct that a message decodes to."""

from __future__ import annotations

import json
import zipfile

from pyspark.sql.types import StructType

from spark_pgoutput.jar import jar_path


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
    with zipfile.ZipFile(jar_path()) as jar:
        return StructType.fromJson(json.loads(jar.read("io/sparkpgoutput/message-schema.json")))
