package io.sparkpgoutput.lake.apply

import scala.collection.mutable
import scala.util.Random

import org.apache.spark.sql.types._

import io.sparkpgoutput.changes.StreamMessages
import io.sparkpgoutput.lake.catalog.ReplicaIdentity

/** Random transactions over tables of each kind, and the messages that the source makes of them. */
final class ServerHistory(random: Random) {
  import ServerHistory._

  val wide = new ServerTable(
    11,
    "wide",
    ReplicaIdentity.Default,
    Seq("id"),
    Seq("id" -> Int4, "name" -> Text, "amount" -> Numeric, "big" -> Text, "huge" -> Text),
    Seq(
      "id" -> IntegerType,
      "name" -> StringType,
      "amount" -> DecimalType(12, 4),
      "big" -> StringType,
      "huge" -> StringType,
      "added" -> LongType
    )
  )

  /** The same number has several texts. */
  val numbers = new ServerTable(
    12,
    "numbers",
    ReplicaIdentity.Index,
    Seq("n", "b"),
    Seq("v" -> Text, "b" -> Text, "n" -> Numeric, "big" -> Text),
    Seq(
      "v" -> StringType,
      "b" -> StringType,
      "n" -> DecimalType(12, 4),
      "big" -> StringType
    )
  )

  val deferrable = new ServerTable(
    13,
    "deferrable",
    ReplicaIdentity.Full,
    Seq("id"),
    Seq("id" -> Int4, "v" -> Text, "big" -> Text),
    Seq("id" -> IntegerType, "v" -> StringType, "big" -> StringType, "added" -> LongType)
  )

  val rowsOnly = new ServerTable(
    14,
    "rows only",
    ReplicaIdentity.Full,
    Nil,
    Seq("x" -> Int4, "f" -> Float8, "big" -> Text),
    Seq("x" -> IntegerType, "f" -> DoubleType, "big" -> StringType, "added" -> LongType)
  )

  val log = new ServerTable(
    15,
    "log",
    ReplicaIdentity.Nothing,
    Nil,
    Seq("x" -> Int4, "y" -> Text),
    Seq("x" -> IntegerType, "y" -> StringType)
  )

  val tables: Seq[ServerTable] = Seq(wide, numbers, deferrable, rowsOnly, log)
  val other = new ServerTable(16, "other", ReplicaIdentity.Nothing, Nil, Seq("x" -> Int4), Nil)

  private var lsn = 1000L
  private val sent = mutable.LongMap.empty[Array[Byte]]
  private val out = mutable.ArrayBuffer.empty[(Long, Long, Array[Byte])]
  private var ordinal = 0L

  private def chance(percent: Int) = random.nextInt(100) < percent
  private def pick[T](values: collection.Seq[T]): T = values(random.nextInt(values.size))
  private def number = random.nextInt(8)
  private def text(): String =
    pick(Seq(null, "a", "b", s"v$lsn", "T1", s"T$lsn-${random.nextInt(9)}"))
  private def numeric(value: Int) = value.toString + pick(Seq("", ".0", ".00"))

  private def newRow(table: ServerTable, keyed: Int): Seq[String] = table.columns.map {
    case (name, Numeric)                          => numeric(keyed).ensuring(_ => name.nonEmpty)
    case (name, Int4) if table.key.contains(name) => keyed.toString
    case (_, Int4 | Int8)                         => number.toString
    case (_, Float8)                              => pick(Seq("NaN", "0", "-0", "1.5"))
    case (name, _) if table.key.contains(name)    => pick(Seq("b1", "Tb2", "T3"))
    case _                                        => text()
  }

  private def send(table: ServerTable, message: Array[Byte]): Unit = {
    if (!sent.get(table.oid).exists(_.sameElements(table.relation))) {
      sent.update(table.oid, table.relation)
      put(table.relation)
    }
    put(message)
  }

  private def put(message: Array[Byte]): Unit = {
    out += ((lsn, ordinal, message))
    ordinal += 1
  }

  private def isFree(table: ServerTable, row: Seq[String]) =
    table.key.isEmpty || !table.rows.exists(other => table.keyOf(other) == table.keyOf(row))

  private def insert(table: ServerTable): Unit = {
    val row = newRow(table, number)
    if (isFree(table, row)) send(table, table.insert(row))
  }

  /** Other values, with the same key. */
  private def changed(table: ServerTable, row: Seq[String]): Seq[String] = {
    val fresh = newRow(table, 0)
    table.names.indices.map { index =>
      if (table.key.contains(table.names(index)) || chance(50)) row(index) else fresh(index)
    }
  }

  private def withKey(table: ServerTable, row: Seq[String], other: Seq[String]): Seq[String] =
    table.names.indices.map { index =>
      if (table.key.contains(table.names(index))) other(index) else row(index)
    }

  private def update(table: ServerTable, before: Seq[String], after: Seq[String]): Unit =
    send(table, table.update(before, after))

  private def move(table: ServerTable): Unit = {
    val row = pick(table.rows)
    val to = withKey(table, if (chance(70)) row else changed(table, row), newRow(table, number))
    if (isFree(table, to) || table.keyOf(to) == table.keyOf(row)) update(table, row, to)
  }

  /** Two rows swap their keys: by a third key, or at once if the key is deferrable. */
  private def swap(table: ServerTable): Unit = {
    val Seq(one, two) = random.shuffle(table.rows.toSeq).take(2)
    val (first, second) = (withKey(table, one, two), withKey(table, two, one))
    if (table.isFull) {
      update(table, one, first)
      update(table, two, second)
    } else {
      val away = withKey(table, one, newRow(table, 99))
      update(table, one, away)
      update(table, two, second)
      update(table, away, first)
    }
  }

  /** Numbers whose text changes, and whose value does not. */
  private def rewrite(table: ServerTable): Unit = {
    val row = pick(table.rows)
    val after = table.columns.map(_._2).zip(row).map {
      case (Numeric, value) if value != null => numeric(new java.math.BigDecimal(value).intValue)
      case (_, value)                        => value
    }
    update(table, row, after)
  }

  private def change(): Unit = {
    val table = pick(tables)
    random.nextInt(100) match {
      case _ if table.rows.isEmpty || table == log => insert(table)
      case n if n < 25                             => insert(table)
      case n if n < 55 => val row = pick(table.rows); update(table, row, changed(table, row))
      case n if n < 70 => send(table, table.delete(pick(table.rows)))
      case n if n < 82 && table.key.nonEmpty                        => move(table)
      case n if n < 88 && table.key.nonEmpty && table.rows.size > 1 => swap(table)
      case n if n < 95                                              => rewrite(table)
      case _                                                        => insert(table)
    }
  }

  private def truncate(): Unit = {
    val some = tables.filter(_ => chance(40))
    if (some.nonEmpty) {
      some.tail.foreach(table => if (!sent.contains(table.oid)) insert(table))
      some.foreach { table =>
        if (!sent.get(table.oid).exists(_.sameElements(table.relation))) {
          sent.update(table.oid, table.relation)
          put(table.relation)
        }
        table.rows.clear()
      }
      put(StreamMessages.truncate(some.map(_.oid)))
    }
  }

  private def alter(): Unit = pick(Seq(wide, deferrable, rowsOnly)) match {
    case table if !table.names.contains("added")             => table.add("added", Int8)
    case `wide` if wide.names.contains("huge") && chance(30) => wide.drop("huge")
    case _                                                   => ()
  }

  private def transaction(): Unit = {
    lsn += 10
    ordinal = 0
    put(StreamMessages.begin(lsn, lsn))
    if (lsn % 70 == 0) put(StreamMessages.origin("far"))
    if (chance(10)) send(other, other.insert(Seq("1")))
    if (chance(20)) put(StreamMessages.streamAbort(lsn, lsn + 1))
    (0 to random.nextInt(8)).foreach(_ => if (chance(3)) truncate() else change())
    put(StreamMessages.commit(lsn))
  }

  /** The messages of the next batch: LSN of the commit, ordinal, message. */
  def batch(transactions: Int): Seq[(Long, Long, Array[Byte])] = {
    out.clear()
    sent.clear()
    (1 to transactions).foreach { _ =>
      if (chance(6)) alter()
      transaction()
    }
    out.toSeq
  }

  /** The end of the last batch. */
  def end: Long = lsn + 1
}

object ServerHistory {
  final val Int8 = 20L
  final val Int4 = 23L
  final val Text = 25L
  final val Float8 = 701L
  final val Float8Array = 1022L
  final val Numeric = 1700L

  /** The oid of a type that a user made. */
  final val Composite = 16400L
}
