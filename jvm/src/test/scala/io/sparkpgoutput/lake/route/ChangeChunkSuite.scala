package io.sparkpgoutput.lake.route

import java.nio.charset.StandardCharsets.UTF_8

import scala.collection.mutable
import scala.util.Random

import org.apache.spark.sql.catalyst.expressions.GenericInternalRow

import org.scalatest.funsuite.AnyFunSuite

class ChangeChunkSuite extends AnyFunSuite {
  private val random = new Random(1)
  private def pick[T](values: T*): T = values(random.nextInt(values.length))

  private def chunks(count: Int): IndexedSeq[Array[Byte]] = {
    val found = mutable.ArrayBuffer.empty[Array[Byte]]
    val packer = new ChangePacker(1 << 12, found += _)
    (1 to count).foreach { _ =>
      val row = new GenericInternalRow(ChangeFields.schema.length)
      row.update(
        ChangeFields.HASH,
        pick(random.nextLong(), random.nextInt(6) - 3L, Long.MinValue, Long.MaxValue)
      )
      row.update(ChangeFields.KEY, pick("", "a", "ab", "b").getBytes(UTF_8))
      row.update(ChangeFields.LSN, random.nextInt(3).toLong)
      row.update(ChangeFields.ORDINAL, random.nextInt(1000).toLong)
      row.update(ChangeFields.KIND, RowEffect.Insert)
      row.update(ChangeFields.WHOLE, true)
      row.update(ChangeFields.DEFINITION, 0)
      row.update(ChangeFields.MESSAGE, Array[Byte]('I'))
      packer.add(row)
    }
    packer.flush()
    found.toIndexedSeq
  }

  test("the changes of each row come together in order, and the others as they were sent") {
    for (count <- Seq(0, 1, 2, 3, 64, 5000)) {
      val all = chunks(count)
      def text(change: ChangeView) = (
        change.hash,
        new String(change.bytes, change.keyFrom, change.keyTo - change.keyFrom, UTF_8),
        change.lsn,
        change.ordinal
      )
      val sent = ChangeChunk.unpack(all.iterator).map(text).toVector
      val rows = sent.groupBy(change => (change._1, change._2))
      val found = ChangeChunk.grouped(all).map(text).toVector
      assert(found.sorted == sent.sorted)
      // Each row begins only once.
      val begins = found.indices.filter { at =>
        at == 0 || (found(at)._1, found(at)._2) != (found(at - 1)._1, found(at - 1)._2)
      }
      assert(begins.length == rows.size)
      begins.zip(begins.drop(1) :+ found.length).foreach { case (begin, end) =>
        val row = found.slice(begin, end)
        assert(row == row.sorted)
      }
      // Hashes that are this near to each other are taken for those of one row at first.
      val alone = sent.groupBy(_._1 >> 32).values.filter(_.length == 1).map(_.head._1).toSet
      assert(found.filter(change => alone(change._1)) == sent.filter(change => alone(change._1)))
    }
  }
}
