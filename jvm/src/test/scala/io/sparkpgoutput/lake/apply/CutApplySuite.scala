package io.sparkpgoutput.lake.apply

import scala.util.{Failure, Random, Success, Try}

import org.apache.spark.sql.types._

import io.sparkpgoutput.TableTests
import io.sparkpgoutput.changes.StreamMessages
import io.sparkpgoutput.errors.LakeException
import io.sparkpgoutput.lake.apply.CutOfServer.Messages
import io.sparkpgoutput.lake.catalog.{ReplicaIdentity, TableColumn}
import io.sparkpgoutput.lake.core.MarkName
import io.sparkpgoutput.lake.queue.CutMessages

/** Applies cuts to tables in memory. The driver folds the small cuts, and executors fold the large ones. */
class CutApplySuite extends TableTests {
  private lazy val target = new MemoryTarget(spark, isLarge = true)

  private def create(table: ServerTable): Unit = {
    if (target.exists(table.name)) target.drop(table.name)
    target.create(table.name, table.target.schema, table.key, Map.empty)
  }

  /** Runs a test twice: its cuts are small in one run, and large in the other. */
  private def both(name: String)(run: Long => Unit): Unit =
    for ((size, memory) <- Seq("small" -> CutApply.Memory, "large" -> 0L))
      test(s"$size cut: $name")(run(memory))

  private def commit(
      cut: CutMessages,
      table: ServerTable,
      memory: Long,
      repairs: Boolean = false
  ): CutResult = {
    // A user can set this for joins. Spark then makes no Bloom filter.
    val setting = "spark.sql.optimizer.runtime.bloomFilter.maxNumItems"
    spark.conf.set(setting, "0")
    try
      new CutApply(target, repairs, memory = memory).commit(
        spark,
        table.target,
        Map.empty,
        MarkName("job", table.oid, 0),
        target.marks(table.name),
        cut
      )
    finally spark.conf.unset(setting)
  }

  /** Commits a cut of each table. */
  private def run(
      batch: Messages,
      end: Long,
      tables: Seq[ServerTable],
      memory: Long,
      repairs: Boolean = false
  ): Map[Long, Try[CutResult]] = tables.map { table =>
    table.oid -> Try(commit(CutOfServer(table.oid, batch, end), table, memory, repairs))
  }.toMap

  private def error(found: Try[CutResult]): Throwable = found match {
    case Failure(error) => error
    case Success(done)  => fail(done.toString)
  }

  private def content(table: ServerTable): Seq[String] = table.contentOf(target, spark)

  /** A transaction for each group of messages. */
  private def batch(table: ServerTable, lsn: Long)(groups: Seq[Array[Byte]]*): Messages =
    groups.zipWithIndex.flatMap { case (group, index) =>
      val described = if (index == 0) table.relation +: group else group
      CutOfServer.transaction(lsn + 10 * index, described)
    }

  private def table(oid: Long, name: String, columns: String*) = new ServerTable(
    oid,
    name,
    ReplicaIdentity.Default,
    columns.take(1),
    (columns.head -> TypeOids.Int4) +: columns.tail.map(_ -> TypeOids.Text),
    (columns.head -> IntegerType) +: columns.tail.map(_ -> StringType)
  )

  both("after each cut of a random history, the tables have the rows of the server") { memory =>
    val history = new ServerHistory(new Random(1))
    val seen = scala.collection.mutable.Map.empty[Long, Array[Byte]]
    history.tables.foreach(create)
    (1 to 2).foreach { _ =>
      val batch = history.batch(20)
      history.tables.foreach { table =>
        val cut = CutOfServer(table.oid, batch, history.end, seen.get(table.oid))
        cut.definition.foreach(seen.update(table.oid, _))
        val found = commit(cut, table, memory)
        assert(found.changes == cut.changes && found.committed == (cut.changes > 0))
        assert(content(table) == table.content, table.name)
        if (found.committed) assert(target.marks(table.name) == history.end)
      }
    }
    history.tables.foreach(table => target.drop(table.name)) // All suites share these tables.
  }

  both("a value that was not sent follows its row through all keys of a batch") { memory =>
    val moved = table(21, "moved", "id", "v", "big")
    create(moved)
    def row(id: Int, v: String) = Seq(id.toString, v, s"T$v")
    run(
      batch(moved, 100)(Seq(1, 2).map(id => moved.insert(row(id, s"v$id")))),
      110,
      Seq(moved),
      memory
    )
    // The row 1 gets the keys 3, 4, …, 9. The row 2 gets 1, 2 and 30. A new row 10 gets 20 and 2.
    val chain = (1 +: (3 to 8)).zip(3 to 9).map { case (from, to) =>
      moved.update(row(from, "v1"), row(to, "v1"))
    }
    val swap = Seq(2 -> 1, 1 -> 2, 2 -> 30).map { case (from, to) =>
      moved.update(row(from, "v2"), row(to, "v2"))
    }
    val fresh = moved.insert(row(10, "v10")) +: Seq(10 -> 20, 20 -> 2).map { case (from, to) =>
      moved.update(row(from, "v10"), row(to, "v10"))
    }
    val found = run(batch(moved, 110)(chain, swap, fresh), 200, Seq(moved), memory)
    assert(found(21).get.changes == 7 + 3 + 3)
    assert(content(moved) == moved.content)
    assert(content(moved) == Seq("2|v10|Tv10", "30|v2|Tv2", "9|v1|Tv1"))
  }

  both("a row moves although a value that was not sent belongs to a column that is dropped now") {
    memory =>
      val dropped = new ServerTable(
        51,
        "dropped",
        ReplicaIdentity.Default,
        Seq("id"),
        Seq("id" -> TypeOids.Int4, "v" -> TypeOids.Text, "doc" -> TypeOids.Text),
        Seq("id" -> IntegerType, "v" -> StringType)
      )
      create(dropped)
      val row = Seq("1", "a", "T1")
      run(batch(dropped, 100)(Seq(dropped.insert(row))), 110, Seq(dropped), memory)
      val moves = batch(dropped, 110)(Seq(dropped.update(row, "101" +: row.tail)))
      dropped.drop("doc")
      assert(run(moves, 120, Seq(dropped), memory).apply(51).get.changes == 1)
      assert(content(dropped) == Seq("101|a"))
  }

  both("an update without the old row that REPLICA IDENTITY FULL sends is the table's error") {
    memory =>
      for ((key, oid) <- Seq(Seq("id"), Nil).zip(Seq(52L, 53L))) {
        val full = new ServerTable(
          oid,
          s"full$oid",
          ReplicaIdentity.Full,
          key,
          Seq("id" -> TypeOids.Int4, "v" -> TypeOids.Text),
          Seq("id" -> IntegerType, "v" -> StringType)
        )
        create(full)
        val isMissing = "does not have all columns of the replica identity"
        // The old row of a partition with another identity has NULL, and a TOASTed value is not NULL.
        val toasted =
          StreamMessages.update(Seq("2", StreamMessages.Unchanged), old = Seq("1", null), oid = oid)
        // A primary key is not NULL either.
        val indexed =
          Option.when(key.nonEmpty)(StreamMessages.delete(old = Seq(null, "a"), oid = oid))
        for (
          (change, says) <- Seq(
            StreamMessages.update(Seq("1", "b"), oid = oid) -> isMissing,
            toasted -> isMissing
          ) ++ indexed.map(_ -> "has NULL in a column of the table's replica identity")
        ) {
          val messages = Seq(full.insert(Seq("1", "a")), change)
          val found = run(batch(full, 100)(messages), 110, Seq(full), memory)
          assert(error(found(oid)).getMessage.contains(says))
          assert(content(full).isEmpty)
        }
      }
  }

  both("a column that had the name of another one for a while is the table's error") { memory =>
    val Seq(id, a, b) = Seq("id" -> TypeOids.Int4, "a" -> TypeOids.Text, "b" -> TypeOids.Text)
    // For example, `a` was renamed to `b` and then to `a` again, before the column `b` was added. In the last one, `b`
    // had another name while a new column had its name.
    val replaced = Seq(id, a, "c" -> TypeOids.Text, b)
    for (sent <- Seq(Seq(id, b, a), Seq(id, b), Seq(id, "a" -> TypeOids.Int4), replaced)) {
      val reused = table(55, "reused", "id", "a", "b")
      create(reused)
      val target = reused.target
      val columns = target.schema.fieldNames.zip(reused.columns).zipWithIndex.map {
        case ((name, (_, typeId)), at) =>
          TableColumn(at + 1, name, typeId, -1, 0, hasMissing = false)
      }
      reused.columns = sent
      val messages = batch(reused, 100)(Seq(reused.insert(sent.indices.map(at => s"$at"))))
      val found = Try(new CutApply(this.target, repairs = false, memory = memory).commit(
        spark,
        target.copy(source = target.source.copy(columns = columns.toVector)),
        Map.empty,
        MarkName("job", 55, 0),
        this.target.marks("reused"),
        CutOfServer(55, messages, 110)
      ))
      assert(target.schema == reused.target.schema)
      assert(error(found).getMessage.contains("had the name of another one between"), s"$sent")
    }
  }

  both("an insert that lacks a value, because a row filter made it of an update, is an error") {
    memory =>
      val filtered = table(54, "filtered", "id", "v")
      create(filtered)
      val insert = StreamMessages.insert(Seq("1", StreamMessages.Unchanged), oid = 54)
      val found = run(batch(filtered, 100)(Seq(insert)), 110, Seq(filtered), memory)
      assert(error(found(54)).asInstanceOf[LakeException].getCondition == "PGOUTPUT_TABLE_CHANGED")
      assert(content(filtered).isEmpty)
  }

  both("rows without a key differ if a digit or a sign of their values differs") { memory =>
    val hstoreAndTime = StructType.fromDDL("m MAP<STRING, STRING>, t TIMESTAMP")
    val nested = new ServerTable(
      56,
      "nested",
      ReplicaIdentity.Full,
      Nil,
      Seq("f" -> TypeOids.Float8Array, "c" -> TypeOids.Composite),
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
      val found = run(batch(nested, lsn)(messages), lsn + 10, Seq(nested), memory)
      found(56).get: Unit
    }
    val found = target.read(spark, nested.name).selectExpr("CAST(f AS STRING)", "c.t")
    val texts = found.collect().map(row => s"${row.getString(0)} ${row.getTimestamp(1).getNanos}")
    assert(texts.sorted.toSeq == Seq("[-0.0] 1000", "[-0.0] 2000", "[0.0] 2000"), left)
  }

  both("a key with another text of the same numbers is the same key, and gets that text") {
    memory =>
      val keyed = new ServerTable(
        57,
        "nested key",
        ReplicaIdentity.Default,
        Seq("f", "c", "d"),
        Seq(
          "f" -> TypeOids.Float8Array,
          "c" -> TypeOids.Composite,
          "d" -> TypeOids.Float8,
          "v" -> TypeOids.Text
        ),
        Seq(
          "f" -> ArrayType(DoubleType),
          "c" -> StructType.fromDDL("n DECIMAL(5,2), b BOOLEAN"),
          "d" -> DoubleType,
          "v" -> StringType
        )
      )
      create(keyed)
      val texts = Seq("{0,1.5}" -> "(1.0,t)", "{0,1.5}" -> "(1.00,t)", "{-0,1.5}" -> "(1.0,t)")
      val rows = texts.zip(Seq("0", "0", "-0")).zipWithIndex.map { case (((f, c), d), at) =>
        Seq(f, c, d, s"v$at")
      }
      val updates = rows.zip(rows.tail)
      val cuts = Seq(
        Seq(keyed.insert(rows.head)),
        updates.map { case (from, to) => keyed.update(from, to) },
        Seq(keyed.delete(rows.last), keyed.insert(rows.head))
      )
      val found = cuts.zipWithIndex.map { case (messages, at) =>
        val lsn = 100L + 20 * at
        run(batch(keyed, lsn)(messages), lsn + 10, Seq(keyed), memory)(57).get: Unit
        target.read(spark, keyed.name).selectExpr("CAST(f AS STRING)", "d", "v").collect()
          .map(_.mkString(" ")).toSeq
      }
      val (first, last) = ("[0.0, 1.5] 0.0 v0", "[-0.0, 1.5] -0.0 v2")
      assert(found == Seq(first, last, first).map(Seq(_)))
  }

  both("a change that does not fit the target is the table's error, or is repaired and counted") {
    memory =>
      val drifted = table(31, "drift`ed ü", "i`d.1", "s t")
      val sound = table(32, "sound", "id", "s")
      Seq(drifted, sound).foreach(create)
      run(
        batch(drifted, 100)(Seq(drifted.insert(Seq("1", "a")))),
        110,
        Seq(drifted, sound),
        memory
      )
      def wrong(change: => Array[Byte]) = {
        val before = drifted.rows.toSeq
        val message = change
        val good = sound.insert(Seq((sound.rows.size + 1).toString, "x"))
        val lsn = target.marks("sound") + 1000
        val both = batch(drifted, lsn)(Seq(message)) ++ batch(sound, lsn + 1)(Seq(good))
        val found = run(both, lsn + 10, Seq(drifted, sound), memory)
        assert(content(sound) == sound.content)
        drifted.rows.clear()
        drifted.rows ++= before
        val differs = error(found(31)).asInstanceOf[LakeException]
        assert(differs.getCondition == "PGOUTPUT_TARGET_DIFFERS")
        differs.getMessage
      }
      def away(row: Seq[String])(message: => Array[Byte]) = { drifted.rows += row; message }
      val missing = Seq("7", "q")
      assert(wrong(drifted.insert(Seq("1", "again"))).contains("""{"i`d.1":1} was inserted"""))
      assert(wrong(
        away(missing)(drifted.delete(missing))
      ).contains("""{"i`d.1":7} was updated or deleted"""))
      assert(wrong(away(missing)(drifted.update(
        missing,
        Seq("7", "r")
      ))).contains("was updated or deleted"))
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
      val found = run(repairs, end, Seq(drifted), memory, repairs = true)
      assert(found(31).get.repaired == 3)
      assert(content(drifted) == Seq("1|again", "7|r", "9|new"))
  }

  both("changes below the mark of a table are left out, and a cut without others has no commit") {
    memory =>
      val marked = table(41, "marked", "id", "v")
      create(marked)
      val first = batch(marked, 100)(Seq(marked.insert(Seq("1", "a"))))
      val second = batch(marked, 110)(Seq(marked.insert(Seq("2", "b"))))
      run(first, 110, Seq(marked), memory)
      assert(run(first ++ second, 120, Seq(marked), memory)(41).get.changes == 1)
      assert(content(marked) == marked.content)
      assert(run(first ++ second, 130, Seq(marked), memory)(41).get == CutResult.nothing)
      assert(target.marks("marked") == 120)
  }

  both("a TRUNCATE of several tables applies to each, and needs no definition of the others") {
    memory =>
      val truncated = table(42, "truncated", "id", "v")
      create(truncated)
      run(
        batch(truncated, 100)(Seq(truncated.insert(Seq("1", "a")))),
        110,
        Seq(truncated),
        memory
      )
      truncated.rows.clear()
      val messages = Seq(StreamMessages.truncate(Seq(7L, 42L, 8L)), truncated.insert(Seq("2", "b")))
      run(batch(truncated, 110)(messages), 120, Seq(truncated), memory)(42).get
      assert(content(truncated) == Seq("2|b"))
  }

  both("an old key with NULL, which a partition with another identity sends, is an error") {
    memory =>
      val keyed = table(44, "keyed", "id", "k")
      create(keyed)
      val messages = Seq(StreamMessages.delete(key = Seq(null, "5"), oid = 44))
      val found = run(batch(keyed, 100)(messages), 110, Seq(keyed), memory, repairs = true)
      assert(error(found(44)).getMessage.contains("a partition had another replica identity"))
  }

  test("a commit frees all rows that it has stored") {
    val keyed = table(45, "kept", "id", "v")
    val counted = new ServerTable(
      46,
      "counted",
      ReplicaIdentity.Full,
      Nil,
      Seq("x" -> TypeOids.Int4),
      Seq("x" -> IntegerType)
    )
    Seq(keyed, counted).foreach(create)
    val context = spark.sparkContext
    context.getPersistentRDDs.values.foreach(_.unpersist(blocking = true))
    for ((memory, number) <- Seq(CutApply.Memory, 0L).zipWithIndex) {
      val lsn = 100L + 100 * number
      val ids = (1 to 300).map(_ + 10000 * number)
      val inserts = ids.map(id => keyed.insert(Seq(id.toString, s"T$id")))
      val moves = ids.map(id => keyed.update(Seq(id.toString, s"T$id"), Seq(s"-$id", s"T$id")))
      val rows = batch(keyed, lsn)(inserts, moves)
      val copies = Seq("1", "2").map(x => counted.insert(Seq(x))) :+ counted.delete(Seq("1"))
      val found = run(rows, lsn + 50, Seq(keyed), memory) ++
        run(batch(counted, lsn)(copies), lsn + 50, Seq(counted), memory)
      found.values.foreach(_.get)
      assert(content(keyed) == keyed.content)
      assert(content(counted) == counted.content)
      assert(context.getPersistentRDDs.isEmpty)
    }
  }
}
