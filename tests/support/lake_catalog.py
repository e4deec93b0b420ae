"""The tables of a server, as a job of `replicate` sees them, through Py4J."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from support import scala
from support.source import SourceClient

JavaObject = Any


class LakeCatalog:
    """The tables of a server's publications.

    Parameters
    ----------
    client : SourceClient
        The connections to the server.
    """

    def __init__(self, client: SourceClient) -> None:
        self._client = client
        self._package = client.jvm.io.sparkpgoutput.lake.catalog

    def tables(self, *publications: str) -> dict[str, JavaObject]:
        """Return the tables by their names."""
        names = self._client.seq(publications)
        found = self._package.PublishedTables.read(self._client.sql, names, True)
        return {table.name().toString(): table for table in elements(found)}

    def table(self, oid: int, *publications: str) -> JavaObject | None:
        """Return one table, or None if the publications do not have it under its own name."""
        names = self._client.seq(publications)
        found = self._package.PublishedTables.readOne(self._client.sql, names, oid)
        return found.get() if found.isDefined() else None

    def fingerprint(self, *publications: str, oids: Sequence[int] | None = None) -> JavaObject:
        """Return the fingerprints of the wanted tables, or of all."""
        wanted = self._client.option(None if oids is None else self._client.seq(oids))
        names = self._client.seq(publications)
        return self._package.CatalogFingerprint.read(self._client.sql, names, wanted)

    def hashes(self, *publications: str, oids: Sequence[int] | None = None) -> dict[int, str]:
        """Return the hashes of the wanted tables, or of all, by their oids."""
        pairs = elements(self.fingerprint(*publications, oids=oids).byOid().toSeq())
        return {pair._1(): pair._2() for pair in pairs}

    def readiness(
        self, *publications: str, tables: dict[str, JavaObject] | None = None
    ) -> tuple[list[str], dict[str, list[str]]]:
        """Return what is missing for the whole job, and for tables by their names."""
        tables = tables or self.tables(*publications)
        found = self._package.ServerReadiness.of(
            self._client.sql, self._client.seq(tables.values()), self._client.seq(publications)
        )
        missing = {pair._1(): elements(pair._2()) for pair in elements(found.tables().toSeq())}
        names = {table.oid(): name for name, table in tables.items()}
        return elements(found.job()), {names[oid]: texts for oid, texts in missing.items()}

    def published_sql(self, version: int) -> str:
        """Return a query of the tables, which has the names of publications as its parameter."""
        tables = self._client.jvm.io.sparkpgoutput.source.table
        relations = tables.PublishedRelations
        return f"""{relations.of(version, tables.WantedFilters.All())}
            SELECT p.pubname, n.nspname, c.relname, t.row_filter,
              array_agg(a.attname ORDER BY a.attnum) FILTER (WHERE {relations.isSent(version, "a")})
            FROM published t
            JOIN pg_publication p ON p.oid = t.publication JOIN pg_class c ON c.oid = t.relation
            JOIN pg_namespace n ON n.oid = c.relnamespace
            JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
            GROUP BY 1, 2, 3, 4""".replace("?", "%s")

    def compare(self, kept: JavaObject, now: JavaObject) -> str | list[str]:
        """Return the changes of a table as texts, or the reason to copy it again."""
        taken = getattr(self._client.jvm.scala.collection.immutable.Set, "from")(
            self._client.seq([])
        )
        found = self._package.TableComparison.compare(kept, now, taken)
        if found.isLeft():
            return str(found.left().get())
        changes = found.right().get()
        reason = self._package.TableEvidence.reason(self._client.sql, kept, changes)
        if reason.isDefined():
            return str(reason.get())
        return [shown(change) for change in elements(changes)]

    def mirrored(
        self,
        table: JavaObject,
        target: str = "t",
        types: Mapping[str, str] | None = None,
        pg_types: Mapping[str, str] | None = None,
    ) -> JavaObject:
        """Return a table with the types that its columns have in the target."""
        jvm = self._client.jvm
        targets = scala.map_of(jvm, {table.oid(): target})
        given, by_type = scala.map_of(jvm, types or {}), scala.map_of(jvm, pg_types or {})
        tables = self._client.seq([table])
        errors = elements(self._package.MirroredTables.unusedTypes(tables, given)) + elements(
            self._package.MirroredTables.unknownPgTypes(self._client.sql, by_type)
        )
        for error in errors:
            jvm.scala.util.Failure(error).get()  # raises it
        # The function that returns its argument.
        identity = getattr(getattr(jvm.scala, "$less$colon$less$"), "MODULE$").refl()
        (found,) = elements(
            self._package.MirroredTables.each(
                self._client.sql, tables, targets, given, by_type, identity
            )
        )
        return found.toTry(identity).get()  # raises the reason if the target cannot have the table


def elements(found: JavaObject) -> list[Any]:
    """Return the elements of a sequence of Scala."""
    return [found.apply(index) for index in range(found.size())]


def names(found: JavaObject) -> list[str]:
    """Return the names of columns or partitions."""
    return [_text(one.name()) for one in elements(found)]


def shown(change: JavaObject) -> str:
    """Return a change of a table as a short text."""
    kind = change.productPrefix()
    parts = [change.productElement(index) for index in range(change.productArity())]
    return " ".join([kind, *(_text(part.name()) for part in parts)])


def _text(name: str | JavaObject) -> str:
    return name if isinstance(name, str) else str(name.toString())
