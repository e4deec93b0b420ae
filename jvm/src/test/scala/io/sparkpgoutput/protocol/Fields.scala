package io.sparkpgoutput.protocol

import java.util.HexFormat

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.util.ArrayData
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

import com.fasterxml.jackson.databind.JsonNode

/**
 * A message as the tests describe it: its fields by name, without those that are NULL. A struct has all of
 * its members by name. Binary values are in hexadecimal, timestamps are microseconds since 1970.
 */
object Fields {
  type Fields = Map[String, Any]

  def apply(members: (String, Any)*): Fields = members.toMap

  /** The fields of a decoded row. */
  def of(row: InternalRow): Fields = notNull(members(row, MessageSchema.schema))

  /** The fields from JSON. */
  def of(json: JsonNode): Fields = {
    val unknown = json.fieldNames.asScala.toSet -- MessageSchema.schema.fieldNames
    require(unknown.isEmpty, s"no such fields: $unknown")
    notNull(members(json, MessageSchema.schema))
  }

  def hex(bytes: Array[Byte]): String = HexFormat.of.formatHex(bytes)

  /** The bytes; spaces between them are for the reader. */
  def unhex(text: String): Array[Byte] = HexFormat.of.parseHex(text.replace(" ", ""))

  private def notNull(fields: Fields): Fields = fields.filter { case (_, value) => value != null }

  private def members(row: InternalRow, struct: StructType): Fields =
    struct.fields.zipWithIndex.map { case (field, ordinal) =>
      field.name -> value(row.get(ordinal, field.dataType), field.dataType)
    }.toMap

  private def value(data: Any, dataType: DataType): Any = (data, dataType) match {
    case (null, _)                              => null
    case (row: InternalRow, struct: StructType) => members(row, struct)
    case (array: ArrayData, ArrayType(element, _)) =>
      array.toSeq[Any](element).map(value(_, element))
    case (bytes: Array[Byte], _) => hex(bytes)
    case (text: UTF8String, _)   => text.toString
    case (number, _)             => number
  }

  private def members(json: JsonNode, struct: StructType): Fields =
    struct.fields.map(field => field.name -> value(json.path(field.name), field.dataType)).toMap

  private def value(json: JsonNode, dataType: DataType): Any = dataType match {
    case _ if json.isNull || json.isMissingNode => null
    case struct: StructType                     => members(json, struct)
    case ArrayType(element, _)    => json.elements.asScala.map(value(_, element)).toSeq
    case LongType | TimestampType => json.longValue
    case IntegerType              => json.intValue
    case BooleanType              => json.booleanValue
    case _                        => json.textValue
  }
}
