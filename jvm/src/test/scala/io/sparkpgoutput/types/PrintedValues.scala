package io.sparkpgoutput.types

import java.util.HexFormat

import scala.io.{Codec, Source}
import scala.util.Using

/** Values that a server sent. A line of the resource has the type, the binary value in hex, and the text. */
object PrintedValues {
  final case class Printed(typeName: String, binary: Array[Byte], text: String)

  def read(resource: String): Seq[Printed] =
    Using.resource(Source.fromInputStream(getClass.getResourceAsStream(resource))(Codec.UTF8)) {
      _.getLines().map { line =>
        val Array(typeName, hex, text) = line.split("\t", -1)
        Printed(typeName, HexFormat.of.parseHex(hex), text)
      }.toVector.ensuring(_.nonEmpty, s"$resource has no values")
    }
}
