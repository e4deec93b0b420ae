package io.sparkpgoutput.lake.direct

import scala.collection.mutable
import scala.util.Random

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.types.StructType

import org.scalatest.funsuite.AnyFunSuite

/** Which files are rewritten, and where their rows are afterwards. */
class CompactionSuite extends AnyFunSuite {

  private val table = new MemoryTable(StructType.fromDDL("v INT"), KeyCache.none.table("t"))

  private def file(
      path: String,
      values: Seq[Int],
      deleted: Set[Long] = Set.empty,
      bytes: Long = 1000
  ) =
    new MemoryFile(path, values.map(InternalRow(_)).toIndexedSeq, deleted, bytes)

  private val row = InternalRow(0)

  private def rows(path: String, count: Int, bytes: Long, deleted: Int = 0) =
    new MemoryFile(path, Vector.fill(count)(row), (0L until deleted.toLong).toSet, bytes)

  private def live(file: MemoryFile) = file.live.map(_._1.getInt(0))

  test("rows that are deleted while files are rewritten are deleted in the new file") {
    (1 to 200).foreach { seed =>
      val random = new Random(seed)
      def some(file: MemoryFile) = (0L until file.rows).filter(_ => random.nextInt(3) == 0).toSet
      val files = (1 to 1 + random.nextInt(4)).map { number =>
        val made = file(s"f$number", Seq.fill(random.nextInt(9))(random.nextInt()))
        made.without(some(made))
      }
      val rewrite = new Rewrite(table, files)
      val rewritten = mutable.ArrayBuffer.empty[Int]
      rewrite.foreach(row => rewritten += row.getInt(0))
      assert(rewritten == files.flatMap(live(_)) && rewritten.length == rewrite.rows)
      val now = files.map(file => file.without(some(file))).map(file => file.path -> file).toMap
      val carried = rewrite.carried(now.get(_)).get
      val left = file("new", rewritten.toSeq, carried.toSet)
      assert(live(left) == files.flatMap(file => live(now(file.path))), s"seed $seed")
      assert(rewrite.carried(path => now.get(path).filter(_.path != "f1")).isEmpty)
    }
  }

  test(
    "a table with a small file for each commit keeps few files, and rewrites each row a few times"
  ) {
    val random = new Random(7)
    var files = Seq(rows("large", 1000000, 100L << 20))
    var written = 0L
    (1 to 3000).foreach { number =>
      val count = 1 + random.nextInt(1000)
      files = files :+ rows(s"c$number", count, 10L * count)
      val due = Compaction.choose(files).map(_.asInstanceOf[MemoryFile])
      if (due.nonEmpty) {
        val count = due.map(_.rows).sum
        written += count
        files = files.diff(due) :+ rows(s"r$number", count.toInt, 10L * count)
      }
      assert(files.length <= 45)
    }
    assert(written < 5 * files.map(_.rows).sum)
  }

  test("the files are looked at again when a level can be full, and many files more rarely") {
    assert(!Compaction.mayBeDue(7, 0) && Compaction.mayBeDue(8, 0))
    assert(!Compaction.mayBeDue(27, 20) && Compaction.mayBeDue(28, 20))
    assert(!Compaction.mayBeDue(10100, 10000) && Compaction.mayBeDue(10108, 10000))
  }

  test("files of several partitions are not rewritten together") {
    def made(partition: Int, count: Int) = (1 to count).map(number =>
      new MemoryFile(s"$partition/$number", Vector.fill(3)(row), partition = partition)
    )
    assert(Compaction.choose((1 to 20).flatMap(made(_, 7))).isEmpty)
    val due = Compaction.choose((1 to 20).flatMap(made(_, 7)) ++ made(21, 8) ++ made(22, 9))
    assert(due.map(_.partition).toSet.size == 1 && due.length >= 8)
  }

  test("each of several partitions has its turn if rewrites are rarer than due partitions") {
    var files = Seq.empty[MemoryFile]
    (1 to 1000).foreach { round =>
      files = files ++ (1 to 16).map(partition =>
        new MemoryFile(s"$partition/$round", Vector(row), partition = partition)
      )
      val due = Compaction.choose(files).map(_.asInstanceOf[MemoryFile])
      if (due.nonEmpty) {
        val partition = due.head.partition
        val all = due.flatMap(_.values).toVector
        files =
          files.diff(due) :+ new MemoryFile(s"$partition/r$round", all, partition = partition)
      }
    }
    assert(files.length < 1000)
  }

  test(
    "files of which much is deleted are rewritten together with the small files of a full level"
  ) {
    val small = (1 to 8).map(number => rows(s"s$number", 100, 1000))
    val others = Seq(
      rows("due", 3000, 30000, deleted = 601),
      rows("whole", 3000, 30000, deleted = 600),
      rows("large", 1000000, 100L << 20, deleted = 300000)
    )
    assert(Compaction.choose(others ++ small).map(_.path) == small.map(_.path) ++ Seq(
      "due",
      "large"
    ))
    assert(Compaction.choose(others ++ small.tail).map(_.path) == Seq("due", "large"))
  }

  test("a full level does not wait for ever if the levels below it are full each time") {
    var files = Seq.empty[MemoryFile]
    (1 to 500).foreach { round =>
      files = files ++ (1 to 9).map(number => rows(s"$round/$number", 10, 100))
      val due = Compaction.choose(files).map(_.asInstanceOf[MemoryFile])
      files = files.diff(due) :+ rows(s"r$round", due.map(_.rows).sum.toInt, due.map(_.bytes).sum)
      assert(files.length < 40)
    }
  }

  test("a file of which more than a fifth is deleted is rewritten, and a large one alone") {
    def made(name: String, deleted: Int, bytes: Long) = rows(name, 100, bytes, deleted)
    val files = Seq(made("a", 20, 1000), made("b", 21, 600L << 20), made("c", 21, 5000))
    assert(Compaction.choose(files).map(_.path) == Seq("c"))
    assert(Compaction.choose(files.take(2)).map(_.path) == Seq("b"))
    assert(Compaction.choose(files.take(1)).isEmpty)
    assert(Compaction.choose(files :+ made("d", 51, 600L << 20)).map(_.path) == Seq("d"))
    assert(Compaction.choose((1 to 10).map(number => made(s"l$number", 0, 400L << 20))).isEmpty)
    // It does not keep many small files waiting.
    val large = made("d", 51, 600L << 20)
    def small(count: Int) = (1 to count).map(number => made(s"s$number", 0, 1000))
    assert(Compaction.choose(small(8) :+ large).map(_.path) == Seq("d"))
    assert(Compaction.choose(small(64) :+ large).map(_.path).toSet == small(64).map(_.path).toSet)
  }
}
