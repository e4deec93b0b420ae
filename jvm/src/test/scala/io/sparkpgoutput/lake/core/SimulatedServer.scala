package io.sparkpgoutput.lake.core

import scala.collection.mutable

import org.apache.spark.sql.types.StructType

import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.lake.catalog.{
  MirroredTable,
  ReplicaIdentity,
  SourceTable,
  TableColumn,
  TableMode
}
import io.sparkpgoutput.types.registry.TypeRegistry

/**
 * A table of the simulated server.
 *
 * @param membership changes whenever the table is put into the publication
 * @param isAllowed whether the role can read the table
 * @param isBroken whether the target cannot follow the definition
 * @param version changes with each ALTER or GRANT, as the xmins of the catalog do
 */
final case class SimTable(
    oid: Long,
    name: String,
    columns: Vector[String],
    rows: Map[Int, Map[String, Int]] = Map.empty,
    isPublished: Boolean = true,
    membership: Int = 0,
    isAllowed: Boolean = true,
    isBroken: Boolean = false,
    version: Int = 0,
    mode: TableMode = TableMode.Mirror
) {
  def hasBadValue: Boolean = rows.values.exists(SimTable.isBad)

  def definition: MirroredTable = MirroredTable(
    SourceTable(
      oid,
      TableName("public", name),
      columns.zipWithIndex.map { case (column, number) =>
        TableColumn(number, column, 23, -1, 0, hasMissing = false)
      },
      Nil,
      Nil,
      ReplicaIdentity.Default,
      Nil,
      None,
      1,
      isPartitioned = false,
      Nil,
      1,
      memberships = Seq(membership.toLong)
    ),
    name,
    SimTable.NoSchema,
    SimTable.NoTypes,
    mode
  )

  def published: CatalogEntry = CatalogEntry(
    definition,
    Some(name),
    Option.when(!isAllowed)(s"The role cannot read the table $name."),
    s"$name $columns $membership $isAllowed $isBroken $version",
    mode
  )
}

object SimTable {
  val NoSchema = new StructType
  val NoTypes = TypeRegistry()

  /** A value that the target cannot have. */
  val Bad: Int = -1

  def isBad(row: Map[String, Int]): Boolean = row.valuesIterator.contains(Bad)
}

/** @param row None for a row that was deleted, or for a TRUNCATE */
final case class SimChange(
    oid: Long,
    key: Int,
    row: Option[Map[String, Int]],
    isTruncate: Boolean = false
)

/** A committed transaction, and all tables after it. */
final case class SimTransaction(
    commit: Long,
    end: Long,
    changes: Vector[SimChange],
    tables: Map[Long, SimTable]
)

/**
 * A server with a WAL, a slot and a catalog that can be behind the WAL.
 *
 * @param mode the mode that the options of the job give all tables
 */
final class SimulatedServer(random: scala.util.Random, mode: TableMode) {
  val wal = mutable.ArrayBuffer.empty[SimTransaction]
  var end = 100L
  var timeline = 1

  /** The LSN at which each timeline but the first one begins. */
  var branches = Map.empty[Int, Long]
  var confirmed = 100L

  /** The process that reads the slot. */
  var reader: Option[AnyRef] = None

  /** How many transactions wait for a standby. The catalog does not show them yet. */
  private var hidden = 0
  private var nextOid = 1L
  private var number = 0

  /** Returns the tables as all transactions with a lower commit LSN have left them. */
  def asOf(lsn: Long): Map[Long, SimTable] =
    wal.lastIndexWhere(_.commit < lsn) match {
      case -1    => Map.empty
      case index => wal(index).tables
    }

  def tables: Map[Long, SimTable] = wal.lastOption.fold(Map.empty[Long, SimTable])(_.tables)

  def visible: Option[SimTransaction] = wal.lift(wal.size - 1 - hidden)

  def show(count: Int): Unit = hidden = math.max(0, hidden - count)

  private def next(): Int = {
    number += 1
    number
  }

  private def commit(tables: Map[Long, SimTable], changes: Vector[SimChange]): String = {
    val commit = end + 1 + random.nextInt(9)
    end = commit + 1 + random.nextInt(5)
    wal += SimTransaction(
      commit,
      end,
      changes.filter(change => tables.get(change.oid).exists(_.isPublished)),
      tables
    )
    if (hidden > 0 || random.nextInt(6) == 0) hidden += 1
    s"transaction $commit/$end"
  }

  def idle(): String = {
    end += 1 + random.nextInt(9)
    s"WAL to $end"
  }

  def create(): String = {
    val oid = nextOid
    nextOid += 1
    val names = SimulatedServer.Names.filterNot(name => tables.values.exists(_.name == name))
    if (names.isEmpty) "nothing"
    else {
      val table = SimTable(
        oid,
        names(random.nextInt(names.size)),
        Vector("v"),
        membership = next(),
        isPublished = random.nextInt(5) > 0,
        mode = mode
      )
      val rows =
        Seq.fill(random.nextInt(3))(random.nextInt(6) -> Map("v" -> random.nextInt(99))).toMap
      val made = table.copy(rows = rows)
      s"${commit(
          tables + (oid -> made),
          rows.map { case (key, row) => SimChange(oid, key, Some(row)) }.toVector
        )} creates $oid ${made.name} published=${made.isPublished}"
    }
  }

  def write(): String = if (tables.isEmpty) create()
  else {
    var now = tables
    val oids = tables.keys.toVector.sorted
    val changes = Vector.fill(1 + random.nextInt(4)) {
      val table = now(oids(random.nextInt(oids.size)))
      val key = random.nextInt(6)
      val change = random.nextInt(40) match {
        case 0          => SimChange(table.oid, key, None, isTruncate = true)
        case n if n < 8 => SimChange(table.oid, key, None)
        case n =>
          def value = if (n == 39 && random.nextInt(3) == 0) SimTable.Bad else random.nextInt(1000)
          SimChange(table.oid, key, Some(table.columns.map(_ -> value).toMap))
      }
      val rows = if (change.isTruncate) Map.empty[Int, Map[String, Int]]
      else change.row.fold(table.rows - key)(row => table.rows + (key -> row))
      now += table.oid -> table.copy(rows = rows)
      change
    }
    s"${commit(now, changes)} writes ${changes.map(c => s"${c.oid}:${c.key}").mkString(" ")}"
  }

  /** Changes a table's definition, name, rights or publication. */
  def alter(onlyName: Boolean): String = if (tables.isEmpty) create()
  else {
    val oids = tables.keys.toVector.sorted
    val table = tables(oids(random.nextInt(oids.size)))
    def put(changed: SimTable) =
      commit(tables + (changed.oid -> changed.copy(version = next())), Vector.empty)
    val what = (if (onlyName) 12 + random.nextInt(6) else random.nextInt(20)) match {
      case 0 | 1 => s"${commit(tables - table.oid, Vector.empty)} drops"
      case 2 | 3 | 4 =>
        s"${put(table.copy(columns = table.columns :+ s"c${next()}"))} adds a column to"
      case 5 if table.columns.size > 1 =>
        val dropped = table.columns.last
        val rows = table.rows.map { case (key, row) => key -> (row - dropped) }
        s"${put(table.copy(columns = table.columns.init, rows = rows))} drops a column of"
      case 6 | 7 | 8 =>
        s"${put(table.copy(isPublished = !table.isPublished, membership = next()))} publishes " +
          s"${!table.isPublished}"
      case 9 | 10 => s"${put(table.copy(isAllowed = !table.isAllowed))} grants ${!table.isAllowed}"
      case 11     => s"${put(table.copy(isBroken = !table.isBroken))} breaks ${!table.isBroken}"
      case 12 | 13 | 14 =>
        val other = tables(oids(random.nextInt(oids.size)))
        val changed = tables + (table.oid -> table.copy(name = other.name)) +
          (other.oid -> other.copy(name = table.name))
        s"${commit(if (table.oid == other.oid) tables else changed, Vector.empty)} swaps with ${other.oid}"
      case _ =>
        val names = SimulatedServer.Names.filterNot(name => tables.values.exists(_.name == name))
        if (names.isEmpty) "nothing"
        else {
          val name = names(random.nextInt(names.size))
          s"${put(table.copy(name = name))} renames to $name"
        }
    }
    s"$what ${table.oid}"
  }

  /** A standby that lacks the last transactions becomes the server. */
  def failOver(): String = {
    val lost = 1 + random.nextInt(4)
    // The slot's copy at the standby lags behind, too.
    var dropped = 0
    while (dropped < lost && wal.nonEmpty && wal.last.end > confirmed) {
      wal.dropRightInPlace(1)
      dropped += 1
    }
    end = math.max(confirmed, wal.lastOption.fold(100L)(_.end))
    timeline += 1
    branches += timeline -> end
    hidden = 0
    reader = None
    s"failover loses $dropped transactions: timeline $timeline begins at $end"
  }

  /** The user corrects everything that keeps tables from being replicated. */
  def correct(): String = {
    val corrected = tables.map { case (oid, table) =>
      val rows = table.rows.map {
        case (key, row) if SimTable.isBad(row) => key -> row.map { case (name, _) => name -> 7 }
        case same                              => same
      }
      oid -> table.copy(isAllowed = true, isBroken = false, rows = rows, version = next())
    }
    val changes = for {
      (oid, table) <- corrected.toVector
      (key, row) <- table.rows if !tables(oid).rows.get(key).contains(row)
    } yield SimChange(oid, key, Some(row))
    commit(corrected, changes) + " corrects"
  }
}

object SimulatedServer {
  val Names = Vector("a", "b", "c", "d")
}
