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

  test("changes are sorted by their hashes, keys, LSNs and ordinals") {
    for (count <- Seq(0, 1, 2, 3, 64, 5000)) {
      val all = chunks(count)
      def text(change: ChangeView) = (
        change.hash,
        new String(change.bytes, change.keyFrom, change.keyTo - change.keyFrom, UTF_8),
        change.lsn,
        change.ordinal
      )
      val found = ChangeChunk.sorted(all).map(text).toVector
      assert(found == ChangeChunk.unpack(all.iterator).map(text).toVector.sorted)
    }
  }
}
