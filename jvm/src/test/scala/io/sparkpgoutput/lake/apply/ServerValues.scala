package io.sparkpgoutput.lake.apply

import java.nio.charset.StandardCharsets.UTF_8
import java.time.{Instant, LocalDate, LocalDateTime, ZoneOffset}

import scala.util.Random

import org.apache.spark.sql.types._

/** The oids of PostgreSQL's types. */
object TypeOids {
  final val Bool = 16L
  final val Bytea = 17L
  final val Int8 = 20L
  final val Int2 = 21L
  final val Int4 = 23L
  final val Text = 25L
  final val Float4 = 700L
  final val Float8 = 701L
  final val Float8Array = 1022L
  final val Date = 1082L
  final val Timestamp = 1114L
  final val TimestampTz = 1184L
  final val Numeric = 1700L
  final val Uuid = 2950L

  /** The oid of a type that a user made. */
  final val Composite = 16400L
}

/** Texts that a server prints for values of each type, with those at the limits of types and formats. */
object ServerValues {
  import TypeOids._

  /** The types of columns, with the types that the target gives them. */
  val types: IndexedSeq[(Long, DataType)] = Vector(
    Int2 -> ShortType,
    Int4 -> IntegerType,
    Int8 -> LongType,
    Numeric -> DecimalType(12, 4),
    Numeric -> DecimalType(38, 10),
    Text -> StringType,
    Text -> StringType,
    Uuid -> StringType,
    Date -> DateType,
    Timestamp -> TimestampNTZType,
    TimestampTz -> TimestampType,
    Bytea -> BinaryType,
    Bool -> BooleanType,
    Float4 -> FloatType,
    Float8 -> DoubleType
  )

  private val thirtyTwo = "x" * 32
  private val last = "\uDBFF\uDFFF" // U+10FFFF, the greatest character
  private val times = Vector(
    "0001-01-01 00:00:00",
    "1582-10-10 12:00:00.5",
    "1969-12-31 23:59:59.999999",
    "2026-01-01 00:00:00",
    "2026-01-01 00:00:00.000001",
    "2026-01-01 00:00:00.000999",
    "2026-01-01 00:00:00.001",
    "2026-01-01 00:00:00.999999",
    "9999-12-31 23:59:59.999999"
  )

  private val texts: Map[Long, IndexedSeq[String]] = Map(
    Bool -> Vector("t", "f"),
    Bytea -> Vector(
      "\\x",
      "\\x00",
      "\\x0000",
      "\\x54aa",
      "\\x54bb",
      "\\x7f",
      "\\x80",
      "\\xff",
      "\\xffff"
    ),
    Int2 -> Vector("-32768", "-1", "0", "1", "2", "3", "9", "10", "32767"),
    Int4 -> Vector("-2147483648", "-1", "0", "1", "2", "3", "9", "10", "2147483647"),
    // JSON's numbers are exact up to 2 to the power of 53.
    Int8 -> Vector(
      "-9223372036854775808",
      "-1",
      "0",
      "1",
      "9007199254740992",
      "9007199254740993",
      "9007199254740994",
      "9223372036854775806",
      "9223372036854775807"
    ),
    Numeric -> Vector(
      "-99999999.9999",
      "-1",
      "0",
      "0.0001",
      "1",
      "1.5",
      "9.9999",
      "10",
      "99999999.9999"
    ),
    Text -> Vector(
      "",
      "a",
      "Tb2",
      "T3",
      thirtyTwo,
      thirtyTwo + "y",
      thirtyTwo + last,
      "x" * 31 + "😀😀",
      last * 33,
      "\u007f" * 33,
      "é",
      "\uFFFF",
      "😀",
      "x" * 31 + last + "a",
      "a\u0001"
    ),
    Uuid -> (1L to 9L).map(number =>
      new java.util.UUID(number * 0x9e3779b97f4a7c15L, number).toString
    ),
    Date -> Vector(
      "0001-01-01",
      "0999-12-31",
      "1582-10-10",
      "1969-12-31",
      "1970-01-01",
      "2026-01-01",
      "2026-01-02",
      "2026-01-03",
      "9999-12-31"
    ),
    Timestamp -> times,
    TimestampTz -> times.map(_ + "+00"),
    Float4 -> Vector(
      "NaN",
      "0",
      "1e-45",
      "-1",
      "1.5",
      "Infinity",
      "-Infinity",
      "0.1",
      "3.4028235e+38"
    ),
    Float8 -> Vector("NaN", "0", "5e-324", "-1", "1.5", "Infinity", "-Infinity", "0.1", "1e+300")
  )

  /** Different values of a type, in random order. */
  def of(typeId: Long, random: Random): IndexedSeq[String] = random.shuffle(texts(typeId))

  /** Returns a text of the same value, often another one. */
  def again(typeId: Long, text: String, random: Random): String = (typeId, text) match {
    case (_, null)                              => null
    case (Numeric, text) if !text.contains('.') => text + Seq("", ".0", ".00")(random.nextInt(3))
    case (Float4 | Float8, "0")                 => Seq("0", "-0")(random.nextInt(2))
    case _                                      => text
  }

  /** Returns whether an UPDATE that leaves the value as it is does not send it. */
  def isToasted(text: String): Boolean =
    text != null && (text.startsWith("T") || text.startsWith("\\x54"))

  /** A value with the type of the target, as rows with java.time have it. */
  def value(dataType: DataType, text: String): Any = dataType match {
    case _ if text == null    => null
    case BooleanType          => text == "t"
    case ShortType            => text.toShort
    case IntegerType          => text.toInt
    case LongType             => text.toLong
    case FloatType            => text.toFloat
    case DoubleType           => text.toDouble
    case decimal: DecimalType => new java.math.BigDecimal(text).setScale(decimal.scale)
    case DateType             => LocalDate.parse(text)
    case TimestampNTZType     => LocalDateTime.parse(text.replace(' ', 'T'))
    case TimestampType =>
      LocalDateTime.parse(text.stripSuffix("+00").replace(
        ' ',
        'T'
      )).toInstant(ZoneOffset.UTC): Instant
    case _ => text
  }

  /** Returns a value as a literal of SQL. */
  def literal(dataType: DataType, text: String): String = (dataType, value(dataType, text)) match {
    case (_, null) => "NULL"
    case (StringType, _) =>
      text.getBytes(UTF_8).map(byte => f"$byte%02x").mkString("CAST(X'", "", "' AS STRING)")
    case (BinaryType, _)                => s"X'${text.drop(2)}'"
    case (DateType, date: LocalDate)    => s"date_from_unix_date(${date.toEpochDay})"
    case (TimestampType, time: Instant) => s"timestamp_micros(${micros(time)})"
    case (_, value)                     => s"CAST('$value' AS ${dataType.sql})"
  }

  private def micros(time: Instant) = time.getEpochSecond * 1000000 + time.getNano / 1000

  /** Returns a text that any engine can easily make of a value. */
  def plain(value: Any): String = value match {
    case null                => null
    case date: LocalDate     => date.toEpochDay.toString
    case time: Instant       => micros(time).toString
    case time: LocalDateTime => plain(time.toInstant(ZoneOffset.UTC))
    case other               => other.toString
  }

  /** Returns the same value for all values that PostgreSQL and Spark take as the same key. */
  def inKey(value: Any): Any = value match {
    case number: Float if number.isNaN  => "NaN" // which equals itself
    case number: Double if number.isNaN => "NaN"
    case number: Float                  => number + 0.0f
    case number: Double                 => number + 0.0
    case other                          => other
  }
}
