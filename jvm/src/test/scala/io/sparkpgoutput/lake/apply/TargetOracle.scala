package io.sparkpgoutput.lake.apply

import java.nio.charset.StandardCharsets.UTF_8

import org.apache.spark.sql.Row
import org.apache.spark.sql.types.{DataType, StructType}

import io.sparkpgoutput.lake.target.ColumnChange

/**
 * The rows that a table of the target has to have, in memory: slow and obvious. Others write it, too.
 *
 * @param table the table of the server
 */
final class TargetOracle(table: ServerTable) {
  import TargetOracle._

  /** The columns of the target, including columns of users. */
  var columns: IndexedSeq[(String, DataType)] = table.dataTypes.toIndexedSeq

  private var rows = Map.empty[Key, Values]

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
    case ColumnChange.Rename(from, to) =>
      columns = columns.map { case (name, dataType) =>
        (if (name == from) to else name) -> dataType
      }
      rows = rows.map { case (key, row) => key -> (row - from + (to -> row(from))) }
    case ColumnChange.Widen(name, dataType) =>
      columns = columns.map { case (other, before) =>
        other -> (if (other == name) dataType else before)
      }
      rows = rows.values.map(row => keyOf(row) -> row).toMap
  }

  /** Others write a row. */
  def put(row: Values): Unit = rows += keyOf(row) -> row

  /** Others delete a row. */
  def remove(key: Key): Values = {
    val row = rows(key)
    rows -= key
    row
  }

  def row(key: Key): Values = rows(key)
  def isFree(row: Values): Boolean = !rows.contains(keyOf(row))

  /** Others set a column of a row. */
  def set(key: Key, column: String, text: String): Unit =
    rows += key -> (rows(key) + (column -> text))

  /** Returns the effect of a cut that has all noted changes of the server. */
  def afterCut(): Outcome = {
    val ours = table.dataTypes.map(_._1).toSet
    // A column that was dropped before the cut was written has no values, and a later column is NULL.
    def whole(row: Values, kept: Option[Values]): Values = columns.map { case (name, _) =>
      name -> (if (ours(name)) row.getOrElse(name, null) else kept.fold[String](null)(_(name)))
    }.toMap
    if (table.isTruncated) {
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

  private def named(name: String) = table.formerNames.getOrElse(name, name)

  /** The result of a cut for a row of the server. */
  final private class History(changes: Seq[RowChange], ours: Set[String]) {
    private def renamed(row: Values): Values = row.map { case (name, text) => named(name) -> text }
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

    /** Whether no message has a value that the server has. */
    def isUnsent: Boolean = end.exists(row => unsent.exists(row.contains))

    /** Whether the definitions of its messages lack a column, too. */
    def isPartly: Boolean = unsent.nonEmpty
  }

  /** The rows as texts. */
  def content: Seq[String] = rows.values.toSeq.map { row =>
    columns.map { case (name, dataType) =>
      shown(ServerValues.value(dataType, row(name)))
    }.mkString("|")
  }.sorted

  /** The rows as other engines can show them. */
  def plain: Seq[Seq[String]] = rows.values.toSeq.map(row =>
    columns.map { case (name, dataType) =>
      ServerValues.plain(ServerValues.value(dataType, row(name)))
    }
  )

  /** The rows of the target as the same texts. */
  def contentOf(schema: StructType, found: Seq[Row]): Seq[String] = {
    val places = columns.map { case (name, _) => schema.fieldIndex(name) }
    found.map(row => places.map(at => shown(row.get(at))).mkString("|")).sorted
  }
}

object TargetOracle {
  type Key = Seq[Any]
  type Values = Map[String, String]

  /**
   * The effect of a cut.
   *
   * @param drifted the keys at which the target has a row that the server did not have, or lacks one
   * @param lacking the keys of rows with a value that no message has and that the target lacks
   * @param mayLack those, too, of rows with a column that no message has
   * @param take applies it
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
