package io.sparkpgoutput.protocol

import java.io.{BufferedInputStream, DataInputStream, FileInputStream}
import java.util.zip.GZIPInputStream

import org.apache.spark.sql.types.StructType

import org.openjdk.jmh.annotations._
import org.openjdk.jmh.infra.Blackhole

import io.sparkpgoutput.decode.MessageDecoder

/** The messages of a real workload, one after the other: BEGIN, INSERT, UPDATE, DELETE, COMMIT. */
class OrdersBenchmark extends DecoderBenchmark {
  import OrdersBenchmark._

  /** The fields that are required. */
  @Param(Array("all", "type", "new.text"))
  var fields: String = _

  private var messages: Array[Array[Byte]] = _
  private var decoder: MessageDecoder = _

  @Setup
  def prepare(): Unit = {
    messages = orders()
    decoder = new MessageDecoder(TextEncoding.Utf8, required(fields))
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

  private def required(fields: String): StructType = fields match {
    case "all" => MessageSchema.schema
    case path  => part(MessageSchema.schema, path.split('.').toList)
  }

  /** The struct with this member only. */
  private def part(struct: StructType, path: List[String]): StructType = {
    val member = struct(path.head)
    StructType(Seq((member.dataType, path.tail) match {
      case (nested: StructType, rest @ _ :: _) => member.copy(dataType = part(nested, rest))
      case _                                   => member
    }))
  }
}
