package io.sparkpgoutput.lake.fold

import scala.collection.mutable
import scala.util.Random

import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.catalyst.{CatalystTypeConverters, InternalRow}
import org.apache.spark.sql.types.{IntegerType, StringType, TimestampType}
import org.apache.spark.unsafe.types.UTF8String

import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.errors.LakeException
import io.sparkpgoutput.lake.apply.{CutOfServer, ServerHistory, ServerTable, TypeOids}
import io.sparkpgoutput.lake.catalog.{MirroredTable, ReplicaIdentity, TableMode}
import io.sparkpgoutput.lake.route.{ChangeChunk, ChangeFields, CutRouter, CutSummary}
import io.sparkpgoutput.types.ConversionOptions

/**
 * Applies the rows that the router and the folds make of random histories to a list of rows, one by one.
 * `-Dspark-pgoutput.histories=` gives the number of histories.
 */
class ChangeFoldSuite extends AnyFunSuite {
  private val count = Integer.getInteger("spark-pgoutput.histories", 70).intValue

  /** A table of the target. */
  final private class Copy(val server: ServerTable) {
    var rows = Vector.empty[IndexedSeq[Any]]
    private val schema = server.target.targetSchema
    private val key = server.key.map(schema.fieldIndex)

    /** The definition in force after the last cut. */
    var definition = Option.empty[Array[Byte]]

    def content: Seq[String] = ServerTable.sorted(
      rows.filter(isUnmarked).map(row => server.names.map(name => row(schema.fieldIndex(name))))
    )

    private def isUnmarked(row: IndexedSeq[Any]) = !server.marks || row.last == null

    def write(format: FoldFormat, folded: Seq[InternalRow]): Unit = {
      val before = if (format.truncations.nonEmpty && !format.marks) Vector.empty else rows
      if (format.key.nonEmpty) merge(before, format, folded)
      else if (format.isFull) count(before, folded)
      else rows = before ++ folded.map(values)
    }

    private def values(row: InternalRow): IndexedSeq[Any] = schema.indices.map { ordinal =>
      CatalystTypeConverters.convertToScala(
        row.get(ordinal, schema(ordinal).dataType),
        schema(ordinal).dataType
      )
    }

    private def count(before: Vector[IndexedSeq[Any]], folded: Seq[InternalRow]): Unit = {
      rows = before
      // Equal rows can come from definitions with other columns.
      folded.groupBy(values(_).map(text)).foreach { case (copy, counts) =>
        val n = counts.map(_.getLong(schema.length)).sum.toInt
        rows ++= Vector.fill(n)(values(counts.head))
        (1 to -n).foreach { _ =>
          val index = rows.indexWhere(_.map(text) == copy)
          assert(index >= 0, copy)
          rows = rows.patch(index, Nil, 1)
        }
      }
    }

    private def text(value: Any) = String.valueOf(value)

    private def merge(
        before: Vector[IndexedSeq[Any]],
        format: FoldFormat,
        folded: Seq[InternalRow]
    ): Unit = {
      val fields = ChangeFold.schema(format)
      def long(row: InternalRow, name: String) = row.getLong(fields.fieldIndex(name))
      def isNull(row: InternalRow, name: String) = row.isNullAt(fields.fieldIndex(name))
      def position(row: InternalRow, names: Seq[String]) = names.map(long(row, _))
      def op(row: InternalRow) = row.getString(fields.fieldIndex(FoldedColumns.Op))
      def keyOf(row: IndexedSeq[Any]) = key.map(row(_))
      val base = before.map(row => keyOf(row) -> row).toMap
      val left = folded
        .filter(op(_) == RowOp.MovedOut)
        .map(row => position(row, FoldedColumns.MovedOut) -> row)
        .toMap

      def value(row: InternalRow, ordinal: Int): Any = {
        val flag = fields.fieldNames.indexOf(FoldedColumns.unsent(ordinal))
        if (flag < 0 || !row.getBoolean(flag)) values(row)(ordinal)
        else if (!isNull(row, FoldedColumns.MovedIn.head)) {
          value(left(position(row, FoldedColumns.MovedIn)), ordinal)
        } else base(keyOf(values(row)))(ordinal)
      }

      val changes = folded.filter(op(_) != RowOp.MovedOut)
      val keys = changes.map(row => keyOf(values(row)))
      assert(keys.distinct == keys)
      changes.foreach { row =>
        val isThere = base.get(keyOf(values(row))).exists(isUnmarked)
        if (op(row) != RowOp.Replace)
          assert(isThere == (op(row) != RowOp.Insert), s"${server.name} ${op(row)} ${values(row)}")
      }
      val kept = before.filterNot(row => keys.contains(keyOf(row))).map { row =>
        val first = format.truncations.headOption.filter(_ => isUnmarked(row))
        first.fold(row) { found =>
          val time = CatalystTypeConverters.convertToScala(found.time, TimestampType)
          row.dropRight(2) ++ Seq(time, found.at.lsn)
        }
      }
      rows = kept ++ changes.filter(op(_) != RowOp.Delete).map { row =>
        schema.indices.map(value(row, _))
      }
    }
  }

  private val columns = UnsafeProjection.create(ChangeFields.schema)
  implicit private val byBytes: Ordering[UTF8String] = _ binaryCompare _

  /** Routes the changes of a table, and sorts them as executors do. */
  private def sortedChanges(
      batch: Seq[(Long, Long, Array[Byte])],
      table: MirroredTable,
      names: Map[String, String],
      inForce: Option[Array[Byte]] = None
  ): (Option[CutSummary], Seq[UnsafeRow]) = {
    val rows = Vector.newBuilder[UnsafeRow]
    val router = new CutRouter(table, 0, names, row => rows += columns(row).copy())
    CutOfServer(table.source.oid, batch, end = 0, inForce).foreach(router.take)
    val sorted = rows.result().sortBy { row =>
      (
        row.getLong(ChangeFields.HASH),
        UTF8String.fromBytes(row.getBinary(ChangeFields.KEY)),
        row.getLong(ChangeFields.LSN),
        row.getLong(ChangeFields.ORDINAL)
      )
    }
    (router.summary, sorted)
  }

  private def write(
      batch: Seq[(Long, Long, Array[Byte])],
      copies: Seq[Copy],
      names: Map[String, String] = Map.empty
  ): Map[Long, CutSummary] = copies.flatMap { copy =>
    val table = copy.server.target
    val (found, rows) = sortedChanges(batch, table, names, copy.definition)
    CutOfServer(table.source.oid, batch, end = 0).definition
      .foreach(definition => copy.definition = Some(definition))
    found.map { summary =>
      val format =
        FoldFormat.of(copy.server.target, names, summary, ConversionOptions(), repairs = false)
      val chunks = ChangeChunk.pack(rows.iterator)
      copy.write(format, ChangeFold.rows(format, chunks).map(_.copy()).toVector)
      copy.server.oid -> summary
    }
  }.toMap

  /** A transaction that describes a table and changes it. */
  private def batch(server: ServerTable, lsn: Long)(changes: => Seq[Array[Byte]]) =
    CutOfServer.transaction(lsn, server.relation +: changes)

  private def run(seed: Int): mutable.Map[String, Long] = {
    val history = new ServerHistory(new Random(seed))
    val copies = history.tables.map(table => new Copy(table))
    val seen = mutable.HashMap.empty[String, Long].withDefaultValue(0)
    (1 to 4).foreach { _ =>
      val summary = write(history.batch(6), copies)
      copies.foreach { copy =>
        summary.get(copy.server.oid).foreach { table =>
          seen("moved") += table.moved
          seen("truncated") += table.truncations.length.toLong
        }
        assert(copy.content == copy.server.content, s"seed $seed, table ${copy.server.name}")
      }
    }
    seen
  }

  test("after each batch of a random history, the target has the rows of the server") {
    val seen = (1 to count).map(run)
    Seq("moved", "truncated").foreach(what => assert(seen.map(_(what)).sum > count / 8, what))
  }

  test("which rows are marked as deleted, and with what, does not depend on where cuts end") {
    val marked = (1 to count).map { seed =>
      val history = new ServerHistory(new Random(seed))
      val tables = history.tables.filter(_.key.nonEmpty)
      tables.foreach(_.mode = TableMode.Marking)
      val (whole, split) = (tables.map(new Copy(_)), tables.map(new Copy(_)))
      (1 to 4).foreach { _ =>
        val batch = history.batch(6)
        write(batch, whole)
        batch.groupBy(_._1).toSeq.sortBy(_._1).foreach { case (_, commit) => write(commit, split) }
        whole.zip(split).foreach { case (one, other) =>
          val clue = s"seed $seed, table ${one.server.name}"
          assert(ServerTable.sorted(one.rows) == ServerTable.sorted(other.rows), clue)
          assert(one.content == one.server.content, clue)
        }
      }
      whole.map(_.rows.count(_.last != null)).sum
    }
    assert(marked.sum > 2 * count)
  }

  test(
    "a dropped column keeps its values, also if its row gets another key; a renamed one is found"
  ) {
    val server = new ServerTable(
      51,
      "altered",
      ReplicaIdentity.Default,
      Seq("id"),
      Seq("id", "v", "gone").zip(Seq(TypeOids.Int4, TypeOids.Text, TypeOids.Text)),
      Seq("id" -> IntegerType, "v" -> StringType, "gone" -> StringType)
    )
    val copy = new Copy(server)
    write(
      batch(server, 10)(Seq("1", "2").map(id => server.insert(Seq(id, "a", s"g$id")))),
      Seq(copy)
    )
    server.drop("gone")
    write(
      batch(server, 20)(
        Seq(
          server.update(Seq("1", "a"), Seq("1", "b")),
          server.update(Seq("2", "a"), Seq("3", "a")),
          server.insert(Seq("4", "c"))
        )
      ),
      Seq(copy)
    )
    assert(ServerTable.sorted(copy.rows) == Seq("1|b|g1", "3|a|g2", "4|c|null"))
    server.columns = Seq("id" -> TypeOids.Int4, "renamed" -> TypeOids.Text)
    write(
      batch(server, 30)(Seq(server.update(Seq("4", "c"), Seq("4", "d")))),
      Seq(copy),
      Map("renamed" -> "v")
    )
    assert(ServerTable.sorted(copy.rows).contains("4|d|null"))
  }

  test(
    "a row that is deleted and inserted again is another row, if the target has columns of its own"
  ) {
    for (identity <- Seq(ReplicaIdentity.Default, ReplicaIdentity.Full)) {
      val server = new ServerTable(
        53,
        "replaced",
        identity,
        Seq("id"),
        Seq("id" -> TypeOids.Int4, "v" -> TypeOids.Text),
        Seq("id" -> IntegerType, "v" -> StringType)
      )
      def row(id: Int, v: String) = Seq(id.toString, v)
      (1 to 4).foreach(id => server.rows += row(id, "a"))
      val messages = batch(server, 10)(
        Seq(
          Seq(server.delete(row(1, "a")), server.insert(row(1, "b"))),
          Seq(server.update(row(2, "a"), row(2, "b")), server.update(row(2, "b"), row(2, "c"))),
          Seq(server.delete(row(3, "a")), server.insert(row(3, "b")), server.delete(row(3, "b"))),
          Seq(server.insert(row(5, "a")), server.delete(row(5, "a")), server.insert(row(5, "b"))),
          // The key 4 gets the row of the key 6.
          Seq(server.insert(row(6, "a")), server.delete(row(4, "a"))),
          Seq(server.update(row(6, "a"), row(4, "b")), server.update(row(4, "b"), row(4, "c")))
        ).flatten
      )
      val (summary, rows) = sortedChanges(messages, server.target, Map.empty)
      for (splits <- Seq(false, true)) {
        val format = FoldFormat.of(
          server.target,
          Map.empty,
          summary.get,
          ConversionOptions(),
          repairs = false,
          splitsReplaced = splits
        )
        val op = ChangeFold.schema(format).fieldIndex(FoldedColumns.Op)
        val found = ChangeFold.rows(format, ChangeChunk.pack(rows.iterator)).map(row =>
          (row.getInt(0), row.getString(op), if (row.isNullAt(1)) "" else row.getString(1))
        ).toSeq.sorted
        val replaced =
          if (splits) Seq((1, "D", "a"), (1, "R", "b"), (4, "D", "a"), (4, "R", "c"))
          else Seq((1, "U", "b"), (4, "U", "c"))
        val others = Seq((2, "U", "c"), (3, "D", "a"), (5, "I", "b"))
        val wanted = (replaced ++ others).sorted.map { case (id, op, v) =>
          (id, op, if (op == "D" && identity != ReplicaIdentity.Full) "" else v) // the key only
        }
        assert(found == wanted, s"$identity, $splits")
      }
    }
  }

  test("a value of an unknown column is not dropped: the table must be copied again") {
    val server = new ServerTable(
      52,
      "renamed",
      ReplicaIdentity.Default,
      Seq("id"),
      Seq("id" -> TypeOids.Int4, "v" -> TypeOids.Text),
      Seq("id" -> IntegerType, "v" -> StringType)
    )
    val copy = new Copy(server)
    val columns = server.columns
    server.columns = Seq("id" -> TypeOids.Int4, "between" -> TypeOids.Text)
    val described = server.relation
    val error = intercept[LakeException] {
      write(batch(server, 10)(Seq(server.insert(Seq("1", "a")))), Seq(copy))
    }
    assert(error.getCondition == "PGOUTPUT_TABLE_CHANGED")
    assert(error.getMessage.contains(
      "A change has the column 'between', which the catalog does not have. It can be the column 'v'"
    ))
    // A definition without changes is not an error.
    server.rows.clear()
    server.columns = columns
    val again = batch(server, 20)(Seq(server.insert(Seq("2", "b"))))
    write(again.take(1) ++ Seq((20L, 0L, described)) ++ again.drop(1), Seq(copy))
    assert(ServerTable.sorted(copy.rows) == Seq("2|b"))
  }
}
