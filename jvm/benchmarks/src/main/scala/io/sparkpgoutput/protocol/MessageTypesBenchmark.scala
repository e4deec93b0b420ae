package io.sparkpgoutput.protocol

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import org.openjdk.jmh.annotations._

import io.sparkpgoutput.decode.{Golden, MessageDecoder}

/** A message of each type, as PostgreSQL wrote it. */
class MessageTypesBenchmark extends DecoderBenchmark {

  @Param(
    Array(
      "BEGIN",
      "MESSAGE",
      "COMMIT",
      "ORIGIN",
      "RELATION",
      "TYPE",
      "INSERT",
      "UPDATE",
      "DELETE",
      "TRUNCATE",
      "STREAM_START",
      "STREAM_STOP",
      "STREAM_COMMIT",
      "STREAM_ABORT",
      "BEGIN_PREPARE",
      "PREPARE",
      "COMMIT_PREPARED",
      "ROLLBACK_PREPARED",
      "STREAM_PREPARE"
    )
  )
  var messageType: String = _

  private var message: Array[Byte] = _
  private var context: Int = _
  private var decoder: MessageDecoder = _

  @Setup
  def prepare(): Unit = {
    val golden = Golden.all.find(_.decoded.get("type").contains(messageType)).get
    message = golden.data
    context = StreamContext.of(golden.inStream)
    decoder = new MessageDecoder(TextEncoding.Utf8)
  }

  @Benchmark
  def decode(): UnsafeRow = decoder.decode(message, context)
}
