package io.sparkpgoutput.lake.target

import java.nio.file.Files
import java.time.Duration
import java.util.concurrent.CountDownLatch
import java.util.concurrent.atomic.AtomicInteger

import scala.concurrent.ExecutionContext.Implicits.global
import scala.concurrent.duration.Duration.Inf
import scala.concurrent.{Await, Future}
import scala.util.Try

import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.{CatalystTypeConverters, InternalRow}
import org.apache.spark.sql.functions.{col, udf}
import org.apache.spark.sql.types._

import org.apache.iceberg.expressions.Expressions
import org.apache.iceberg.hadoop.HadoopTables
import org.apache.iceberg.spark.actions.SparkActions
import org.apache.iceberg.{BaseTable, HasTableOperations, TableMetadata, TableOperations}

import io.sparkpgoutput.TakesLong
import io.sparkpgoutput.errors.{LakeException, PgOutputException}
import io.sparkpgoutput.lake.apply.IcebergTables
import io.sparkpgoutput.lake.catalog.{PartitionField, TableShape}
import io.sparkpgoutput.lake.direct._

/** Direct commits to tables of Iceberg that others write, too. */
class IcebergDirectSuite extends IcebergTests {

  /** Operations that another thread refreshes, after a step, before they say for the nth time what is current. */
  final private class Refreshed(operations: TableOperations, number: Int, step: () => Unit)
      extends CheckedOperations(operations) {
    private val left = new AtomicInteger(number)
    def isOver: Boolean = left.get <= 0

    // Iceberg calls it in several threads.
    override def current(): TableMetadata = {
      if (left.decrementAndGet() == 0) {
        step()
        operations.refresh(): Unit
      }
      operations.current
    }
  }

  test("v2: rows stay deleted when a data file goes that was beside theirs") {
    val made = new Written("beside", columns, 2)
    Seq(0 until 100, 200 until 203, 300 until 303)
      .foreach(ids => made.write(Nil, values(ids, "a")))
    made.write(Seq(0, 200), Nil) // one delete file for two data files
    // The next commit reads the metadata again, which give this delete file to all three.
    spark.sql(s"INSERT INTO ${made.sql} VALUES (999, 'b')")
    made.write(Seq(201, 202), Nil)
    // So many delete files become one, which has rows of the first data file only.
    (1 to 17).foreach(id => made.write(Seq(id), Nil))
    made.write(300 until 303, Nil)
    assert(made.rows.map(_.getInt(0)) == (18 until 100) :+ 999)
  }

  test("a copy that keeps rows of the table is a conflict if somebody has changed them since") {
    val made = new Written("kept", columns, 2)
    (1 to 3).foreach(id => made.write(Nil, values(Seq(id), "a")))
    def operations = new HadoopTables(spark.sessionState.newHadoopConf())
      .load(made.iceberg.location)
    def copy(also: () => Unit): Unit = {
      DuringRead.step = also
      val kept = target.read(spark, "kept")
        .where(udf((_: Int) => DuringRead.run()).asNondeterministic()(col("id")))
      target.commit(spark, "kept", name.copy(generation = 1), None, 50)(
        TargetWrite.Replace(kept, None)
      )
    }
    // By another process, as Spark's table would see it at once.
    def delete(): Unit =
      operations.newDelete().deleteFromRowFilter(Expressions.equal("id", 2)).commit()
    val conflict = intercept[PgOutputException](copy(() => delete()))
    assert(conflict.getCondition == "PGOUTPUT_COMMIT_CONFLICT")
    assert(made.rows == values(Seq(1, 3), "a"))
    copy(() => ())
    assert(made.rows == values(Seq(1, 3), "a"))
  }

  private def isFlat(dataType: DataType) = dataType match {
    case _: ArrayType | _: MapType | _: StructType => false
    case _                                         => true
  }

  Seq(2, 3).foreach { version =>
    // DirectHistoriesSuite writes tables of both versions in each run.
    val tags = TakesLong.when(version == 3)

    test(s"v$version: a table can have no snapshot, and a commit can change nothing", tags: _*) {
      val made = new Written("empty", columns, version)
      made.write(Nil, Nil)
      assert(made.rows.isEmpty)
      made.write(Nil, values(1 to 3, "a"))
      made.write(Seq(7), Nil)
      assert(made.rows == values(1 to 3, "a"))
      made.write(1 to 3, Nil)
      assert(made.rows.isEmpty && made.total("data-files") == 0)
      made.write(Nil, values(4 to 4, "b"))
      assert(made.rows == values(4 to 4, "b"))
    }

    test(s"v$version: columns can be renamed, widened and added between commits", tags: _*) {
      val made = new Written("evolved", columns, version)
      made.write(Nil, values(1 to 5, "a"))
      target.alter(
        made.table,
        Seq(
          ColumnChange.Rename("v", "w"),
          ColumnChange.Widen("id", LongType),
          ColumnChange.Add("v", IntegerType)
        )
      )
      made.write(Seq(2L, 4L), Seq(Row(2L, "b", 7)))
      made.write(Seq(1L << 40), Seq(Row(1L << 40, "c", 8)))
      assert(
        made.rows == Seq(
          Row(1L, "a", null),
          Row(2L, "b", 7),
          Row(3L, "a", null),
          Row(5L, "a", null),
          Row(1L << 40, "c", 8)
        )
      )
      made.write(Seq(3L, 1L << 40), Nil)
      assert(made.rows.map(_.getLong(0)) == Seq(1L, 2L, 5L))
    }

    test(s"v$version: a commit sees what others have written before", tags: _*) {
      val made = new Written("before", columns, version)
      made.write(Nil, values(1 to 5, "a"))
      spark.sql(s"INSERT INTO ${made.sql} VALUES (6, 'x'), (7, 'x')")
      spark.sql(s"DELETE FROM ${made.sql} WHERE id IN (2, 3)")
      var found = -1
      made.commit { table =>
        val change = made.change(Seq(2, 3, 4, 6), values(Seq(2, 6), "b"))(table)
        found = change.deleted.values.map(_.length).sum
        change
      }
      assert(found == 2)
      assert(made.rows == Seq(Row(1, "a"), Row(2, "b"), Row(5, "a"), Row(6, "b"), Row(7, "x")))
    }

    val during: Seq[(String, Written => Unit, Seq[Int])] = Seq(
      (
        "adds rows",
        made => spark.sql(s"INSERT INTO ${made.sql} VALUES (9, 'x'), (8, 'x')"),
        Seq(8)
      ),
      ("deletes rows", made => spark.sql(s"DELETE FROM ${made.sql} WHERE id = 1"), Nil),
      (
        "compacts files",
        made =>
          SparkActions.get(spark).rewriteDataFiles(made.iceberg).option("rewrite-all", "true")
            .execute(),
        Seq(1)
      ),
      (
        "forgets snapshots",
        made => {
          spark.sql(s"INSERT INTO ${made.sql} VALUES (8, 'x')")
          made.iceberg.expireSnapshots().expireOlderThan(Long.MaxValue).commit()
        },
        Seq(1, 8)
      )
    )
    test(s"v$version: a commit begins again if somebody else writes the table", TakesLong) {
      during.foreach { case (what, other, left) =>
        val made = new Written("during", columns, version)
        made.write(Nil, values(1 to 5, "a"))
        made.write(Seq(5), values(Seq(6), "a"))
        var lookups = 0
        made.write(
          Seq(2, 9),
          values(Seq(2), "b"),
          () => {
            lookups += 1
            if (lookups == 1) other(made)
          }
        )
        assert(lookups == 2, what)
        val ids =
          (Seq(1).filterNot(_ => what == "deletes rows") ++ left ++ Seq(2, 3, 4, 6)).distinct
        assert(made.rows.map(_.getInt(0)) == ids.sorted, what)
        assert(made.rows.filter(_.getString(1) == "b") == values(Seq(2), "b"), what)
        made.write(Seq(3), Nil)
        assert(made.rows.map(_.getInt(0)) == ids.sorted.filter(_ != 3), what)
        val (there, known) = made.allFiles
        assert(there == known, what)
      }
    }

    test(s"v$version: the files of a rewrite that is not committed are removed", TakesLong) {
      val steps: Seq[Written => Unit] = Seq(
        _ => throw new IllegalStateException("no catalog"),
        // Iceberg sees this only when it commits, because the operations are older.
        made => spark.sql(s"DELETE FROM ${made.sql} WHERE id = 2")
      )
      steps.foreach { step =>
        val made = new Written("unmade", columns, version)
        (1 to 9).foreach(id => made.write(Nil, values(Seq(2 * id, 2 * id + 1), "a")))
        var calls = 0
        // The catalog would give the operations that the statement uses, which know its commit.
        def loaded = new HadoopTables(spark.sessionState.newHadoopConf())
          .load(made.iceberg.location).asInstanceOf[HasTableOperations].operations
        def compact() = new IcebergDirect(KeyCache.none.table("t")).compact { () =>
          calls += 1
          val before = new BaseTable(loaded, made.table)
          if (calls == 2) step(made)
          before
        }
        intercept[RuntimeException](compact())
        val (there, known) = made.allFiles
        assert(calls == 2 && there == known)
      }
    }

    test(s"v$version: a rewrite that has begun is committed after a query that has begun since") {
      val made = new Written("begun", columns, version)
      (1 to 9).foreach(id => made.write(Nil, values(Seq(2 * id, 2 * id + 1), "a")))
      val direct = new IcebergDirect(KeyCache.none.table("t"))
      val goesOn = new CountDownLatch(1)
      var looks = Seq.empty[Boolean]
      val query = Future(direct.whileQueried(goesOn.await()))
      val done = direct.compact { () =>
        if (looks.isEmpty) Future {
          Thread.sleep(1000)
          goesOn.countDown()
        }
        looks :+= direct.isQueried
        val loaded =
          new HadoopTables(spark.sessionState.newHadoopConf()).load(made.iceberg.location)
        new BaseTable(loaded.asInstanceOf[HasTableOperations].operations, made.table)
      }
      Await.result(query, Inf)
      assert(done && looks.length == 2 && !looks.last)
      assert(made.rows.length == 18)
    }

    test(
      s"v$version: rows that somebody deletes during the commit of a rewrite stay deleted",
      TakesLong
    ) {
      def isDuring(number: Int) = {
        val made = new Written("moment", columns, version)
        (1 to 9).foreach(id => made.write(Nil, values(Seq(2 * id, 2 * id + 1), "a")))
        def loaded = new HadoopTables(spark.sessionState.newHadoopConf())
          .load(made.iceberg.location).asInstanceOf[HasTableOperations].operations
        val refreshed = new Refreshed(loaded, number, () => made.write(Seq(2), Nil))
        val tables = Iterator(loaded, refreshed).map(new BaseTable(_, made.table))
        val direct = new IcebergDirect(KeyCache.none.table("t"))
        val done = Try(direct.compact(() => tables.next()))
        assert(done.fold(IcebergDirect.isOvertaken, identity), s"$number: $done")
        assert(made.rows.map(_.getInt(0)) == (2 to 19).filter(_ > 2 || !refreshed.isOver), number)
        refreshed.isOver
      }
      assert(Iterator.from(1).takeWhile(isDuring).take(40).length > 4)
    }

    test(s"v$version: values of each type, also nested ones, are written and read", tags: _*) {
      val nested = new StructType().add("x", IntegerType).add("y", ArrayType(StringType))
      val schema = new StructType()
        .add("id", IntegerType)
        .add("b", BooleanType)
        .add("l", LongType)
        .add("f", FloatType)
        .add("d", DoubleType)
        .add("n", DecimalType(9, 2))
        .add("m", DecimalType(38, 10))
        .add("s", StringType)
        .add("c", BinaryType)
        .add("t", DateType)
        .add("ts", TimestampType)
        .add("tn", TimestampNTZType)
        .add("a", ArrayType(IntegerType))
        .add("k", MapType(StringType, LongType))
        .add("o", nested)
      val full = Row(
        1,
        true,
        2L,
        1.5f,
        Double.NaN,
        new java.math.BigDecimal("12.50"),
        new java.math.BigDecimal("-1234567890123456789.0123456789"),
        "ü😀",
        Array[Byte](0, -1),
        java.sql.Date.valueOf("1066-10-14"),
        java.sql.Timestamp.valueOf("2026-01-02 03:04:05.123456"),
        java.time.LocalDateTime.parse("0001-01-01T00:00:00.000001"),
        Seq[Any](1, null, 3),
        Map[String, Any]("x" -> 1L, "y" -> null),
        Row(5, Seq("p", null))
      )
      val empty = Row.fromSeq(2 +: Seq.fill(schema.length - 1)(null))
      val made = new Written("types", schema, version)
      made.write(Nil, Seq(full, empty))
      def plain(row: Row) =
        Row.fromSeq(row.toSeq.map { case bytes: Array[Byte] => bytes.toSeq; case other => other })
      assert(made.rows.map(plain) == Seq(full, empty).map(plain))
      made.commit { table =>
        val flat = schema.indices.filter(at => isFlat(schema(at).dataType))
        Seq(schema.indices, flat, flat.reverse).foreach { ordinals =>
          val part = StructType(ordinals.map(table.schema(_)))
          val toRow = CatalystTypeConverters.createToScalaConverter(part)
          val read = table.read(table.files.head, ordinals)(_.map { row =>
            val values = ordinals.indices.map(at =>
              if (row.isNullAt(at)) null else InternalRow.copyValue(row.get(at, part(at).dataType))
            )
            plain(toRow(InternalRow.fromSeq(values)).asInstanceOf[Row])
          }.toVector)
          assert(read == Seq(full, empty).map(row => plain(Row.fromSeq(ordinals.map(row.get)))))
        }
        DirectChange(Map.empty, Vector.empty)
      }
    }
  }

  test(
    "v2: the number of delete files stays small in a partition, also if files are rewritten",
    TakesLong
  ) {
    def partitioned(table: String) = {
      val made = new Written(table, columns.add("p", IntegerType), 2)
      target.reshape(table, TableShape(Seq(PartitionField("p", "identity"))))
      made.write(Nil, Seq(Row(-1, "old", 2)))
      made
    }
    def rows(ids: Seq[Int], text: String) = ids.map(id => Row(id, text, 1))
    val rewritten = partitioned("rewritten")
    (0 until 20).foreach { round =>
      val first = 10 * round
      rewritten.write(Nil, rows(first to first + 4, "a"))
      rewritten.write(Nil, rows(first + 5 to first + 7, "a"))
      // A delete file for two data files, which are both due.
      val changed = Seq(first, first + 1, first + 5)
      rewritten.write(changed, rows(changed, "b"))
      while (target.compact(rewritten.table)) ()
    }
    assert(rewritten.total("delete-files") <= 17 && rewritten.rows.length == 1 + 20 * 8)
    assert(rewritten.rows.count(_.getString(1) == "b") == 20 * 3)
    val spread = partitioned("spread")
    (0 until 40).foreach(number => spread.write(Nil, rows(10 * number to 10 * number + 9, "a")))
    var most = 0
    (0 until 40 by 2).foreach { number =>
      spread.write(Seq(10 * number, 10 * number + 10), Nil)
      most = math.max(most, spread.total("delete-files"))
    }
    assert(most == 17 && spread.total("delete-files") < 17 && spread.rows.length == 1 + 40 * 9)
    // Files without a row that is left take their part of a delete file with them.
    val emptied = partitioned("emptied")
    emptied.write(Nil, rows(1 to 2, "a"))
    emptied.write(Nil, rows(3 to 4, "a"))
    emptied.write(Seq(1, 3), Nil)
    emptied.write(Seq(2), Nil)
    assert(emptied.total("delete-files") == 1)
    emptied.write(Seq(4), Nil)
    assert(emptied.total("delete-files") == 0 && emptied.rows.length == 1)
  }

  test("v2: a delete file of many rows stays, and the small ones beside it become one", TakesLong) {
    val made = new Written("levels", columns, 2)
    made.write(Nil, values(0 until 1000, "a"))
    made.write(0 until 400, Nil)
    def deleted = spark.table(s"${target.sqlName(made.table)}.delete_files")
      .select("record_count", "file_path").collect().map(row => row.getLong(0) -> row.getString(1))
    val large = deleted.head
    (400 until 440).foreach { id =>
      // After another writer's commit, the delete files are read again.
      if (id == 410) spark.sql(s"INSERT INTO ${made.sql} VALUES (1000, 'b')"): Unit
      made.write(Seq(id), Nil)
    }
    assert(deleted.toMap.get(400).contains(large._2))
    // The large file, those in which small ones became one, and those of the commits since then.
    assert(deleted.map(_._1).sum == 440 && deleted.length <= 17)
    assert(made.rows.map(_.getInt(0)).sorted == (440 to 1000))
    made.write((440 until 700).toSeq, Nil)
    (700 until 720).foreach(id => made.write(Seq(id), Nil))
    assert(deleted.map(_._1).sum == 720 && made.rows.length == 281)
  }

  test("v3: a rewrite keeps the ids of rows and the numbers of their last changes", TakesLong) {
    val made = new Written("lineage", columns, 3)
    def lineage = target.read(spark, made.table)
      .select("id", "v", "_row_id", "_last_updated_sequence_number").orderBy("id").collect().toSeq
    (0 to 2).foreach { round =>
      (0 to 8).foreach { number =>
        val first = 100 * round + 10 * number
        made.write(Seq(first - 7, first / 2), values(first to first + 9, s"commit $first"))
      }
      val before = lineage
      assert(before.map(_.getLong(2)).distinct.length == before.length)
      assert(target.compact(made.table))
      while (target.compact(made.table)) ()
      assert(lineage == before && made.total("data-files") < 9)
    }
  }

  test("a table of v2 with delete files becomes one of v3") {
    val made = new Written("upgraded", columns, 2)
    made.write(Nil, values(1 to 5, "a"))
    made.write(Nil, values(6 to 9, "a"))
    made.write(Seq(1, 6), Nil)
    made.write(Seq(2), Nil)
    target.setProperties(made.table, Map("format-version" -> "3"))
    made.write(Seq(3, 7), values(Seq(3), "b"))
    assert(made.rows == values(Seq(3), "b") ++ values(Seq(4, 5, 8, 9), "a"))
    made.write(Seq(4, 5), Nil)
    assert(made.rows == values(Seq(3), "b") ++ values(Seq(8, 9), "a"))
  }

  test("a value of the type VARIANT is read and written") {
    val made = new Written("variant", columns.add("j", VariantType), 3)
    spark.sql(s"INSERT INTO ${made.sql} SELECT 1, 'a', parse_json('[1, null]')")
    made.commit { table =>
      val copy = table.read(table.files.head, Seq(0, 1, 2)) { rows =>
        val row = rows.next()
        InternalRow(2, row.getUTF8String(1).copy(), row.getVariant(2))
      }
      DirectChange(Map.empty, Vector(copy, InternalRow(3, null, null)))
    }
    val found =
      target.read(spark, made.table).selectExpr("id", "to_json(j)").orderBy("id").collect()
    assert(found.toSeq == Seq(Row(1, "[1,null]"), Row(2, "[1,null]"), Row(3, null)))
  }

  test("the commit of another process of the job is not overwritten") {
    val made = new Written("other", columns, 2)
    made.write(Nil, values(1 to 3, "a"))
    val thrown = intercept[LakeException] {
      target.commit(spark, made.table, name, Some(7), 9)(
        TargetWrite.Direct(made.change(Seq(1), values(Seq(1), "b")))
      )
    }
    assert(thrown.getMessage.contains("another process of the job"))
    assert(made.rows == values(1 to 3, "a"))
  }

  test("a key that two rows have is left to MERGE") {
    val made = new Written("twice", columns, 2)
    made.write(Nil, values(Seq(1, 2, 1), "a"))
    assert(intercept[NotDirect](made.write(Seq(1), Nil)).reason.contains("same key"))
  }

  test("a table with a NOT NULL column or a special property is left to MERGE") {
    def reason(properties: Map[String, String] = Map.empty)(change: Written => Unit) = {
      val made = new Written("special", columns, 2, properties)
      assert(target.look(made.table).notDirect.isEmpty || properties.nonEmpty)
      change(made)
      target.look(made.table).notDirect.getOrElse("")
    }
    assert(
      reason()(_.iceberg.updateSchema().allowIncompatibleChanges().requireColumn("v").commit()) ==
        "the column v is NOT NULL"
    )
    assert(
      reason(Map("write.merge.mode" -> "copy-on-write"))(_ => ()).contains("write.merge.mode")
    )
    assert(reason(Map("write.wap.enabled" -> "true"))(_ => ()).contains("write.wap.enabled"))
    assert(reason(Map("write.format.default" -> "orc"))(_ => ()).contains("write.format.default"))
    assert(reason(Map("write.upsert.enabled" -> "true"))(_ => ()).contains("write.upsert.enabled"))
    assert(reason(Map("write.parquet.compression-codec" -> "snappy"))(_ => ()).isEmpty)
  }

  test("the bounds of a file allow the values of its rows only") {
    val schema = new StructType().add("id", DecimalType(38, 10)).add("short", DecimalType(9, 2))
      .add("t", TimestampType).add("n", TimestampNTZType)
    def row(number: String, short: String, micros: Long) = InternalRow(
      Decimal(BigDecimal(number), 38, 10),
      Decimal(BigDecimal(short), 9, 2),
      micros,
      micros
    )
    val rows = Vector(
      row("-9999999999999999999999999999.9999999999", "-9999999.99", Long.MinValue),
      row("-12345678901234567890.0000000001", "-0.01", -62198755200000001L),
      row("-0.0000000001", "0", -1),
      row("0.0000000001", "0.01", 999),
      row("12345678901234567890.0000000001", "127.99", 1767225600000001L),
      row("9999999999999999999999999999.9999999999", "9999999.99", Long.MaxValue)
    )
    val made = new Written("bounds", schema, 2)
    rows.foreach(row => made.commit(_ => DirectChange(Map.empty, Vector(row))))
    made.commit { table =>
      for (at <- schema.indices) {
        val column = KeyColumn.of(schema(at).dataType).get
        val allowed = table.files.map { file =>
          val (least, most) = file.bounds(at).get
          rows.indices.filter { index =>
            column.among(rows.slice(index, index + 1), at).get(least, most)
          }
        }
        assert(allowed.toSet == rows.indices.map(Vector(_)).toSet, schema(at))
      }
      DirectChange(Map.empty, Vector.empty)
    }
  }

  test("keys without which a table would be read by a MERGE are kept beside the commits") {
    val keys = new KeyCache(1 << 20, 0, Files.createTempDirectory("keys").toFile)
    val target = IcebergTables.in(spark, "wanted", keys)
    if (target.exists("t")) target.drop("t")
    target.create("t", columns, Nil, Map.empty)
    def commit(lsn: Long)(change: DirectTable => DirectChange): Unit =
      target.commit(
        spark,
        "t",
        name,
        Option.when(lsn > 1)(lsn - 1),
        lsn
      )(TargetWrite.Direct(change))
    def find(table: DirectTable) = {
      val found =
        new KeyLookup(table, Vector(0), None, Vector(InternalRow(2)), Vector(0), most = 1).found
      DirectChange(found.map(place => place.file.path -> Array(place.position)).toMap, Vector.empty)
    }
    commit(1)(_ => DirectChange(Map.empty, Vector(InternalRow(1, null), InternalRow(2, null))))
    assert(intercept[NotDirect](commit(2)(find)).reason.contains("2 rows"))
    target.keepKeys("t")
    commit(2)(find)
    assert(target.read(spark, "t").collect().map(_.getInt(0)).toSeq == Seq(1))
  }

  test("a file of another format is left to MERGE") {
    val made = new Written("avro", columns, 2)
    made.iceberg.updateProperties().set("write.format.default", "avro").commit()
    spark.sql(s"INSERT INTO ${made.sql} VALUES (1, 'x')")
    made.iceberg.updateProperties().remove("write.format.default").commit()
    assert(intercept[NotDirect](made.write(Seq(1), Nil)).reason.contains("AVRO"))
  }

  test("a rewrite waits for a query, but not for long") {
    val direct = new Rewriting(Duration.ofMillis(500))
    val goesOn = new CountDownLatch(1)
    val query = Future(direct.whileQueried(goesOn.await()))
    while (!direct.isQueried) Thread.sleep(1)
    assert(!direct.rewrite() && direct.ends == Seq("given up"))
    val patient = new Rewriting(Duration.ofMinutes(1))
    val short = Future(patient.whileQueried(goesOn.await()))
    while (!patient.isQueried) Thread.sleep(1)
    val rewrite = Future(patient.rewrite())
    goesOn.countDown()
    assert(Await.result(rewrite, Inf) && patient.ends == Seq("committed"))
    Seq(query, short).foreach(Await.result(_, Inf))
    assert(direct.rewrite() && direct.ends == Seq("given up", "committed"))
  }

  /** Commits of a table without files. */
  private class Rewriting(mostWaiting: Duration)
      extends DirectCommits[Unit, String](KeyCache.none.table("t"), mostWaiting) {
    var ends = Seq.empty[String]

    def rewrite(): Boolean = afterQuery(ends :+= "given up") {
      ends :+= "committed"
      true
    }
    override protected def isDirect(version: Unit): Boolean = false
    override protected def lookedUp(version: Unit): DirectTable =
      throw new UnsupportedOperationException
  }
}

/** What happens when a task reads the first row. */
private object DuringRead {
  @volatile var step: () => Unit = () => ()

  def run(): Boolean = synchronized {
    val now = step
    step = () => ()
    now()
    true
  }
}
