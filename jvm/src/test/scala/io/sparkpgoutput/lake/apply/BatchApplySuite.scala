package io.sparkpgoutput.lake.apply

import scala.util.Random

import org.apache.spark.sql.types._
import org.apache.spark.sql.{DataFrame, Row}

import io.sparkpgoutput.SparkSessionTests
import io.sparkpgoutput.changes.StreamMessages
import io.sparkpgoutput.lake.LakeException
import io.sparkpgoutput.lake.batch.{OtherTable, RoutedTable}
import io.sparkpgoutput.lake.table.ReplicaIdentity
import io.sparkpgoutput.lake.target.{MarkName, TablePlace}
import io.sparkpgoutput.source.output.MessageFields

/** Batches of messages that Spark applies to tables in memory. */
class BatchApplySuite extends SparkSessionTests {
  private lazy val target = new MemoryTarget(spark, isLarge = true)
  private type Messages = Seq[(Long, Long, Array[Byte])]

  private def create(table: ServerTable): Unit =
    target.create(table.name, table.target.schema, table.key, Map.empty)

  private def messages(batch: Messages): DataFrame = spark.createDataFrame(
    spark.sparkContext.parallelize(
      batch.map { case (lsn, ordinal, message) => Row(lsn, ordinal, 1L, message) },
      numSlices = 1
    ),
    MessageFields.schema
  )

  private def run(
      batch: Messages,
      end: Long,
      tables: Seq[ServerTable],
      repairs: Boolean = false
  ): AppliedBatch = {
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    val applied = tables.map { table =>
      val mark = target.marks(table.name)
      ApplyTable(RoutedTable.of(table.target, mark, Map.empty), MarkName("job", table.oid, 0))
    }
    // A user's setting for joins, with which Spark makes no Bloom filter.
    val setting = "spark.sql.optimizer.runtime.bloomFilter.maxNumItems"
    spark.conf.set(setting, "0")
    try
      new BatchApply(target, repairs).run(messages(batch), applied, end) { statistics =>
        Right(PreparedTable(tables.find(_.oid == statistics.oid).get.target))
      }
    finally spark.conf.unset(setting)
  }

  private def content(table: ServerTable): Seq[String] = ServerTable.sorted(
    target
      .read(spark, table.name)
      .select(table.names.map(name =>
        org.apache.spark.sql.functions.col(TablePlace.quoted(name))
      ): _*)
      .collect()
      .toSeq
      .map(_.toSeq)
  )

  /** A transaction for each group of messages. */
  private def batch(table: ServerTable, lsn: Long)(groups: Seq[Array[Byte]]*): Messages =
    groups.zipWithIndex.flatMap { case (group, index) =>
      val at = lsn + 10 * index
      val described = if (index == 0) table.relation +: group else group
      (StreamMessages.begin(at, at) +: described :+ StreamMessages.commit(at)).zipWithIndex.map {
        case (message, ordinal) => (at, ordinal.toLong, message)
      }
    }

  private def table(oid: Long, name: String, columns: String*) = new ServerTable(
    oid,
    name,
    ReplicaIdentity.Default,
    columns.take(1),
    (columns.head -> ServerHistory.Int4) +: columns.tail.map(_ -> ServerHistory.Text),
    (columns.head -> IntegerType) +: columns.tail.map(_ -> StringType)
  )

  test("after each batch of a random history, the tables have the rows of the server") {
    val history = new ServerHistory(new Random(1))
    history.tables.foreach(create)
    (1 to 2).foreach { _ =>
      val found = run(history.batch(20), history.end, history.tables)
      found.tables.values.foreach(_.left.foreach(thrown => throw thrown))
      history.tables.foreach { table =>
        assert(content(table) == table.content, table.name)
        if (found.tables.contains(table.oid)) assert(target.marks(table.name) == history.end)
      }
    }
  }

  test("a value that was not sent follows its row through all keys of a batch") {
    val moved = table(21, "moved", "id", "v", "big")
    create(moved)
    def row(id: Int, v: String) = Seq(id.toString, v, s"T$v")
    run(batch(moved, 100)(Seq(1, 2).map(id => moved.insert(row(id, s"v$id")))), 110, Seq(moved))
    // 1 goes to 3, 4, …, 9; 2 goes to 1 and back; a row that was inserted goes to 20 and to 2's place.
    val chain = (1 +: (3 to 8)).zip(3 to 9).map { case (from, to) =>
      moved.update(row(from, "v1"), row(to, "v1"))
    }
    val swap = Seq(2 -> 1, 1 -> 2, 2 -> 30).map { case (from, to) =>
      moved.update(row(from, "v2"), row(to, "v2"))
    }
    val fresh = moved.insert(row(10, "v10")) +: Seq(10 -> 20, 20 -> 2).map { case (from, to) =>
      moved.update(row(from, "v10"), row(to, "v10"))
    }
    val found = run(batch(moved, 110)(chain, swap, fresh), 200, Seq(moved))
    assert(found.tables(21).map(_.changes) == Right(7 + 3 + 3))
    assert(content(moved) == moved.content)
    assert(content(moved) == Seq("2|v10|Tv10", "30|v2|Tv2", "9|v1|Tv1"))
  }

  test("a row moves although a value that was not sent is of a column that is dropped since") {
    val dropped = new ServerTable(
      51,
      "dropped",
      ReplicaIdentity.Default,
      Seq("id"),
      Seq("id" -> ServerHistory.Int4, "v" -> ServerHistory.Text, "doc" -> ServerHistory.Text),
      Seq("id" -> IntegerType, "v" -> StringType)
    )
    create(dropped)
    val row = Seq("1", "a", "T1")
    run(batch(dropped, 100)(Seq(dropped.insert(row))), 110, Seq(dropped))
    val moves = batch(dropped, 110)(Seq(dropped.update(row, "101" +: row.tail)))
    dropped.drop("doc")
    assert(run(moves, 120, Seq(dropped)).tables(51).map(_.changes) == Right(1))
    assert(content(dropped) == Seq("101|a"))
  }

  test("an update without the old row that REPLICA IDENTITY FULL sends is the table's error") {
    for ((key, oid) <- Seq(Seq("id"), Nil).zip(Seq(52L, 53L))) {
      val full = new ServerTable(
        oid,
        s"full$oid",
        ReplicaIdentity.Full,
        key,
        Seq("id" -> ServerHistory.Int4, "v" -> ServerHistory.Text),
        Seq("id" -> IntegerType, "v" -> StringType)
      )
      create(full)
      val update = StreamMessages.update(Seq("1", "b"), oid = oid)
      val found = run(batch(full, 100)(Seq(full.insert(Seq("1", "a")), update)), 110, Seq(full))
      val error = found.tables(oid).left.toOption.get
      assert(error.getMessage.contains("does not have all columns of the replica identity"))
      assert(content(full).isEmpty)
    }
  }

  test("columns that had each other's names for a while are the table's error") {
    val swapped = table(55, "swapped", "id", "a", "b")
    create(swapped)
    val target = swapped.target
    swapped.columns = swapped.columns.take(1) ++ swapped.columns.drop(1).reverse
    val messages = batch(swapped, 100)(Seq(swapped.insert(Seq("1", "of b", "of a"))))
    val found = run(messages, 110, Seq(swapped)).tables(55)
    assert(target.schema == swapped.target.schema)
    val error = found.left.toOption.get.asInstanceOf[LakeException]
    assert(error.getMessage.contains("had the names of others for a while"))
  }

  test("an insert without a value, which a row filter makes of an update, is the table's error") {
    val filtered = table(54, "filtered", "id", "v")
    create(filtered)
    val insert = StreamMessages.insert(Seq("1", StreamMessages.Unchanged), oid = 54)
    val found = run(batch(filtered, 100)(Seq(insert)), 110, Seq(filtered))
    val error = found.tables(54).left.toOption.get.asInstanceOf[LakeException]
    assert(error.getCondition == "PGOUTPUT_TABLE_CHANGED")
    assert(content(filtered).isEmpty)
  }

  test("rows without a key are told apart by each digit and sign of their values") {
    val hstoreAndTime = StructType.fromDDL("m MAP<STRING, STRING>, t TIMESTAMP")
    val nested = new ServerTable(
      56,
      "nested",
      ReplicaIdentity.Full,
      Nil,
      Seq("f" -> ServerHistory.Float8Array, "c" -> ServerHistory.Composite),
      Seq("f" -> ArrayType(DoubleType), "c" -> hstoreAndTime)
    )
    create(nested)
    def composite(micros: Int) = {
      val hstore = """""k""=>""v"""""
      s"""("$hstore","2026-01-01 00:00:00.00000$micros+00")"""
    }
    val rows = for (f <- Seq("{0}", "{-0}"); micros <- 1 to 2) yield Seq(f, composite(micros))
    val (deleted, left) = rows.splitAt(1)
    val changes = Seq(rows.map(nested.insert), deleted.map(nested.delete)).zip(Seq(100L, 110L))
    for ((messages, lsn) <- changes) {
      val found = run(batch(nested, lsn)(messages), lsn + 10, Seq(nested))
      found.tables(56).left.foreach(thrown => throw thrown)
    }
    val found = target.read(spark, nested.name).selectExpr("CAST(f AS STRING)", "c.t")
    val texts = found.collect().map(row => s"${row.getString(0)} ${row.getTimestamp(1).getNanos}")
    assert(texts.sorted.toSeq == Seq("[-0.0] 1000", "[-0.0] 2000", "[0.0] 2000"), left)
  }

  test("a change that does not fit the target is the table's error, or is repaired and counted") {
    val drifted = table(31, "drift`ed ü", "i`d.1", "s t")
    val sound = table(32, "sound", "id", "s")
    Seq(drifted, sound).foreach(create)
    run(batch(drifted, 100)(Seq(drifted.insert(Seq("1", "a")))), 110, Seq(drifted, sound))
    def wrong(change: => Array[Byte]) = {
      val before = drifted.rows.toSeq
      val message = change
      val good = sound.insert(Seq((sound.rows.size + 1).toString, "x"))
      val lsn = target.marks("sound") + 1000
      val both = batch(drifted, lsn)(Seq(message)) ++ batch(sound, lsn + 1)(Seq(good))
      val found = run(both, lsn + 10, Seq(drifted, sound))
      assert(content(sound) == sound.content)
      drifted.rows.clear()
      drifted.rows ++= before
      val error = found.tables(31).left.toOption.get
      assert(error.asInstanceOf[LakeException].getCondition == "PGOUTPUT_TARGET_DIFFERS")
      error.getMessage
    }
    def away(row: Seq[String])(message: => Array[Byte]) = { drifted.rows += row; message }
    val missing = Seq("7", "q")
    assert(wrong(drifted.insert(Seq("1", "again"))).contains("""{"i`d.1":1} is there already"""))
    assert(wrong(away(missing)(drifted.delete(missing))).contains("""{"i`d.1":7} is not there"""))
    assert(wrong(away(missing)(drifted.update(missing, Seq("7", "r")))).contains("is not there"))
    assert(content(drifted) == Seq("1|a"))

    val end = target.marks("sound") + 10000
    val repairs = batch(drifted, end - 100)(
      Seq(
        drifted.insert(Seq("1", "again")),
        away(missing)(drifted.update(missing, Seq("7", "r"))),
        away(Seq("8", "w"))(drifted.delete(Seq("8", "w"))),
        drifted.insert(Seq("9", "new"))
      )
    )
    val found = run(repairs, end, Seq(drifted), repairs = true)
    assert(found.tables(31).map(_.repaired) == Right(3))
    assert(content(drifted) == Seq("1|again", "7|r", "9|new"))
  }

  test("what is below the mark of a table is left out, and tables of others are counted") {
    val marked = table(41, "marked", "id", "v")
    create(marked)
    val first = batch(marked, 100)(Seq(marked.insert(Seq("1", "a"))))
    val second = batch(marked, 110)(Seq(marked.insert(Seq("2", "b"))))
    run(first, 110, Seq(marked))
    run(first ++ second, 120, Seq(marked))
    assert(content(marked) == marked.content)
    val found = run(second, 120, Nil)
    assert(found.statistics.others == Map(41L -> OtherTable(marked.target.source.name, 1)))
  }
}
