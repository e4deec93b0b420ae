package io.sparkpgoutput.lake.apply

import scala.collection.mutable
import scala.util.Random

import org.apache.spark.sql.types._

import io.sparkpgoutput.changes.StreamMessages
import io.sparkpgoutput.lake.catalog.ReplicaIdentity

/**
 * Random transactions on tables, and the messages that the source makes of them.
 *
 * @param random decides everything
 * @param only the tables; by default one of each kind
 */
final class ServerHistory(random: Random, only: Seq[ServerTable] = Nil) {
  import ServerHistory._
  import TypeOids._

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

  /** A table in which the same number has several texts. */
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
    ReplicaIdentity.NoColumns,
    Nil,
    Seq("x" -> Int4, "y" -> Text),
    Seq("x" -> IntegerType, "y" -> StringType)
  )

  val tables: Seq[ServerTable] =
    if (only.nonEmpty) only else Seq(wide, numbers, deferrable, rowsOnly, log)
  val other = new ServerTable(16, "other", ReplicaIdentity.NoColumns, Nil, Seq("x" -> Int4), Nil)

  private var lsn = 1000L
  private val sent = mutable.LongMap.empty[Array[Byte]]
  private val out = mutable.ArrayBuffer.empty[(Long, Long, Array[Byte])]
  private var ordinal = 0L
  private var columnNumber = 0

  private def chance(percent: Int) = random.nextInt(100) < percent
  private def pick[T](values: collection.Seq[T]): T = values(random.nextInt(values.size))
  private def number = random.nextInt(8)
  private def text(): String =
    pick(Seq(null, "a", "b", s"v$lsn", "T1", s"T$lsn-${random.nextInt(9)}"))
  private def numeric(value: Int) = value.toString + pick(Seq("", ".0", ".00"))

  /** The values that keys have, by type. There are few, so that rows get the keys of other rows. */
  private val keyValues = mutable.LongMap.empty[IndexedSeq[String]]

  /** A row of a table of any types. `keyed` decides the value of the first column of the key. */
  private def newRowOfTypes(table: ServerTable, keyed: Int): Seq[String] = table.columns.map {
    case (name, typeId) if table.key.contains(name) =>
      val values = keyValues.getOrElseUpdate(typeId, ServerValues.of(typeId, random).take(Keys + 1))
      val value =
        if (name != table.key.head) values(random.nextInt(math.min(2, values.size)))
        else if (keyed > Keys) values.last
        else values(keyed % values.size)
      ServerValues.again(typeId, value, random)
    case (_, Text) => pick(Seq(null, "T1", s"v$lsn", ServerValues.of(Text, random).head))
    case (_, typeId) =>
      pick(Seq(null, ServerValues.again(typeId, ServerValues.of(typeId, random).head, random)))
  }

  private def newRow(table: ServerTable, keyed: Int): Seq[String] =
    if (only.nonEmpty) newRowOfTypes(table, keyed) else newRowOfFew(table, keyed)

  private def newRowOfFew(table: ServerTable, keyed: Int): Seq[String] = table.columns.map {
    case (_, Numeric)                             => numeric(keyed)
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

  /** A row with the same key and some other values. */
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
      if (one != second && table.keyOf(one) != table.keyOf(two)) {
        update(table, one, first)
        update(table, two, second)
      }
    } else {
      val away = withKey(table, one, newRow(table, 99))
      if (isFree(table, away)) {
        update(table, one, away)
        update(table, two, second)
        update(table, away, first)
      }
    }
  }

  /** Updates a row to other texts of the same values. */
  private def rewrite(table: ServerTable): Unit = {
    val row = pick(table.rows)
    val after = table.columns.map(_._2).zip(row).map {
      case (typeId, value) if only.nonEmpty  => ServerValues.again(typeId, value, random)
      case (Numeric, value) if value != null => numeric(new java.math.BigDecimal(value).intValue)
      case (_, value)                        => value
    }
    update(table, row, after)
  }

  private def change(): Unit = {
    val table = pick(tables)
    random.nextInt(100) match {
      case _ if table.rows.isEmpty || table.identity == ReplicaIdentity.NoColumns => insert(table)
      case n if n < 25                                                            => insert(table)
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
        table.truncate()
      }
      put(StreamMessages.truncate(some.map(_.oid)))
    }
  }

  /** Changes a column of a table of any types, as ALTER TABLE does. */
  private def alterOfTypes(table: ServerTable): Unit = {
    columnNumber += 1
    val (name, typeId) = pick(table.columns)
    (random.nextInt(4), typeId, table.dataTypes.toMap.apply(name)) match {
      case (0, _, _) =>
        val (added, dataType) = pick(ServerValues.types)
        table.add(s"added $columnNumber", added, dataType)
      case (1, _, _)                              => table.rename(name, s"renamed $columnNumber")
      case (2, _, _) if !table.key.contains(name) => table.forget(name)
      case (_, Int2, _)                           => table.widen(name, Int4, IntegerType)
      case (_, Int4, _)                           => table.widen(name, Int8, LongType)
      case (_, _, Narrow)                         => table.widen(name, Numeric, DecimalType(20, 4))
      case _                                      => ()
    }
  }

  private def alter(): Unit = if (only.nonEmpty) alterOfTypes(pick(only)) else alterOfFew()

  private def alterOfFew(): Unit = {
    val table = pick(Seq(wide, deferrable, rowsOnly))
    // The definition in the target stays, so a message can lack only its last columns.
    val isWhole = (table ne wide) || wide.names.contains("huge")
    if (isWhole && !table.names.contains("added")) {
      if ((table eq wide) && chance(30)) wide.drop("huge")
      else table.add("added", Int8)
    }
  }

  private def transaction(): Unit = {
    lsn += 10
    ordinal = 0
    tables.foreach(_.commit = lsn)
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

  private val Narrow = DecimalType(12, 4)

  /** How many values the first column of a key has. One more is for the row that makes room in a swap. */
  final private val Keys = 8

  /**
   * Returns a table whose columns have random types.
   *
   * @param oid the oid of the table
   */
  def table(oid: Long, name: String, random: Random): ServerTable = {
    val typed = IndexedSeq.fill(2 + random.nextInt(5))(
      ServerValues.types(random.nextInt(ServerValues.types.size))
    )
    val keys = math.min(typed.size - 1, Seq(1, 1, 1, 2, 3)(random.nextInt(5)))
    val names = typed.indices.map(at => s"c$at")
    val identity = Seq(ReplicaIdentity.Default, ReplicaIdentity.Index, ReplicaIdentity.Full)
    new ServerTable(
      oid,
      name,
      identity(random.nextInt(identity.size)),
      random.shuffle(names).take(keys),
      names.zip(typed.map(_._1)),
      names.zip(typed.map(_._2))
    )
  }
}
