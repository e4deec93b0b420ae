package io.sparkpgoutput.lake.apply

import scala.annotation.tailrec
import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{
  BoundReference,
  GenericInternalRow,
  InterpretedUnsafeProjection,
  UnsafeRow
}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.catalyst.util.CharVarcharUtils
import org.apache.spark.sql.pgoutput.{LocalRows, RowsOfRdd}
import org.apache.spark.sql.types.StructType

import io.sparkpgoutput.errors.LakeException
import io.sparkpgoutput.lake.direct._
import io.sparkpgoutput.lake.fold.{FoldedColumns, RowOp}
import io.sparkpgoutput.lake.route.MessagePosition

/**
 * Writes a cut of a table with a key without a MERGE. The rows and the errors are the same as those of
 * [[KeyedWrite]]. If the target has versions, a version that ends is deleted, and added again with its end.
 *
 * @param rows the rows of the fold
 * @param mixed the hash of a key: see [[io.sparkpgoutput.lake.direct.KeyLookup]]
 * @param mostOld the most bytes of values of the target that are in memory
 */
final class DirectWrite(
    batch: TableBatch,
    rows: IndexedSeq[InternalRow],
    mixed: Long => Long,
    mostOld: Long
) {
  import batch.format.{hasVersions, key, unsent}

  /** A VARCHAR is a text, because no value of the changes is longer than its type says. */
  private val schema = RowsOfRdd.withTexts(batch.format.schema)

  private val getters = schema.map(field => InternalRow.getAccessor(field.dataType)).toArray
  private val folded = FoldedColumns.keyed(schema, unsent)

  private val opAt = folded.fieldIndex(FoldedColumns.Op)
  private val movedInAt = FoldedColumns.MovedIn.map(folded.fieldIndex)
  private val movedOutAt = FoldedColumns.MovedOut.map(folded.fieldIndex)
  private val flagAt = schema.indices.map { ordinal =>
    folded.fieldNames.indexOf(FoldedColumns.unsent(ordinal))
  }.toArray

  private def op(row: InternalRow): String = RowOp.of(row.getUTF8String(opAt).getByte(0))

  private def position(row: InternalRow, at: Seq[Int]): Option[MessagePosition] =
    Option.when(!row.isNullAt(at.head))(MessagePosition(row.getLong(at.head), row.getLong(at(1))))

  private def hasMoved(row: InternalRow) = !row.isNullAt(movedInAt.head)

  private def isUnsent(row: InternalRow, ordinal: Int) =
    flagAt(ordinal) >= 0 && row.getBoolean(flagAt(ordinal))

  /** The rows as they were when an UPDATE changed their keys. */
  private val leftRows: Map[MessagePosition, InternalRow] =
    rows.iterator.filter(op(_) == RowOp.MovedOut).map(row =>
      position(row, movedOutAt).get -> row
    ).toMap

  /** The rows that are written. */
  private val changes = rows.filter(op(_) != RowOp.MovedOut)

  /** Whether a row is marked as deleted after the cut. */
  private def goes(row: InternalRow) =
    batch.format.marks && !row.isNullAt(batch.format.deletedLsn)

  /**
   * The rows whose keys are looked up in the target. A row that replaces another one needs no lookup, because the
   * delete of the other one has the same key.
   */
  private val keyed = changes.filter(op(_) != RowOp.Replace)

  private var differences = 0L

  /** The number of rows of the target that the changes did not fit, in the last plan. */
  def repaired: Long = differences

  /**
   * Returns the change of a table.
   *
   * @throws NotDirect if only a MERGE can make it
   */
  def plan(table: DirectTable): DirectChange = new Plan(table).change

  final private class Plan(table: DirectTable) {
    private val columns = columnsOf(table.schema)
    private val others = columns.indices.filter(columns(_) < 0)
    batch.checkColumns(table.schema)
    private val endAt = Option.when(hasVersions)(columns.indexOf(batch.format.toLsn))
    private val lookup = {
      val keyAt = key.map(columns.indexOf(_)).toIndexedSeq
      new KeyLookup(table, keyAt, endAt, keyed, key.toIndexedSeq, mixed)
    }
    private val places = lookup.found
    private val unsentAt = unsent.map(columns.indexOf(_))
    private val readColumns =
      ((if (hasVersions) schema.indices.map(columns.indexOf(_)) else unsentAt) ++ others)
        .distinct.sorted

    /** The place of each column of the table among the columns that are read; -1 if it is not one of them. */
    private val readAt = columns.indices.map(readColumns.indexOf(_)).toArray
    private val isKey = columns.map(key.contains(_))

    /** The values of the target that are copied into the rows to write. */
    private lazy val oldRows: Map[RowPlace, InternalRow] = rowsAt(
      keyed.indices.filter { index =>
        val row = keyed(index)
        places(index) != null && (hasVersions || roots(index) || op(row) != RowOp.Delete &&
          (others.nonEmpty || unsent.exists(isLacking(row, _))))
      }.map(places),
      readColumns
    )

    /** The places of rows that are marked as deleted. In most files, no row is. */
    private lazy val markedRows: Set[RowPlace] =
      if (!batch.format.marks) Set.empty
      else {
        val deleted = columns.indexOf(batch.format.deletedLsn)
        val found = places.filter(place => place != null && !place.file.hasOnlyNulls(deleted))
        rowsAt(found, Seq(deleted)).collect { case (place, row) if !row.isNullAt(0) => place }.toSet
      }

    /** Whether the target has a row with the key that is not marked. */
    private def exists(index: Int) = places(index) != null && !markedRows(places(index))

    def change: DirectChange = {
      check()
      val deleted = mutable.Map.empty[String, mutable.ArrayBuilder.ofLong]
      places.foreach { place =>
        if (place != null)
          deleted.getOrElseUpdate(
            place.file.path,
            new mutable.ArrayBuilder.ofLong
          ) += place.position
      }
      val ofKeyed = places.iterator
      val written = changes.flatMap { row =>
        val place = if (op(row) == RowOp.Replace) null else ofKeyed.next()
        // With `repair`, the target need not have a row that is deleted.
        val isWritten =
          if (hasVersions) op(row) == RowOp.Replace || place != null
          else op(row) != RowOp.Delete && !(goes(row) && op(row) == RowOp.Update && place == null)
        Option.when(isWritten)(row -> place)
      }
      // The images of rows are made while they are written, so that not all of them are in memory. What only a MERGE
      // can write must be known before that: too many values of the target, or a value that is found nowhere.
      if (readColumns.nonEmpty) oldRows: Unit
      if (unsentAt.nonEmpty) written.foreach { case (row, place) =>
        if (place == null || hasMoved(row)) {
          val before = oldOf(place)
          unsentAt.foreach(at => if (isUnsent(row, columns(at))) value(row, place, before, at))
        }
      }
      val images = new IndexedSeq[InternalRow] {
        override def length: Int = written.length
        override def apply(index: Int): InternalRow = image(written(index)._1, written(index)._2)
      }
      def keepKeys(file: DirectFile): Unit =
        lookup.keep(file, written.iterator.map(_._1), endAt.map(columns(_)))
      DirectChange(deleted.view.mapValues(_.result().sorted).toMap, images, keepKeys)
    }

    /** Compares what the changes expect with what the target has. */
    private def check(): Unit = {
      val found = keyed.indices.filter(index => (op(keyed(index)) == RowOp.Insert) == exists(index))
      differences = found.length.toLong
      found.foreach { index =>
        val row = keyed(index)
        val missing = if (places(index) == null) Drift.Missing else Drift.Marked
        if (!batch.format.repairs)
          throw drift(row, if (op(row) == RowOp.Insert) Drift.There else missing)
        if (op(row) == RowOp.Update && !goes(row) && unsent.exists(isLacking(row, _)))
          throw drift(row, missing)
      }
    }

    /** Whether only the target can have a value, under the same key. */
    private def isLacking(row: InternalRow, ordinal: Int) =
      isUnsent(row, ordinal) && !hasMoved(row)

    /** The bytes of all values of the target that this plan has read. */
    private var oldBytes = 0L

    /** Reads some columns of rows of the target, and each file only up to the last of these rows. */
    private def rowsAt(wanted: Seq[RowPlace], columns: Seq[Int]): Map[RowPlace, InternalRow] = {
      val read = mutable.Map.empty[RowPlace, InternalRow]
      val copy = InterpretedUnsafeProjection.createProjection(columns.zipWithIndex.map {
        case (column, at) => BoundReference(at, table.schema(column).dataType, nullable = true)
      })
      wanted.groupBy(_.file).foreach { case (file, places) =>
        table.read(file, columns) { found =>
          var next = 0L
          places.distinct.sortBy(_.position).foreach { place =>
            while (next < place.position && found.hasNext) { found.next(); next += 1 }
            if (found.hasNext) { read(place) = copied(copy(found.next())); next += 1 }
          }
        }
      }
      read.toMap
    }

    /**
     * Copies a row of the target. The limit of a cut does not count these values, because the changes do not
     * have them.
     */
    private def copied(row: UnsafeRow): InternalRow = {
      oldBytes += row.getSizeInBytes + DirectWrite.HeadBytes * row.numFields
      if (oldBytes > mostOld)
        throw new NotDirect(
          s"the changes need more than ${mostOld >> 20} MB of values that only the target has"
        )
      row.copy()
    }

    /** The old keys of moved rows of which only the target has values, as numbers of the lookup. */
    private lazy val roots: Set[Int] = leftRows.values.iterator
      .filter(row => unsent.exists(isLacking(row, _)))
      .map(lookup.indexOf(_, key.toIndexedSeq)).toSet

    /** The row of the target at a place, if values of it are copied; else null. */
    private def oldOf(place: RowPlace): InternalRow =
      if (place == null || readColumns.isEmpty) null else oldRows.getOrElse(place, null)

    private def image(row: InternalRow, place: RowPlace): InternalRow = {
      val before = oldOf(place)
      new GenericInternalRow(Array.tabulate[Any](columns.length)(value(row, place, before, _)))
    }

    /** @param kept the row of the target at the place */
    private def value(row: InternalRow, place: RowPlace, kept: InternalRow, at: Int): Any = {
      val ordinal = columns(at)
      if (ordinal < 0) { if (place == null) null else oldValue(kept, at) }
      else if (isUnsent(row, ordinal) || endsAt(place) && isKey(at)) {
        if (hasMoved(row)) before(row, ordinal, at)
        else if (place == null) throw drift(row, Drift.Missing)
        else oldValue(kept, at)
      } else getters(ordinal)(row, ordinal)
    }

    /** Whether a version ends at this place. It keeps its own key, because 0 and -0 are the same key. */
    private def endsAt(place: RowPlace) = hasVersions && place != null

    /** The value that a row had before UPDATEs that did not send it changed the key. */
    @tailrec private def before(row: InternalRow, ordinal: Int, at: Int): Any = {
      val from = position(row, movedInAt)
        .map(leftRows.getOrElse(
          _,
          throw new NotDirect("a row came from a key that is not in the cut")
        ))
      from match {
        case Some(from) if !isUnsent(from, ordinal) =>
          getters(ordinal)(from, ordinal)
        case Some(from) => before(from, ordinal, at)
        case None =>
          val index = lookup.indexOf(row, key.toIndexedSeq)
          if (index < 0 || !exists(index)) throw drift(row, Drift.Missing)
          oldValue(oldOf(places(index)), at)
      }
    }

    private def oldValue(kept: InternalRow, at: Int): Any =
      kept.get(readAt(at), table.schema(at).dataType)
  }

  /** The place in the fold's rows of each column of the table; -1 if the server does not have it. */
  private def columnsOf(target: StructType): Array[Int] = {
    val found = target.map { field =>
      val ordinal = schema.indexWhere(_.name.equalsIgnoreCase(field.name))
      if (ordinal >= 0) {
        val limited = CharVarcharUtils.getRawType(field.metadata)
        val wanted = (if (limited.isEmpty) schema else batch.format.schema) (ordinal).dataType
        val has = limited.getOrElse(field.dataType)
        if (!DataTypeUtils.sameType(wanted, has))
          throw new NotDirect(
            s"the column ${field.name} has the type ${has.sql}, and the changes have ${wanted.sql}"
          )
      }
      ordinal
    }.toArray
    schema.indices.diff(found).foreach { ordinal =>
      throw new NotDirect(s"the target does not have the column ${schema(ordinal).name}")
    }
    found
  }

  private def drift(row: InternalRow, problem: String): Throwable =
    new LakeException(
      "PGOUTPUT_TARGET_DIFFERS",
      "table" -> batch.table.source.name,
      "problem" -> shown(row, problem)
    )

  /** Returns the text that an expression of [[Drift]] makes of a row. */
  private def shown(row: InternalRow, problem: String): String = {
    val one = LocalRows.toDataFrame(batch.session, IndexedSeq(row), folded)
    val columns = key.map(ordinal => FoldedColumns.column(ordinal) -> batch.columnName(ordinal))
    one.selectExpr(Drift.text(problem, columns)).head().getString(0)
  }
}

private object DirectWrite {

  /** What a value takes in the image of a row beside its content: a reference, and the head of an object. */
  final private val HeadBytes = 24L
}
