package io.sparkpgoutput.lake.direct

import scala.util.Random

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.types.StructType

import org.scalatest.funsuite.AnyFunSuite

/** Which files are rewritten, and where their rows are afterwards. */
class CompactionSuite extends AnyFunSuite {

  /** @param values the rows */
  private class File(
      override val path: String,
      val values: IndexedSeq[Int],
      val gone: Set[Long] = Set.empty,
      override val bytes: Long = 1000
  ) extends DirectFile {
    override def rows: Long = values.length.toLong
    override def isDeleted(position: Long): Boolean = gone(position)
    override def deletedRows: Long = gone.size.toLong
    override def deletedPositions: Array[Long] = gone.toArray.sorted
    override def bounds(column: Int): Option[(Any, Any)] = None
    def without(some: Set[Long]): File = new File(path, values, gone ++ some, bytes)
    def live: Seq[Int] = values.indices.filterNot(at => gone(at.toLong)).map(values)
  }

  private object Table extends DirectTable {
    override val schema: StructType = StructType.fromDDL("v INT")
    override def column(at: Int): String = schema(at).name
    override def files: Seq[DirectFile] = Nil
    override val keys: TableKeys = KeyCache.none.table()
    override def read(file: DirectFile, columns: Seq[Int]): Iterator[InternalRow] =
      file.asInstanceOf[File].values.iterator.map(InternalRow(_))
  }

  test("rows that are deleted while files are rewritten are deleted in the new file") {
    (1 to 200).foreach { seed =>
      val random = new Random(seed)
      def some(file: File) = (0L until file.rows).filter(_ => random.nextInt(3) == 0).toSet
      val files = (1 to 1 + random.nextInt(4)).map { number =>
        val file = new File(s"f$number", IndexedSeq.fill(random.nextInt(9))(random.nextInt()))
        file.without(some(file))
      }
      val rewrite = new Rewrite(Table, files)
      val rewritten = rewrite.read().map(_.getInt(0)).toIndexedSeq
      assert(rewritten == files.flatMap(_.live) && rewritten.length == rewrite.rows)
      val now = files.map(file => file.without(some(file))).map(file => file.path -> file).toMap
      val carried = rewrite.carried(now.get(_)).get
      val left = new File("new", rewritten, carried.toSet)
      assert(left.live == files.flatMap(file => now(file.path).live), s"seed $seed")
      assert(rewrite.carried(path => now.get(path).filter(_.path != "f1")).isEmpty)
    }
  }

  test(
    "a table with a small file for each commit keeps few files, and rewrites each row a few times"
  ) {
    val random = new Random(7)
    var files = Seq(new File("large", (1 to 1000000), bytes = 100L << 20))
    var written = 0L
    (1 to 3000).foreach { number =>
      val rows = 1 + random.nextInt(1000)
      files = files :+ new File(s"c$number", 1 to rows, bytes = 10L * rows)
      val due = Compaction.choose(files).map(_.asInstanceOf[File])
      if (due.nonEmpty) {
        val rows = due.map(_.live.length).sum
        written += rows
        files = files.diff(due) :+ new File(s"r$number", 1 to rows, bytes = 10L * rows)
      }
      assert(files.length <= 45)
    }
    assert(written < 5 * files.map(_.live.length).sum)
  }

  test("a file of which more than a fifth is deleted is rewritten, and a large one alone") {
    def file(name: String, deleted: Long, bytes: Long) =
      new File(name, 1 to 100, (0L until deleted).toSet, bytes)
    val files = Seq(file("a", 20, 1000), file("b", 21, 600L << 20), file("c", 21, 5000))
    assert(Compaction.choose(files).map(_.path) == Seq("c"))
    assert(Compaction.choose(files.take(2)).map(_.path) == Seq("b"))
    assert(Compaction.choose(files.take(1)).isEmpty)
    assert(Compaction.choose((1 to 10).map(number => file(s"l$number", 0, 400L << 20))).isEmpty)
  }
}
