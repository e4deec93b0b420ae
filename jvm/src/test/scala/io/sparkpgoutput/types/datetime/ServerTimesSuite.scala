package io.sparkpgoutput.types.datetime

import java.nio.ByteBuffer
import java.time.temporal.ChronoUnit
import java.time.{LocalDate, LocalDateTime, ZoneId, ZoneOffset}
import java.util.HexFormat

import scala.io.Source
import scala.util.{Random, Try, Using}

import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter
import org.apache.spark.sql.types._

import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.types.registry.BuiltInTypes
import io.sparkpgoutput.types.{
  ConversionOptions,
  ConversionTests,
  InfinityMode,
  InvalidValue,
  PgType,
  ValueWriter
}

/** Values that PostgreSQL 18 sent and printed. They are in time.tsv, which the query in time.sql made. */
class ServerTimesSuite extends AnyFunSuite with ConversionTests {
  import ServerTimesSuite.Row

  private val rows = Using.resource(Source.fromResource("types/time.tsv")) { source =>
    source
      .getLines()
      .map(_.split('\t'))
      .map(row => Row(row(0), row(1), row(2), HexFormat.of.parseHex(row(3)), row(4)))
      .toIndexedSeq
  }

  private val targets: Seq[DataType] = {
    val dayTimes = for (start <- 0 to 3; end <- start to 3)
      yield DayTimeIntervalType(start.toByte, end.toByte)
    val yearMonths = Seq((0, 0), (0, 1), (1, 1)).map { case (start, end) =>
      YearMonthIntervalType(start.toByte, end.toByte)
    }
    Seq(DateType, TimestampType, TimestampNTZType) ++ dayTimes ++ yearMonths
  }

  test("a binary value prints as the server's text") {
    val printed = rows.filter(_.isAsPrinted)
    assert(printed.map(_.typeName).distinct.size == 6)
    printed.foreach { row =>
      val text = fromBinary(row.pgType, StringType, row.binary, row.options).toString
      assert(text == row.text, row)
    }
  }

  test("text gives the value that binary gives, or the same problem") {
    for {
      row <- rows.filter(_.isAsPrinted)
      infinity <- InfinityMode.all
      options = row.options.copy(infinity = infinity)
      target <- targets
      if row.pgType.to(target, options).isDefined
    } {
      val byText = attempt(fromText(row.pgType, target, row.text, options))
      val byBinary = attempt(fromBinary(row.pgType, target, row.binary, options))
      assert(byText == byBinary, (row, target.sql))
    }
  }

  test("text in another style gives the same value, or an error that names the setting") {
    val others = for {
      row <- rows.filterNot(_.isAsPrinted)
      target <- targets
      if row.pgType.to(target, row.options).isDefined
    } yield {
      val byText = attempt(fromText(row.pgType, target, row.text, row.options))
      val setting =
        if (row.typeName == "interval") "IntervalStyle to postgres" else "DateStyle to ISO"
      val isRefused = byText.left.exists(_.contains(s"set $setting for"))
      lazy val byBinary = attempt(fromBinary(row.pgType, target, row.binary, row.options))
      assert(isRefused || byText == byBinary, (row, target.sql))
      isRefused
    }
    assert(others.count(identity) > others.size * 0.9)
  }

  test("text and binary values give the same parts of an interval") {
    rows.filter(row => row.typeName == "interval" && row.isAsPrinted).foreach { row =>
      val (byText, byBinary) = (new Interval, new Interval)
      val bytes = row.text.getBytes
      byText.readText(bytes, 0, bytes.length)
      byBinary.readBinary(row.binary, 0, row.binary.length)
      val parts = Seq(byText, byBinary).map(value => (value.months, value.days, value.micros))
      assert(parts.distinct.size == 1, row)
    }
  }

  test("Spark's value is the one that java.time gives") {
    val (epoch, start) = (LocalDate.EPOCH, LocalDate.of(2000, 1, 1))
    rows.foreach { row =>
      val number = ByteBuffer.wrap(row.binary)
      row.typeName match {
        case "date" =>
          attempt(fromBinary(row.pgType, DateType, row.binary)).foreach { value =>
            assert(value == ChronoUnit.DAYS.between(epoch, start.plusDays(number.getInt.toLong)))
          }
        case "timestamp" | "timestamptz" =>
          val micros = number.getLong
          attempt(fromBinary(row.pgType, row.pgType.sparkType(-1), row.binary)).foreach { value =>
            val time = start.atStartOfDay.plus(micros, ChronoUnit.MICROS)
            assert(value == ChronoUnit.MICROS.between(LocalDateTime.of(1970, 1, 1, 0, 0), time))
            assert(time.getYear >= 1 && time.getYear <= 9999)
          }
        case _ =>
      }
    }
  }

  test("a damaged text is read or refused, and never fails otherwise") {
    val random = new Random(1)
    val alphabet = "0123456789-+:./ BCPTYMDHS@ago\u0000\u00ff"
    for (row <- rows; _ <- 1 to 20) {
      val at = random.nextInt(row.text.length + 1)
      val replaced = random.nextInt(2)
      val put = alphabet.charAt(random.nextInt(alphabet.length)).toString.take(random.nextInt(2))
      val bytes = row.text.patch(at, put, replaced).getBytes("ISO-8859-1")
      targets.flatMap(target => row.pgType.to(target, row.options).map(target -> _)).foreach {
        case (target, conversion) =>
          val result = Try(convert(bytes, target, conversion.fromText))
          assert(
            result.isSuccess || result.failed.get.isInstanceOf[InvalidValue],
            (row, new String(bytes), result)
          )
      }
    }
  }

  test("bytes of any size are read or refused, and never fail otherwise") {
    val random = new Random(2)
    for {
      row <- rows.distinctBy(_.typeName)
      target <- targets :+ StringType
      conversion <- row.pgType.to(target, ConversionOptions())
      size <- 0 to 20
      _ <- 1 to 20
    } {
      val result = Try(convert(random.nextBytes(size), target, conversion.fromBinary))
      assert(result.isSuccess || result.failed.get.isInstanceOf[InvalidValue], (row, result))
    }
  }

  /** Reads the value alone, without other bytes around it. */
  private def convert(
      bytes: Array[Byte],
      target: DataType,
      read: (Array[Byte], Int, Int, ValueWriter) => Unit
  ): Unit = {
    val writer = new UnsafeRowWriter(1, 16)
    writer.reset()
    read(bytes, 0, bytes.length, new ValueWriter(writer, target, 0))
  }
}

private object ServerTimesSuite {
  final case class Row(
      typeName: String,
      style: String,
      zone: String,
      binary: Array[Byte],
      text: String
  ) {
    val pgType: PgType = BuiltInTypes.all.map(_.pgType).find(_.name == typeName).get
    val options: ConversionOptions = ConversionOptions(
      timeZone = ZoneId.of("Europe/Berlin"),
      printedTimeZone = if (zone == "UTC") ZoneOffset.UTC else ZoneId.of(zone)
    )
    def isAsPrinted: Boolean = style.startsWith("ISO") || style == "postgres"
    override def toString: String = s"$typeName $style $zone $text"
  }
}
