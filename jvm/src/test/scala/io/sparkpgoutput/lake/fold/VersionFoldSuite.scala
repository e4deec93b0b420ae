package io.sparkpgoutput.lake.fold

import scala.util.Random

import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.util.DateTimeUtils.microsToInstant
import org.apache.spark.sql.catalyst.{CatalystTypeConverters, InternalRow}
import org.apache.spark.sql.types.TimestampType

import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.lake.apply.{CutOfServer, ServerHistory, ServerTable, TargetOracle}
import io.sparkpgoutput.lake.catalog.TableMode
import io.sparkpgoutput.lake.route._
import io.sparkpgoutput.types.ConversionOptions

/**
 * Applies the versions that the router and the folds make of random histories to a list of rows.
 * `-Dspark-pgoutput.histories=` gives the number of histories.
 */
class VersionFoldSuite extends AnyFunSuite {
  private val count = Integer.getInteger("spark-pgoutput.histories", 4).intValue

  /** A table of the target. */
  final private class Versions(val server: ServerTable) {
    private val schema = server.target.targetSchema
    private val key = server.key.map(schema.fieldIndex)
    private val toLsn = schema.fieldIndex(TableMode.Versions.ToLsn)
    private var definition = Option.empty[Array[Byte]]
    var rows: Vector[IndexedSeq[Any]] = Vector.empty

    def asRows: Seq[Row] = rows.map(Row.fromSeq(_))

    private def isCurrent(row: IndexedSeq[Any]) = row(toLsn) == null
    private def keyOf(row: IndexedSeq[Any]) = key.map(row)

    def write(batch: Seq[(Long, Long, Array[Byte])]): Unit = {
      val changes = Vector.newBuilder[Array[Byte]]
      val packer = new ChangePacker(1 << 20, changes += _)
      val router = new CutRouter(server.target, 0, Map.empty, packer.add)
      CutOfServer(server.oid, batch, end = 0, definition).foreach(router.take)
      packer.flush()
      CutOfServer(server.oid, batch, end = 0).definition.foreach(found => definition = Some(found))
      router.summary.foreach { summary =>
        val format = FoldFormat.of(
          server.target,
          Map.empty,
          summary,
          ConversionOptions(),
          repairs = false
        )
        val sorted = ChangeChunk.grouped(changes.result())
        merge(format, ChangeFold.of(format, sorted).map(_.copy()).toVector)
      }
    }

    private def merge(format: FoldFormat, folded: Seq[InternalRow]): Unit = {
      val fields = ChangeFold.schema(format)
      def op(row: InternalRow) = row.getString(fields.fieldIndex(FoldedColumns.Op))
      def position(row: InternalRow, names: Seq[String]) =
        Option.when(!row.isNullAt(fields.fieldIndex(names.head)))(
          names.map(name => row.getLong(fields.fieldIndex(name)))
        )
      def sent(row: InternalRow, ordinal: Int): Any = schema(ordinal).dataType match {
        case _ if row.isNullAt(ordinal) => null
        case TimestampType              => microsToInstant(row.getLong(ordinal))
        case dataType =>
          CatalystTypeConverters.convertToScala(row.get(ordinal, dataType), dataType)
      }
      def keyOfSent(row: InternalRow) = key.map(sent(row, _))
      val current = rows.filter(isCurrent).map(row => keyOf(row) -> row).toMap
      val left = folded.filter(op(_) == RowOp.MovedOut)
        .map(row => position(row, FoldedColumns.MovedOut).get -> row).toMap
      def value(row: InternalRow, ordinal: Int): Any = {
        val flag = fields.fieldNames.indexOf(FoldedColumns.unsent(ordinal))
        if (flag < 0 || !row.getBoolean(flag)) sent(row, ordinal)
        else position(row, FoldedColumns.MovedIn).fold(current(keyOfSent(row))(ordinal))(from =>
          value(left(from), ordinal)
        )
      }
      val checks = folded.filter(row => Set(RowOp.Insert, RowOp.Delete)(op(row)))
      assert(checks.map(keyOfSent).distinct.length == checks.length)
      checks.foreach(row =>
        assert(current.contains(keyOfSent(row)) == (op(row) == RowOp.Delete), keyOfSent(row))
      )
      val ended = checks.map(row => keyOfSent(row) -> row).toMap
      val truncated = format.truncations.headOption.map(first =>
        Seq[Any](first.at.lsn, microsToInstant(first.time), false)
      )
      rows = rows.map { row =>
        if (!isCurrent(row)) row
        else ended.get(keyOf(row)) match {
          case Some(end) => schema.indices.map(value(end, _))
          case None      => truncated.fold(row)(row.dropRight(3) ++ _)
        }
      } ++ folded.filter(op(_) == RowOp.Replace).map(row => schema.indices.map(value(row, _)))
    }
  }

  test("a random history has the versions that its transactions made, wherever cuts end") {
    val ended = (1 to count).map { seed =>
      val history = new ServerHistory(new Random(seed))
      val tables = history.tables.filter(_.key.nonEmpty)
      tables.foreach(_.mode = TableMode.Versions)
      val (whole, split) = (tables.map(new Versions(_)), tables.map(new Versions(_)))
      val oracles = tables.map(new TargetOracle(_))
      (1 to 4).foreach { _ =>
        val batch = history.batch(6)
        whole.foreach(_.write(batch))
        batch.groupBy(_._1).toSeq.sortBy(_._1).foreach { case (_, commit) =>
          split.foreach(_.write(commit))
        }
        oracles.foreach(_.afterCut().take())
        tables.foreach { table =>
          table.changes.clear()
          table.truncations.clear()
        }
        whole.lazyZip(split).lazyZip(oracles).foreach { (one, other, oracle) =>
          val clue = s"seed $seed, table ${one.server.name}"
          assert(ServerTable.sorted(one.rows) == ServerTable.sorted(other.rows), clue)
          // Only the target keeps the values of a column that the server has dropped.
          if (one.server.names.contains("huge") || one.server.name != "wide")
            assert(
              oracle.contentOf(one.server.target.targetSchema, one.asRows) == oracle.content,
              clue
            )
        }
      }
      whole.map(_.rows.count(_.last == false)).sum
    }
    assert(ended.sum > 5 * count)
  }
}
