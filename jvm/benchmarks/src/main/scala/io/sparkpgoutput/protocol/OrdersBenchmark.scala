package io.sparkpgoutput.protocol

import java.io.{BufferedInputStream, DataInputStream, FileInputStream}
import java.util.zip.GZIPInputStream

import org.openjdk.jmh.annotations._
import org.openjdk.jmh.infra.Blackhole

import io.sparkpgoutput.decode.{FieldSelection, MessageDecoder}

/** The messages of a real workload, one after the other: BEGIN, INSERT, UPDATE, DELETE, COMMIT. */
class OrdersBenchmark extends DecoderBenchmark {
  import OrdersBenchmark._

  /** The fields that are selected. */
  @Param(Array("all", "type", "new.text"))
  var fields: String = _

  private var messages: Array[Array[Byte]] = _
  private var decoder: MessageDecoder = _

  @Setup
  def prepare(): Unit = {
    messages = orders()
    decoder = new MessageDecoder(TextEncoding.Utf8, selection(fields))
  }

  @Benchmark
  @OperationsPerInvocation(Messages)
  def decode(blackhole: Blackhole): Unit = {
    var i = 0
    while (i < messages.length) {
      blackhole.consume(decoder.decode(messages(i), StreamContext.UNKNOWN))
      i += 1
    }
  }
}

object OrdersBenchmark {
  final val Messages = 71629

  /** Each is preceded by its length. */
  def orders(): Array[Array[Byte]] = {
    val file = new FileInputStream("benchmarks/data/orders-pg18.bin.gz")
    val in = new DataInputStream(new BufferedInputStream(new GZIPInputStream(file)))
    try Array.fill(Messages)(in.readNBytes(in.readInt()))
    finally in.close()
  }

  private def selection(fields: String): FieldSelection = fields match {
    case "all" => FieldSelection.All
    case path =>
      path.split('.').foldRight[FieldSelection](FieldSelection.All)(FieldSelection.member)
  }
}
