"""Decode PostgreSQL's logical replication messages (pgoutput) in Spark SQL.

The module `spark_pgoutput.functions` has the functions for columns. `changes` and
`open_transactions` turn messages into the committed changes of tables. `replicate` keeps tables of
Delta or Iceberg equal to those of a server. A session has all of them if its builder went through
`configure`, or after you call `register` with it.
"""

from __future__ import annotations

import importlib
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from spark_pgoutput.jar import jar_path

if TYPE_CHECKING:
    from spark_pgoutput.checkpoint import adopt, applied, resync
    from spark_pgoutput.configuration import configure
    from spark_pgoutput.registration import register
    from spark_pgoutput.replication import Replication, replicate
    from spark_pgoutput.schema import message_schema, schema_of
    from spark_pgoutput.table_changes import changes, open_transactions
    from spark_pgoutput.verification import verify

    __version__: str

__all__ = [
    "Replication",
    "adopt",
    "applied",
    "changes",
    "configure",
    "jar_path",
    "message_schema",
    "open_transactions",
    "register",
    "replicate",
    "resync",
    "schema_of",
    "verify",
]

# These modules import pyspark, so they are imported on first use. If Spark was not installed by
# pip, there is no pyspark to import, and `spark-submit --jars $(spark-pgoutput jar-path)` still
# works.
_NEED_PYSPARK = {
    "checkpoint": ("adopt", "applied", "resync"),
    "configuration": ("configure",),
    "registration": ("register",),
    "replication": ("Replication", "replicate"),
    "schema": ("message_schema", "schema_of"),
    "table_changes": ("changes", "open_transactions"),
    "verification": ("verify",),
}


def __getattr__(name: str) -> Any:  # noqa: ANN401
    if name == "__version__":
        return version("spark-pgoutput")
    if name == "functions":
        return importlib.import_module("spark_pgoutput.functions")
    for module, names in _NEED_PYSPARK.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__", "functions"]
