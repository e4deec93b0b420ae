"""Decode PostgreSQL's logical replication messages (pgoutput) in Spark SQL.

The functions are in `spark_pgoutput.functions`; `changes` and `open_transactions` go on from the
messages to the changes of tables. A session has them once it was made by a builder that `configure`
has seen, or once `register` has been called with it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from spark_pgoutput.jar import jar_path

if TYPE_CHECKING:
    from spark_pgoutput.registration import configure, register
    from spark_pgoutput.relation_schema import schema_of
    from spark_pgoutput.schema import message_schema
    from spark_pgoutput.table_changes import changes, open_transactions

__all__ = [
    "changes",
    "configure",
    "jar_path",
    "message_schema",
    "open_transactions",
    "register",
    "schema_of",
]

# Imported on first use: with a Spark that was not installed by pip there is no pyspark to import
# for `spark-submit --jars $(spark-pgoutput jar-path)`.
_NEED_PYSPARK = {
    "changes": "spark_pgoutput.table_changes",
    "configure": "spark_pgoutput.registration",
    "open_transactions": "spark_pgoutput.table_changes",
    "register": "spark_pgoutput.registration",
    "message_schema": "spark_pgoutput.schema",
    "schema_of": "spark_pgoutput.relation_schema",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401
    if name not in _NEED_PYSPARK:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_NEED_PYSPARK[name]), name)
