package io.sparkpgoutput.lake.apply

import java.nio.charset.StandardCharsets.UTF_8
import java.time.LocalDateTime
import java.time.ZoneOffset.UTC
import java.time.temporal.ChronoUnit.MICROS

import org.apache.spark.sql.Row
import org.apache.spark.sql.types.{DataType, StructType}

import io.sparkpgoutput.changes.StreamMessages
import io.sparkpgoutput.lake.catalog.TableMode
import io.sparkpgoutput.lake.catalog.TableMode.Versions._
import io.sparkpgoutput.lake.target.ColumnChange

/**
 * The rows that a table of the target must have, also the rows of others. The code is slow and obvious.
 *
 * @param table the table of the server
 */
final class TargetOracle(table: ServerTable) {
  import TargetOracle._

  /** The columns of the target, including columns of users. */
  var columns: IndexedSeq[(String, DataType)] = table.dataTypes.toIndexedSeq ++
    table.target.mode.columns.map(field => field.name -> field.dataType)

  private var rows = Map.empty[Key, Values]

  /** The versions that have ended. */
  private var ended = Vector.empty[Values]

  def isEmpty: Boolean = rows.isEmpty
  def keys: Seq[Key] = rows.keys.toSeq

  private def keyOf(row: Values): Key = table.key.map { name =>
    ServerValues.inKey(ServerValues.value(columns.toMap.apply(name), row(name)))
  }

  /** Follows a change of the columns of the target. */
  def alter(change: ColumnChange): Unit = change match {
    case ColumnChange.Add(name, dataType) =>
      columns :+= name -> dataType
      rows = rows.map { case (key, row) => key -> (row + (name -> null)) }
      ended = ended.map(_ + (name -> null))
    case ColumnChange.Rename(from, to) =>
      columns = columns.map { case (name, dataType) =>
        (if (name == from) to else name) -> dataType
      }
      rows = rows.map { case (key, row) => key -> (row - from + (to -> row(from))) }
      ended = ended.map(row => row - from + (to -> row(from)))
      findKeys()
    case ColumnChange.Widen(name, dataType) =>
      columns = columns.map { case (other, before) =>
        other -> (if (other == name) dataType else before)
      }
      findKeys()
  }

  /** If a column of the key has another name already, the target gets this name by the next change. */
  private def findKeys(): Unit = if (rows.values.forall(row => table.key.forall(row.contains)))
    rows = rows.values.map(row => keyOf(row) -> row).toMap

  /** Others write a row. */
  def put(row: Values): Unit = rows += keyOf(row) -> row

  /** Others delete a row. */
  def remove(key: Key): Values = {
    val row = rows(key)
    rows -= key
    row
  }

  def row(key: Key): Values = rows(key)

  /** Whether others can write a row. If deleted rows are marked, others write no key that the server has. */
  def isFree(row: Values): Boolean = !rows.contains(keyOf(row)) &&
    !(table.marks && table.rows.exists(other => keyOf(table.names.zip(other).toMap) == keyOf(row)))

  /** What others write into a column of the mode. */
  def ofUser(column: String): String = column match {
    case FromLsn   => "7"
    case IsCurrent => "t"
    case _         => null
  }

  /** Others set a column of a row. */
  def set(key: Key, column: String, text: String): Unit =
    rows += key -> (rows(key) + (column -> text))

  /** Returns the effect of a cut that has all noted changes of the server. */
  def afterCut(): Outcome = {
    val ours = table.dataTypes.map(_._1).toSet
    // A column that the server has dropped gets no values. A column that it added after the row is NULL.
    def whole(row: Values, kept: Option[Values]): Values = columns.map { case (name, _) =>
      name -> (if (ours(name)) row.getOrElse(name, null) else kept.fold[String](null)(_(name)))
    }.toMap
    if (table.hasVersions) versioning(whole(_, None))
    else if (table.marks) marking(whole)
    else if (table.truncations.nonEmpty) {
      val all = table.rows.toSeq.map(row => whole(table.names.zip(row).toMap, None))
      Outcome(Set.empty, Set.empty, Set.empty, () => rows = all.map(row => keyOf(row) -> row).toMap)
    } else {
      val histories =
        table.changes.toSeq.groupBy(_.number).values.map(new History(_, ours)).toSeq
      val was = histories.flatMap(history => history.origin.map(_ -> history)).toMap
      val is = histories.flatMap(history => history.end.map(row => keyOf(row) -> history)).toMap
      val touched = was.keySet ++ is.keySet
      def lacks(what: History => Boolean) = is.collect {
        case (key, history) if what(history) && !history.origin.forall(rows.contains) => key
      }.toSet
      val next = touched.foldLeft(rows) { (found, key) =>
        is.get(key).fold(found - key) { history =>
          val kept = rows.get(key).filter(_ => was.get(key).forall(_.staysInPlace))
          found + (key -> whole(history.end.get, kept))
        }
      }
      Outcome(
        touched.filter(key => was.contains(key) != rows.contains(key)),
        lacks(_.isUnsent),
        lacks(_.isPartly),
        () => rows = next
      )
    }
  }

  /**
   * The effect of a cut if deleted rows are marked, one transaction after another. If a key has a row when a
   * transaction begins, and none when it ends, the target marks that row, with its last values at the key.
   *
   * @param whole a row of the target by the values of the server, and by the row that the target has
   */
  private def marking(whole: (Values, Option[Values]) => Values): Outcome = {
    def isUnmarked(row: Values) = row(DeletedLsn) == null
    def marked(row: Values, commit: Long) = row +
      (DeletedLsn -> commit.toString) +
      (DeletedAt -> time(commit))
    val unmarked = rows.filter { case (_, row) => isUnmarked(row) }.keySet
    val ours = table.dataTypes.map(_._1).toSet
    val changes = table.changes.toSeq
    val sent = changes.filterNot(_.byTruncate).groupBy(_.number).values.toSeq
      .map(new History(_, ours))
    val was = sent.flatMap(_.origin).toSet
    var (next, arrived, arrivedEarly) = (rows, Set.empty[Key], Set.empty[Key])
    (changes.map(_.commit) ++ table.truncations).distinct.sorted.foreach { commit =>
      val ofRows = changes.filter(_.commit == commit).groupBy(_.number).values
      if (table.truncations.contains(commit)) next = next.map { case (key, row) =>
        key -> (if (isUnmarked(row)) marked(row, commit) else row)
      }
      def keyed(row: Values) = keyOf(renamed(row)) -> renamed(row)
      val left = ofRows.flatMap { all =>
        val begin = all.head.before.map(keyed(_)._1)
        all.find(change => begin.nonEmpty && change.after.map(keyed(_)._1) != begin)
          .map(change => keyed(change.before.get))
      }
      left.filter(found => next.contains(found._1)).foreach { case (key, row) =>
        next += key -> marked(whole(row, next.get(key)), commit)
      }
      ofRows.flatMap(_.last.after).map(keyed).foreach { case (key, row) =>
        arrived += key
        if (table.truncations.forall(commit < _)) arrivedEarly += key
        next += key -> (whole(row, next.get(key)) + (DeletedLsn -> null) + (DeletedAt -> null))
      }
    }
    // A repair does not add a row only to mark it.
    next --= was.filter(key => !rows.contains(key) && next.get(key).exists(!isUnmarked(_)))
    // The fold does not compare what comes only after a TRUNCATE, which marks what the target has.
    def isCompared(key: Key) = table.truncations.isEmpty ||
      (if (table.isFull) arrivedEarly(key)
       else table.changesBeforeTruncate.flatMap(_.after).exists(row => keyOf(renamed(row)) == key))
    val touched = was ++ arrived.filter(isCompared)
    val histories = changes.groupBy(_.number).values.map(new History(_, ours)).toSeq
    val lacking = histories.filter(!_.origin.forall(unmarked))
    def lack(which: History => Boolean) =
      lacking.filter(which).flatMap(_.end.map(keyOf(_))).toSet
    Outcome(
      touched.filter(key => was.contains(key) != unmarked(key)),
      lack(_.isUnsent),
      lack(_.isPartly) ++ lacking.flatMap(_.origin),
      () => rows = next
    )
  }

  /**
   * The effect of a cut if the target has versions, one transaction after another. Each row that a
   * transaction changes ends the version of its key at the beginning of the transaction, and begins a version
   * of its key at the end.
   *
   * @param whole a row of the target by the values of the server
   */
  private def versioning(whole: Values => Values): Outcome = {
    val ours = table.dataTypes.map(_._1).toSet
    val changes = table.changes.toSeq
    val was = changes.filterNot(_.byTruncate).groupBy(_.number).values
      .flatMap(new History(_, ours).origin).toSet
    val emptied = table.truncations.minOption.getOrElse(Long.MaxValue)
    var (next, over, arrived) = (rows, ended, Set.empty[Key])
    (changes.map(_.commit) ++ table.truncations).distinct.sorted.foreach { commit =>
      val ofRows = changes.filter(_.commit == commit).groupBy(_.number).values
      val begun = ofRows.flatMap(_.last.after).map(row => keyOf(renamed(row)) -> renamed(row)).toMap
      val left = ofRows.flatMap(_.head.before).map(row => keyOf(renamed(row)))
      if (commit < emptied) arrived ++= begun.keys
      val ends =
        if (table.truncations.contains(commit)) next.keySet else begun.keySet ++ left
      over ++= ends.flatMap(next.get).map(_ + (ToLsn -> commit.toString) +
        (ToTimestamp -> time(commit)) + (IsCurrent -> "f"))
      next = next -- ends ++ begun.map { case (key, row) =>
        key -> (whole(row) + (FromLsn -> commit.toString) + (FromTimestamp -> time(commit)) +
          (IsCurrent -> "t"))
      }
    }
    val alone = changes.groupBy(_.number).values.filter(all =>
      new History(all, ours).origin.exists(!rows.contains(_))
    )
    // A version can lack a value that a later one has.
    def lack(isEnd: (RowChange, Option[RowChange]) => Boolean, which: History => Boolean) =
      alone.flatMap { all =>
        all.indices.filter(at => isEnd(all(at), all.lift(at + 1)))
          .map(at => new History(all.take(at + 1), ours)).filter(which).flatMap(_.origin)
      }.toSet
    Outcome(
      was.filterNot(rows.contains) ++ (arrived -- was).filter(rows.contains),
      lack((change, next) => !next.exists(_.commit == change.commit), _.isUnsent),
      lack((_, _) => true, _.isPartly),
      () => {
        rows = next
        ended = over
      }
    )
  }

  private def named(name: String) = table.formerNames.getOrElse(name, name)

  private def renamed(row: Values): Values = row.map { case (name, text) => named(name) -> text }

  /** What a cut does to a row of the server. */
  final private class History(changes: Seq[RowChange], ours: Set[String]) {
    private val keys = changes.flatMap(change => change.before.toSeq ++ change.after)
      .map(row => keyOf(renamed(row)))

    /** Its key before the cut; None if it is new. */
    val origin: Option[Key] = changes.head.before.map(_ => keys.head)

    /** Its values after the cut; None if it is gone. */
    val end: Option[Values] = changes.last.after.map(renamed)

    def staysInPlace: Boolean = end.nonEmpty && keys.distinct.length == 1

    /** The columns whose values no message has. */
    private val unsent = changes.foldLeft(if (origin.isEmpty) Set.empty[String] else ours) {
      (left, change) =>
        left -- change.after.toSeq.flatMap(_.keySet -- change.unsent).map(named)
    }

    /** Whether the row has a value at the server that no message has. */
    def isUnsent: Boolean = end.exists(row => unsent.exists(row.contains))

    /** Whether a column is in no message of the row, for example because their definitions lack it. */
    def isPartly: Boolean = unsent.nonEmpty
  }

  private def all = rows.values.toSeq ++ ended

  /** The rows as texts. */
  def content: Seq[String] = all.map { row =>
    columns.map { case (name, dataType) =>
      shown(ServerValues.value(dataType, row(name)))
    }.mkString("|")
  }.sorted

  /** The rows as other engines can show them. */
  def plain: Seq[Seq[String]] = all.map(row =>
    columns.map { case (name, dataType) =>
      ServerValues.plain(ServerValues.value(dataType, row(name)))
    }
  )

  /** Rows that were read from the target, as texts like those of [[content]]. */
  def contentOf(schema: StructType, found: Seq[Row]): Seq[String] = {
    val places = columns.map { case (name, _) => schema.fieldIndex(name) }
    found.map(row => places.map(at => shown(row.get(at))).mkString("|")).sorted
  }
}

object TargetOracle {
  type Key = Seq[Any]
  type Values = Map[String, String]

  /** The time of a commit. */
  private def time(commit: Long) = LocalDateTime.ofEpochSecond(0, 0, UTC)
    .plus(StreamMessages.timestamp(commit), MICROS).toString.replace('T', ' ')

  private val DeletedAt = TableMode.Marking.DeletedAt
  private val DeletedLsn = TableMode.Marking.DeletedLsn

  /**
   * The effect of a cut.
   *
   * @param drifted the keys at which the target has a row that the server did not have, or lacks one
   * @param lacking the keys of rows with a value that no message has and that the target lacks
   * @param mayLack those keys, and the keys of rows with a column that no message has
   * @param take applies the effect
   */
  final case class Outcome(
      drifted: Set[Key],
      lacking: Set[Key],
      mayLack: Set[Key],
      take: () => Unit
  )

  private def shown(value: Any): String = value match {
    case bytes: Array[Byte] => bytes.map(byte => f"$byte%02x").mkString("\\x", "", "")
    case null               => "NULL"
    case text: String       => new String(text.getBytes(UTF_8), UTF_8)
    case other              => other.toString
  }
}
