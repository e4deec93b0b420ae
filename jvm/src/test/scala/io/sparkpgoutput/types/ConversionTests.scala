package io.sparkpgoutput.types

import java.nio.charset.StandardCharsets

import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter
import org.apache.spark.sql.types.DataType

import org.scalatest.Assertions

/** Converts single values. Each value has other bytes before and after it. */
trait ConversionTests extends Assertions {
  private val Surrounding = "xy".getBytes(StandardCharsets.UTF_8)

  /** Reads a text as a Spark type, in Spark's internal form. */
  def fromText(
      pgType: PgType,
      target: DataType,
      text: String,
      options: ConversionOptions = ConversionOptions()
  ): Any = fromTextBytes(pgType, target, text.getBytes(StandardCharsets.UTF_8), options)

  /** Reads the bytes of a text, which can be invalid, as a Spark type, in Spark's internal form. */
  def fromTextBytes(
      pgType: PgType,
      target: DataType,
      text: Array[Byte],
      options: ConversionOptions = ConversionOptions()
  ): Any = read(target, text)(conversion(pgType, target, options).fromText)

  /** Reads a binary value as a Spark type, in Spark's internal form. */
  def fromBinary(
      pgType: PgType,
      target: DataType,
      binary: Array[Byte],
      options: ConversionOptions = ConversionOptions()
  ): Any = read(target, binary)(conversion(pgType, target, options).fromBinary)

  /** Returns the problem of a value that cannot be read, and the remedy. */
  def problem(read: => Any): String = problemOf(intercept[InvalidValue](read))

  private def problemOf(invalid: InvalidValue) =
    (invalid.problem +: Option(invalid.remedy).toSeq).mkString("; ")

  /** Returns the value in a comparable form, or the problem and the remedy. */
  def attempt(read: => Any): Either[String, Any] =
    try Right(read match {
        case bytes: Array[Byte] => bytes.toSeq
        case other              => other
      })
    catch { case invalid: InvalidValue => Left(problemOf(invalid)) }

  private def conversion(pgType: PgType, target: DataType, options: ConversionOptions) =
    pgType.to(target, options).getOrElse(fail(s"$pgType cannot be read as ${target.sql}"))

  private def read(target: DataType, value: Array[Byte])(
      convert: (Array[Byte], Int, Int, ValueWriter) => Unit
  ): Any = {
    val writer = new UnsafeRowWriter(1, 16) // small, so that it must grow
    writer.reset()
    writer.zeroOutNullBytes()
    val bytes = Surrounding ++ value ++ Surrounding
    convert(bytes, 2, 2 + value.length, new ValueWriter(writer, target, 0))
    writer.getRow.get(0, target)
  }
}
