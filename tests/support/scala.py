"""Scala's collections, made through Py4J."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def seq(jvm: Any, values: Iterable[object]) -> Any:  # noqa: ANN401 - objects of the JVM
    """Return values as Scala's Seq."""
    made = jvm.java.util.ArrayList()
    for value in values:
        made.add(value)
    return jvm.scala.jdk.javaapi.CollectionConverters.asScala(made).toSeq()


def map_of(jvm: Any, entries: Mapping[Any, str]) -> Any:  # noqa: ANN401 - objects of the JVM
    """Return entries as Scala's immutable Map."""
    pairs = seq(jvm, [jvm.scala.Tuple2(key, value) for key, value in entries.items()])
    return getattr(jvm.scala.collection.immutable.Map, "from")(pairs)
