"""Calls of the SQL functions."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from spark_pgoutput.arguments import ColumnOrName, Options, options_map
from spark_pgoutput.registration import require_functions_in_any_session


def call_function(name: str, *arguments: ColumnOrName, options: Options | None = None) -> Column:
    """Call a SQL function, on Classic and on Connect.

    Parameters
    ----------
    name : str
        The name of the function.
    *arguments : Column or str
        Columns or their names.
    options : mapping of str to str, number, bool or None, optional
        The function's last argument.

    Raises
    ------
    RuntimeError
        If Spark does not have the functions.
    """
    require_functions_in_any_session()
    return F.call_function(name, *arguments, *([] if options is None else [options_map(options)]))
