package io.sparkpgoutput.lake.fold

import scala.util.Random

import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.catalyst.{CatalystTypeConverters, InternalRow}
import org.apache.spark.sql.types.{IntegerType, StringType, StructType}

import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.changes.StreamMessages
import io.sparkpgoutput.changes.batch.{BatchChanges, WholeTransactionReader}
import io.sparkpgoutput.changes.rows.{ChangeFilter, ChangeSchema, ChangeType, TableFormat}
import io.sparkpgoutput.lake.apply.CutOfServer.Messages
import io.sparkpgoutput.lake.apply.{CutOfServer, ServerHistory, ServerTable, TypeOids}
import io.sparkpgoutput.lake.catalog.{ReplicaIdentity, TableMode}
import io.sparkpgoutput.lake.route.{ChangeChunk, ChangeFields, CutRouter}
import io.sparkpgoutput.types.ConversionOptions

/** The rows of histories, compared with those of `pgoutput_changes`. */
class HistoryRowsSuite extends AnyFunSuite {
  private val unsafe = UnsafeProjection.create(ChangeFields.schema)
  private val ordinalName = ChangeSchema.schema(ChangeSchema.ORDINAL).name
  private val versionName = ChangeSchema.schema(ChangeSchema.COMMIT_VERSION).name

  private def schema(table: ServerTable): StructType =
    StructType(table.target.schema ++ TableMode.History.fields)

  private def rows(schema: StructType, found: Iterator[InternalRow]): Seq[Row] = {
    val converter = CatalystTypeConverters.createToScalaConverter(schema)
    found.map(row => converter(row).asInstanceOf[Row]).toVector
  }

  /** The rows of each table with changes, in the order of the history. */
  private def histories(
      batch: Messages,
      tables: Seq[ServerTable],
      names: Map[String, String] = Map.empty
  ): Map[Long, Seq[Row]] = {
    val targets = tables.map(_.target.copy(mode = TableMode.History("_")))
    targets.zip(tables).flatMap { case (target, table) =>
      val routed = Vector.newBuilder[UnsafeRow]
      val router =
        new CutRouter(target, 0, names, row => routed += unsafe(row).copy())
      CutOfServer(table.oid, batch, end = 0).foreach(router.take)
      router.summary.map { summary =>
        val sorted = routed.result()
          .sortBy(row => (row.getLong(ChangeFields.HASH), row.getLong(ChangeFields.LSN)))
        val format = FoldFormat.of(target, names, summary, ConversionOptions(), repairs = false)
        val chunks = ChangeChunk.pack(sorted.iterator)
        val found = rows(schema(table), ChangeFold.rows(format, chunks))
        assert(found.map(position).distinct == found.map(position))
        table.oid -> found.sortBy(position)
      }
    }.toMap
  }

  private def position(row: Row): (Long, Long) =
    (row.getAs[Long](versionName), row.getAs[Long](ordinalName))

  /** The rows that `pgoutput_changes` makes, with the same columns. */
  private def changes(batch: Messages, table: ServerTable): Seq[Row] = {
    val columns =
      TableFormat.Columns(table.target.schema, ignoreOthers = true, caseSensitive = true)
    val fields = TableMode.History.fields.map(field => ChangeSchema.schema.fieldIndex(field.name))
    val filter = ChangeFilter(tableNames = Some(Set(table.target.source.name.toString)))
    val reader =
      new WholeTransactionReader(BatchChanges.format(columns, fields).copy(filter = filter))
    rows(schema(table), batch.iterator.flatMap(message => reader.message(message._3)))
  }

  /** The values as texts, because NaN does not equal itself. */
  private def withoutOrdinal(row: Row): Seq[String] =
    row.toSeq.patch(row.fieldIndex(ordinalName), Nil, 1).map(String.valueOf)

  test("a history has the rows and the order of pgoutput_changes") {
    val seen = (1 to 60).flatMap { seed =>
      val server = new ServerHistory(new Random(seed))
      (1 to 3).flatMap { _ =>
        val batch = server.batch(8)
        val found = histories(batch, server.tables)
        server.tables.flatMap { table =>
          val rows = found.getOrElse(table.oid, Nil)
          assert(
            rows.map(withoutOrdinal) == changes(batch, table).map(withoutOrdinal),
            s"seed $seed, table ${table.name}"
          )
          rows
        }
      }
    }
    def types(rows: Seq[Row]) = rows.map(_.getAs[String]("_change_type")).distinct.sorted
    assert(types(seen) == ChangeType.all.map(_.name).sorted)
    assert(types(seen.filter(_.getAs[Seq[String]]("_missing").nonEmpty)).length >= 3)
    assert(seen.map(_.getAs[String]("_origin")).toSet == Set(null, "far"))
  }

  test(
    "a renamed column has all its values, and _keys and _missing have the names at each change"
  ) {
    val table = new ServerTable(
      61,
      "renamed",
      ReplicaIdentity.Default,
      Seq("key"),
      Seq("key" -> TypeOids.Int4, "text" -> TypeOids.Text),
      Seq("key" -> IntegerType, "text" -> StringType)
    )
    val before = StreamMessages.relation(
      Seq(
        StreamMessages.Column("id", isKey = true, TypeOids.Int4),
        StreamMessages.Column("body", isKey = false, TypeOids.Text)
      ),
      table.oid,
      table.name
    )
    val messages = Seq(
      before,
      StreamMessages.insert(Seq("1", "Ta"), oid = table.oid),
      StreamMessages.update(Seq("1", StreamMessages.Unchanged), oid = table.oid),
      table.relation,
      StreamMessages.update(Seq("1", StreamMessages.Unchanged), oid = table.oid)
    )
    val batch = CutOfServer.transaction(10, messages)
    val found = histories(batch, Seq(table), Map("id" -> "key", "body" -> "text"))(table.oid)
    assert(found.map(row => (row.get(0), row.get(1))) == Seq((1, "Ta"), (1, null), (1, null)))
    assert(found.map(_.getAs[Seq[String]]("_keys")) == Seq(Seq("id"), Seq("id"), Seq("key")))
    assert(found.map(_.getAs[Seq[String]]("_missing")) == Seq(Nil, Seq("body"), Seq("text")))
    assert(found.map(_.getAs[Long]("_ordinal")) == Seq(5L, 7L, 11L))
  }
}
