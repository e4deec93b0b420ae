package io.sparkpgoutput.protocol

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import org.openjdk.jmh.annotations._

import io.sparkpgoutput.decode.MessageDecoder

/** INSERT messages with tuples of different shapes. */
class TuplesBenchmark extends DecoderBenchmark {
  import TuplesBenchmark._

  @Param(
    Array(
      "9 columns",
      "1600 columns",
      "9 columns, not ASCII",
      "9 binary columns",
      "one text of 1 MB"
    )
  )
  var tuple: String = _

  private var message: Array[Byte] = _
  private var decoder: MessageDecoder = _

  @Setup
  def prepare(): Unit = {
    message = insert(cells(tuple))
    decoder = new MessageDecoder(TextEncoding.Utf8)
  }

  @Benchmark
  def decode(): UnsafeRow = decoder.decode(message, StreamContext.OUTSIDE)
}

object TuplesBenchmark {
  private def cells(shape: String): Seq[Messages.Cell] = shape match {
    case "9 columns"            => Seq.fill(9)(("t", "some words", null))
    case "1600 columns"         => Seq.fill(1600)(("t", "some words", null))
    case "9 columns, not ASCII" => Seq.fill(9)(("t", "einige Wörter", null))
    case "9 binary columns"     => Seq.fill(9)(("b", null, "00000000075bcd15"))
    case "one text of 1 MB"     => Seq(("t", "some words" * 100000, null))
  }

  private def insert(cells: Seq[Messages.Cell]): Array[Byte] =
    Message.outsideOfStream(
      Fields("type" -> "INSERT", "relation_id" -> 16384L, "new" -> Messages.tupleOf(cells))
    ).bytes
}
