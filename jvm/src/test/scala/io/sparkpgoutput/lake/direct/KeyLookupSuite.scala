package io.sparkpgoutput.lake.direct

import java.lang.ref.WeakReference
import java.net.URLClassLoader
import java.nio.file.Files
import java.util.concurrent.{ConcurrentHashMap, ForkJoinWorkerThread}

import scala.util.Random

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

import org.scalatest.concurrent.Eventually.eventually
import org.scalatest.concurrent.PatienceConfiguration.Timeout
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.time.{Seconds, Span}

/** Finds rows by their keys, with a cache of keys and without one. */
class KeyLookupSuite extends AnyFunSuite {
  private val random = new Random(5)

  /** Values of a type, with a few pairs that are easily confused. */
  private val kinds: Seq[(DataType, () => Any)] = Seq(
    IntegerType -> (() => random.nextInt(200) - 100),
    LongType -> (() => (random.nextInt(200) - 100).toLong << 32),
    BooleanType -> (() => random.nextBoolean()),
    DoubleType -> (() =>
      Seq(0.0, -0.0, Double.NaN, 1.5, -1.5, random.nextInt(99).toDouble)(random.nextInt(6))
    ),
    FloatType -> (() => Seq(0.0f, -0.0f, Float.NaN, random.nextInt(99).toFloat)(random.nextInt(4))),
    DecimalType(10, 2) -> (() => Decimal(random.nextInt(300).toLong - 150, 10, 2)),
    DecimalType(38, 4) ->
      (() =>
        Decimal(BigDecimal(random.nextInt(300) - 150).bigDecimal.scaleByPowerOfTen(20), 38, 4)
      ),
    StringType -> (() =>
      UTF8String.fromString("ab😀".take(random.nextInt(4)) + random.nextInt(40))
    ),
    BinaryType -> (() => Array.fill(random.nextInt(3))(random.nextInt(3).toByte))
  )

  private def shown(value: Any): Any = value match {
    case bytes: Array[Byte]             => bytes.toSeq
    case number: Double if number == 0  => 0.0
    case number: Float if number == 0   => 0.0f
    case number: Double if number.isNaN => "NaN"
    case number: Float if number.isNaN  => "NaN"
    case decimal: Decimal               => decimal.toJavaBigDecimal
    case other                          => other
  }

  /** The least and the greatest value of a column, as a file has them. */
  private def exact(rows: Seq[InternalRow], at: Int, dataType: DataType): Option[(Any, Any)] =
    dataType match {
      case _ if rows.isEmpty => None
      case _: DecimalType =>
        val values = rows.map(_.get(at, dataType).asInstanceOf[Decimal])
        Some(values.min -> values.max)
      case IntegerType =>
        val values = rows.map(_.getInt(at))
        Some(values.min -> values.max)
      case _ => None
    }

  private def cache(memory: Long, disk: Long) =
    new KeyCache(memory, disk, Files.createTempDirectory("keys").toFile)

  private def collected(keys: Long*) = {
    val all = new FileKeys(keys.length, 1)
    keys.zipWithIndex.foreach { case (key, position) => all.add(Array(key), position) }
    all
  }

  Seq(
    ("no cache", () => KeyCache.none, false),
    ("memory", () => cache(1 << 20, 0), true),
    ("disk", () => cache(0, 1 << 20), true),
    ("little memory and little disk", () => cache(1500, 1500), false)
  ).foreach { case (name, make, keepsAll) =>
    test(s"with $name, each lookup finds the live rows of all keys, whatever files come and go") {
      (1 to 25).foreach { seed =>
        random.setSeed(seed.toLong)
        val columns = IndexedSeq.fill(1 + random.nextInt(3))(kinds(random.nextInt(kinds.length)))
        val schema = StructType(columns.zipWithIndex.map { case ((dataType, _), at) =>
          StructField(s"c$at", dataType)
        })
        def key() = columns.map(_._2())
        def seen(row: InternalRow) = columns.indices.map(at =>
          if (row.isNullAt(at)) null else shown(row.get(at, columns(at)._1))
        )
        val table = new MemoryTable(schema, make().table("t"))
        val at = columns.indices
        (1 to 5).foreach { round =>
          // Each key has one row that is not deleted, deleted rows repeat keys, and some rows have no key.
          val live = Iterator.fill(60)(key()).toSeq.distinctBy(_.map(shown)).take(40)
          val placed = table.files.filter(_ => random.nextInt(3) > 0)
          val there = placed.flatMap(file =>
            file.live.map { case (row, _) => seen(row) }
          ).toSet
          val rows = random.shuffle(
            live.filterNot(key => there(key.map(shown))).map(key =>
              (InternalRow.fromSeq(key), false)
            ) ++
              Seq.fill(5)((InternalRow.fromSeq(key()), true))
          ).toIndexedSeq
          val withNull = if (round == 3) rows :+ ((
            new org.apache.spark.sql.catalyst.expressions.GenericInternalRow(columns.length),
            false
          ))
          else rows
          table.files = placed :+ new MemoryFile(
            s"f$round",
            withNull.map(_._1),
            withNull.indices.filter(withNull(_)._2).map(_.toLong).toSet,
            limits = at => exact(withNull.map(_._1).filterNot(_.isNullAt(at)), at, columns(at)._1)
          )
          val expected = table.files.flatMap(file =>
            file.live.map { case (row, at) => seen(row) -> ((file.path, at)) }
          ).toMap
          val keys =
            (live ++ Seq.fill(10)(key())).distinctBy(_.map(shown)).map(InternalRow.fromSeq(_))
              .toIndexedSeq
          val mixed: Long => Long = if (seed % 2 == 0) _ => 1L else KeyLookup.mixed
          def find() = new KeyLookup(table, at, None, keys, at, mixed).found
          def check() = find().zip(keys).foreach { case (place, key) =>
            assert(
              Option(place).map(found => (found.file.path, found.position)) == expected.get(
                seen(key)
              ),
              s"seed $seed"
            )
          }
          check()
          val reads = table.reads
          check()
          if (keepsAll) assert(table.reads == reads, s"seed $seed")
        }
      }
    }
  }

  test("a table that is opened again has its keys in the cache") {
    val keys = cache(1000, 0)
    def found(name: String) = {
      val table = new MemoryTable(StructType.fromDDL("id INT"), keys.table(name))
      table.files = Seq(new MemoryFile("f1", IndexedSeq(InternalRow(1))))
      new KeyLookup(table, Vector(0), None, Vector(InternalRow(1)), Vector(0)).found
      table.reads
    }
    assert(Seq("one", "one", "another").map(found) == Seq(1, 0, 1))
  }

  test("the keys of a file that was just written are kept without a look at the file") {
    for (key <- Seq(LongType, StringType); end <- Seq(None, Some(1)); room <- Seq(1 << 20, 0)) {
      def of(id: Int): Any = if (key == LongType) id.toLong else UTF8String.fromString(s"k$id")
      val schema = new StructType().add("id", key).add("ended", LongType)
      val table = new MemoryTable(schema, cache(room.toLong, 0).table("t"))
      def lookup =
        new KeyLookup(
          table,
          Vector(0),
          end,
          (1 to 9).map(id => InternalRow(9, of(id))),
          Vector(1)
        )
      def find() = lookup.found.map(Option(_).map(_.position.toInt))
      assert(find().flatten.isEmpty)
      // The rows of the fold have other columns than those of the file.
      val ends = Seq(7 -> null, 3 -> 5L, 5 -> null, 4 -> null)
      table.files = Seq(
        new MemoryFile("f1", ends.map { case (id, end) => InternalRow(of(id), end) }.toIndexedSeq)
      )
      lookup.keep(
        table.files.head,
        ends.iterator.map { case (id, end) => InternalRow(end, of(id)) },
        end.map(_ => 0)
      )
      val places = ends.map(_._1).zipWithIndex.toMap
      assert(find() == (1 to 9).map(id => places.get(id).filterNot(_ == 1 && end.nonEmpty)))
      assert(table.reads == (if (room > 0) 0 else 1))
    }
  }

  test("rows that have ended are not found, and their keys are not kept") {
    for (key <- Seq(IntegerType, StringType)) {
      def of(id: Int): Any = if (key == IntegerType) id else UTF8String.fromString(s"k$id")
      val keys = cache(1000, 0)
      val table =
        new MemoryTable(new StructType().add("id", key).add("ended", LongType), keys.table("t"))
      val rows = Vector(1 -> 5L, 1 -> null, 2 -> 7L, 3 -> 8L, 3 -> null).map { case (id, end) =>
        InternalRow(of(id), end)
      }
      table.files = Seq(
        new MemoryFile("f1", rows :+ InternalRow(null, null)),
        new MemoryFile("f2", Vector(InternalRow(of(3), 9L)))
      )
      def find() = new KeyLookup(
        table,
        Vector(0),
        Some(1),
        (1 to 3).map(id => InternalRow(of(id))),
        Vector(0)
      ).found
      (1 to 2).foreach { _ =>
        assert(find().map(place => Option(place).map(_.position)) == Seq(Some(1), None, Some(4)))
        assert(table.reads == 2)
      }
    }
  }

  test("keys of a large file are found, whether all of its rows have one or not") {
    for {
      key <- Seq(IntegerType, StringType)
      ended <- Seq(Set.empty[Int], Set(0, 1023, 3000))
      memory <- Seq(1L << 20, 0L)
    } {
      def of(id: Int): Any = if (key == IntegerType) id else UTF8String.fromString(s"k$id")
      val schema = new StructType().add("id", key).add("ended", LongType)
      val table = new MemoryTable(schema, cache(memory, (1L << 20) - memory).table("t"))
      // The last two rows are deleted.
      table.files = Seq(new MemoryFile(
        "f1",
        ((0 until 5000) ++ Seq(1022, 2048))
          .map(id => InternalRow(of(id), if (ended(id)) 1L else null)),
        Set(5000L, 5001L)
      ))
      val ids = IndexedSeq(0, 1, 1022, 1023, 1024, 2047, 2048, 3000, 4999, 5000, -1)
      def find() =
        new KeyLookup(table, Vector(0), Some(1), ids.map(id => InternalRow(of(id))), Vector(0))
          .found
      (1 to 2).foreach { _ =>
        assert(find().map(place => Option(place).map(_.position.toInt)) ==
          ids.map(id => Option.when(id >= 0 && id < 5000 && !ended(id))(id)))
        assert(table.reads == 1)
      }
    }
  }

  test("the keys of all files that are read at the same time take a part of the heap only") {
    val part = Runtime.getRuntime.maxMemory / 8 / 8 / 3 * 2 // of the numbers that have room
    val cache = new KeyCache(1000, Long.MaxValue, Files.createTempDirectory("keys").toFile)
    cache.collecting(part) { takes =>
      assert(takes && !cache.collecting(part)(identity))
    }
    assert(cache.collecting(part)(identity))
    assert(!KeyCache.none.collecting(1)(identity))
  }

  for ((memory, disk) <- Seq(1000L -> 0L, 0L -> 1000L, 1000L -> 1000L))
    test(s"the keys of an idle table stay unless that makes room, with $memory and $disk bytes") {
      val all = cache(memory, disk)
      def file(name: String) = new MemoryFile(name, Vector.empty)
      val tables = Seq("idle", "later", "used").map(all.table)
      val Seq(idle, later, used) = tables
      tables.foreach(_.begin(Seq("id"), Nil))
      def keep(table: TableKeys, name: String, keys: Int) =
        table.keep(Seq("id"), file(name), collected(1L to keys.toLong: _*))
      def has(table: TableKeys, name: String) = table.of(file(name)).nonEmpty
      def rest(table: TableKeys) =
        table.used = System.nanoTime() - java.time.Duration.ofMinutes(11).toNanos
      if (disk > 0 && memory > 0) keep(used, "all memory", 80)
      keep(idle, "i", 19) // which take 30 of 125 numbers
      keep(later, "l", 32) // 51
      keep(used, "u", 25) // 39
      rest(idle)
      assert(!all.hasRoom(36) && has(idle, "i"), "it would not be enough")
      keep(used, "more", 23)
      assert(has(idle, "i") && !has(used, "more"))
      assert(all.hasRoom(30) == (disk == 0) && !has(idle, "i"))
      if (disk > 0) {
        rest(later)
        assert(!all.hasRoom(30) && has(later, "l"), "the room is not free yet, but it will be")
      }
    }

  test("files whose bounds exclude all keys are not read") {
    val number = Decimal(BigDecimal("12345678901234567890123456789012345.678"), 38, 3)
    val table = new MemoryTable(StructType.fromDDL("id DECIMAL(38, 3)"), KeyCache.none.table("t"))
    def find(key: String) = {
      table.files = Seq(
        new MemoryFile("f1", Vector(InternalRow(number)), limits = _ => Some(number -> number))
      )
      new KeyLookup(
        table,
        Vector(0),
        None,
        Vector(InternalRow(Decimal(BigDecimal(key), 38, 3))),
        Vector(0)
      ).found
    }
    Seq("-1", "12345678901234567890123456789012345.677", "12345678901234567890123456789012345.679")
      .foreach(key => assert(find(key) == Seq(null)))
    assert(table.reads == 0)
    assert(find("12345678901234567890123456789012345.678").head.position == 0 && table.reads == 1)
  }

  for (key <- Seq(LongType, StringType); end <- Seq(None, Some(1)))
    test(s"keys of $key are kept after a lookup of too many rows, with $end as the end of a row") {
      def of(id: Int): Any = if (key == LongType) id.toLong else UTF8String.fromString(s"k$id")
      val width = if (key == LongType) 1 else 2
      def table(keys: KeyCache) = {
        val made =
          new MemoryTable(new StructType().add("id", key).add("ended", LongType), keys.table("t"))
        made.files = (0 to 3).map { file =>
          val ids = file * 10 until file * 10 + 10
          val rows = ids.map(id => InternalRow(of(id), if (id == 7) 1L else null))
          new MemoryFile(s"f$file", rows)
        }
        made
      }
      def find(table: MemoryTable) = new KeyLookup(
        table,
        Vector(0),
        end,
        Vector(7, 25).map(id => InternalRow(of(id))),
        Vector(0),
        most = 25
      ).found
      def isFound(table: MemoryTable) =
        find(table).map(Option(_).map(_.position)) == Seq(
          if (end.isEmpty) Some(7L) else None,
          Some(5L)
        )
      // There is room for the keys of so many files. All others are read by the lookup, which is allowed for two.
      // While keys with an end are collected, they take twice as much.
      val few = if (end.isEmpty) 2 else 3
      val rooms = Seq(1 -> None, few -> Some(few), 4 -> Some(4))
      rooms.foreach { case (room, kept) =>
        val some = table(cache(8 * KeptKeys.size(10, width) * room, 0))
        (1 to 2).foreach { _ =>
          assert(intercept[NotDirect](find(some)).reason.contains("40 rows") && some.keys.areWanted)
        }
        (1 to 2).foreach(_ => KeyLookup.keepWanted(some))
        assert(some.reads == kept.getOrElse(0))
        if (kept.isEmpty) intercept[NotDirect](find(some))
        else assert(isFound(some) && some.reads == 4 && !some.keys.areWanted)
      }
      // The keys belong to other columns, so they must not be kept.
      val other = table(cache(1 << 20, 0))
      intercept[NotDirect](find(other))
      other.prefix = "another "
      KeyLookup.keepWanted(other)
      assert(other.reads == 0)
    }

  test("keys that a lookup and the maintenance keep at the same time take their room once") {
    val keys = cache(1000, 0)
    val table = new MemoryTable(StructType.fromDDL("id BIGINT"), keys.table("t"))
    table.files = Seq(new MemoryFile("f1", Vector(InternalRow(1L))))
    table.keys.begin(Seq("id BIGINT"), table.files)
    val before = keys.room
    (1 to 3).foreach(_ => table.keys.keep(Seq("id BIGINT"), table.files.head, collected(1L)))
    table.keys.keep(Seq("another BIGINT"), table.files.head, collected(1L))
    assert(keys.room == before - KeptKeys.size(1, 1))
  }

  test("keys on disk take their room until nothing can read them any more") {
    val keys = cache(0, 8 * KeptKeys.size(2, 1))
    var kept = keys.keep(collected(1L, 2L))
    kept.foreach(keys.release)
    System.gc()
    assert(keys.room == 0 && keys.keep(collected(3L)).isEmpty)
    assert(kept.exists(_.numbers.get(1) == 2)) // and its file is still there
    kept = None
    val end = System.nanoTime() + 60000000000L
    while (keys.room < KeptKeys.size(2, 1) && System.nanoTime() < end) {
      System.gc()
      Thread.sleep(10)
    }
    assert(keys.keep(collected(3L)).nonEmpty)
  }

  test("no more than some files with keys are on disk, because each is a mapping of memory") {
    val keys = new KeyCache(0, 1 << 20, Files.createTempDirectory("keys").toFile, mostFiles = 2)
    var kept = Vector.fill(3)(keys.keep(collected(1L)))
    assert(kept.map(_.nonEmpty) == Seq(true, true, false))
    kept = Vector.empty
    def hasRoom() = eventually(Timeout(Span(60, Seconds))) {
      System.gc()
      assert(keys.hasRoom(KeptKeys.size(1, 1)))
    }
    hasRoom()
    // An idle table makes room for others.
    val idle = keys.table("idle")
    idle.begin(Seq("id"), Nil)
    val files = Seq("i", "j").map(new MemoryFile(_, Vector.empty))
    files.foreach(idle.keep(Seq("id"), _, collected(1L)))
    assert(!keys.hasRoom(KeptKeys.size(1, 1)) && files.forall(idle.of(_).nonEmpty))
    idle.used = System.nanoTime() - java.time.Duration.ofMinutes(11).toNanos
    hasRoom()
    assert(files.forall(idle.of(_).isEmpty))
  }

  test("the keys of a table that is forgotten have no room") {
    val keys = cache(1000, 0)
    val before = keys.room
    val files = Seq(new MemoryFile("f1", Vector(InternalRow(1L))))
    for (name <- Seq("stays", "goes")) {
      keys.table(name).begin(Seq("id BIGINT"), files)
      keys.table(name).keep(Seq("id BIGINT"), files.head, collected(1L))
    }
    keys.forgetOthers(Set("stays", "another"))
    assert(keys.room == before - KeptKeys.size(1, 1) && keys.table("stays").of(files.head).nonEmpty)
    assert(keys.table("goes").of(files.head).isEmpty)
  }

  test("keys on disk do not keep the cache of a job that has ended in memory") {
    var keys = cache(0, 1 << 20)
    val kept = keys.keep(collected(1L))
    val ended = new WeakReference(keys)
    keys = null
    val end = System.nanoTime() + 60000000000L
    while (ended.get != null && System.nanoTime() < end) {
      System.gc()
      Thread.sleep(10)
    }
    assert(kept.exists(_.isOnDisk) && ended.get == null)
  }

  test("the cache forgets keys if a column of the key changes") {
    val table = new MemoryTable(StructType.fromDDL("id INT"), cache(1000, 0).table("t"))
    table.files = Seq(new MemoryFile("f1", IndexedSeq(InternalRow(1))))
    def find() =
      new KeyLookup(table, Vector(0), None, Vector(InternalRow(1)), Vector(0)).found
    find()
    find()
    assert(table.reads == 1)
    table.prefix = "another "
    assert(find().head.position == 0 && table.reads == 2)
  }

  test("the common pool of the JVM reads no file, because a read can wait for this pool") {
    val readers = ConcurrentHashMap.newKeySet[Thread]
    val table = new MemoryTable(StructType.fromDDL("id INT"), KeyCache.none.table("t")) {
      override def read[T](file: DirectFile, columns: Seq[Int])(
          use: Iterator[InternalRow] => T
      ): T = {
        readers.add(Thread.currentThread)
        Thread.sleep(5) // so that each thread takes some of the files
        super.read(file, columns)(use)
      }
    }
    val rows = (1 to 20).map(InternalRow(_))
    table.files = rows.map(row => new MemoryFile(s"f${row.getInt(0)}", IndexedSeq(row)))
    val loader = new URLClassLoader(Array.empty, getClass.getClassLoader)
    val before = Thread.currentThread.getContextClassLoader
    Thread.currentThread.setContextClassLoader(loader)
    try
      new KeyLookup(table, Vector(0), None, rows, Vector(0)).found
    finally Thread.currentThread.setContextClassLoader(before)
    assert(!readers.contains(Thread.currentThread))
    readers.forEach { reader =>
      assert(!reader.isInstanceOf[ForkJoinWorkerThread])
      assert(reader.getContextClassLoader == loader || !reader.isAlive)
    }
  }

  test("an error of one of several files is the error of the lookup") {
    val table = new MemoryTable(StructType.fromDDL("id INT"), KeyCache.none.table("t"))
    table.files = (1 to 3).map(number =>
      new MemoryFile(s"f$number", IndexedSeq(InternalRow(if (number == 3) 1 else number)))
    )
    val failed = intercept[NotDirect](
      new KeyLookup(table, Vector(0), None, Vector(InternalRow(1)), Vector(0)).found
    )
    assert(failed.getMessage.contains("two rows"))
  }
}
