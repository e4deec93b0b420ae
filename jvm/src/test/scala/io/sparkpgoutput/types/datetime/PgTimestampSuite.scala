package io.sparkpgoutput.types.datetime

import java.nio.ByteBuffer
import java.time.{LocalDate, LocalDateTime, ZoneId, ZoneOffset}

import scala.util.Try

import org.apache.spark.sql.types._

import org.scalacheck.Gen

import io.sparkpgoutput.PropertySuite
import io.sparkpgoutput.types.{ConversionOptions, ConversionTests, InfinityMode}

/** date, timestamp, timestamptz, time and timetz: how the options work, and what is refused. */
class PgTimestampSuite extends PropertySuite with ConversionTests {
  import PgTimestamp.{Timestamp, Timestamptz}

  private val time = new PgTime("time", zoned = false)
  private val timetz = new PgTime("timetz", zoned = true)
  private val Berlin = ConversionOptions(timeZone = ZoneId.of("Europe/Berlin"))

  private def micros(time: String): Long = {
    val instant = LocalDateTime.parse(time).toInstant(ZoneOffset.UTC)
    instant.getEpochSecond * 1000000 + instant.getNano / 1000
  }

  private def days(date: String): Long = LocalDate.parse(date).toEpochDay

  private def int8(value: Long) = ByteBuffer.allocate(8).putLong(value).array

  test("a timestamp is a wall clock's time, unless the schema has TIMESTAMP") {
    val text = "2024-07-01 12:00:00.5"
    assert(fromText(Timestamp, TimestampNTZType, text, Berlin) == micros("2024-07-01T12:00:00.5"))
    assert(fromText(Timestamp, TimestampType, text, Berlin) == micros("2024-07-01T10:00:00.5"))
    // In Berlin, the clocks went from 2:00 to 3:00, and from 3:00 to 2:00.
    assert(
      fromText(Timestamp, TimestampType, "2024-03-31 02:30:00", Berlin) ==
        micros("2024-03-31T01:30:00")
    )
    assert(
      fromText(Timestamp, TimestampType, "2024-10-27 02:30:00", Berlin) ==
        micros("2024-10-27T00:30:00")
    )
  }

  test("a timestamptz is in UTC, unless the schema has TIMESTAMP_NTZ") {
    val text = "2024-07-01 12:00:00+05:30"
    assert(fromText(Timestamptz, TimestampType, text, Berlin) == micros("2024-07-01T06:30:00"))
    assert(fromText(Timestamptz, TimestampNTZType, text, Berlin) == micros("2024-07-01T08:30:00"))
    // A text without an offset is in the time zone of the option.
    assert(
      fromText(Timestamptz, TimestampType, "2024-07-01 12:00:00", Berlin) ==
        micros("2024-07-01T10:00:00")
    )
    assert(
      fromText(Timestamptz, TimestampType, "1800-01-01 00:00:00-04:56:02") ==
        micros("1800-01-01T04:56:02")
    )
  }

  test("the year must be in Spark's range after the offset is subtracted") {
    def read(text: String) = fromText(Timestamptz, TimestampType, text)
    assert(read("10000-01-01 00:30:00+01") == micros("9999-12-31T23:30:00"))
    assert(read("0001-12-31 23:30:00-01 BC") == micros("0001-01-01T00:30:00"))
    assert(problem(read("9999-12-31 23:30:00-01")) == "is after the year 9999; use STRING")
    assert(problem(read("0001-01-01 00:30:00+01")) == "is before the year 1; use STRING")
    assert(
      problem(fromText(PgDate, DateType, "0044-03-15 BC")) == "is before the year 1; use STRING"
    )
    assert(
      problem(fromText(PgDate, DateType, "12024-01-01")) == "is after the year 9999; use STRING"
    )
  }

  test("infinity is an error, NULL or the nearest date, as the option says") {
    val targets = Seq(
      (PgDate, DateType, days("0001-01-01").toInt, days("9999-12-31").toInt),
      (
        Timestamp,
        TimestampType,
        micros("0001-01-01T00:00:00"),
        micros("9999-12-31T23:59:59.999999")
      ),
      (
        Timestamptz,
        TimestampNTZType,
        micros("0001-01-01T00:00:00"),
        micros("9999-12-31T23:59:59.999999")
      )
    )
    targets.foreach { case (pgType, target, first, last) =>
      def read(text: String, infinity: InfinityMode) =
        fromText(pgType, target, text, Berlin.copy(infinity = infinity))
      assert(read("-infinity", InfinityMode.Clamp) == first)
      assert(read("infinity", InfinityMode.Clamp) == last)
      assert(read("infinity", InfinityMode.Null) == null)
      assert(
        problem(read(
          "-infinity",
          InfinityMode.Error
        )) == "is infinite; set the option infinity to null or clamp"
      )
    }
  }

  test("text in another DateStyle is refused, with the setting that the server needs") {
    def refused(typeName: String) =
      s"is not a valid $typeName in DateStyle ISO; set DateStyle to " +
        "ISO for the server, the database or the role that sends the messages, or use STRING"
    Seq("12/17/1997", "12-17-1997", "17.12.1997").foreach { text =>
      assert(problem(fromText(PgDate, DateType, text)) == refused("date"))
    }
    Seq("Wed Dec 17 07:37:16 1997", "12/17/1997 07:37:16", "17.12.1997 07:37:16 CET").foreach {
      text =>
        assert(problem(fromText(Timestamp, TimestampNTZType, text)) == refused("timestamp"))
        assert(problem(fromText(Timestamptz, TimestampType, text)) == refused("timestamptz"))
    }
  }

  test("text that is not a date or timestamp is refused") {
    Seq(
      "",
      "2024",
      "2024-02-30",
      "2023-02-29",
      "2024-13-01",
      "2024-00-01",
      "2024-01-00",
      "0000-01-01",
      "2024-1-01",
      "2024-01-01 ",
      " 2024-01-01",
      "2024-01-01BC",
      "2024-01-01 BC BC",
      "99999999-01-01",
      "5874898-06-04",
      "4714-11-23 BC",
      "2024-01-01 00:00:00",
      "infinit",
      "-",
      "i",
      "--infinity",
      "-infinity BC",
      "2024/01/01",
      "2024-01-0\u00b2",
      "2024-01-01T00:00:00"
    ).foreach { text =>
      withClue(text)(problem(fromText(PgDate, DateType, text)))
    }
    val wrong = Seq(
      "",
      "2024-01-01",
      "2024-01-01 ",
      "2024-01-01 00:00",
      "2024-01-01 24:00:00",
      "2024-01-01 00:60:00",
      "2024-01-01 00:00:60",
      "2024-01-01 00:00:00.",
      "2024-01-01 00:00:00.1234567",
      "2024-01-01 0:00:00",
      "2024-02-30 00:00:00",
      "294277-01-01 00:00:00",
      "9999999-01-01 00:00:00",
      "4714-11-23 23:59:59 BC",
      "2024-01-01 00:00:00 UTC",
      "2024-01-01 00:00:00Z",
      "-infinity+00",
      "infinity "
    )
    val wrongOffset =
      Seq("+", "+1", "+16", "+01:", "+01:60", "+01:00:60", "+01:00:00:00", "+0100", " +01")
    wrong.foreach { text =>
      withClue(text)(problem(fromText(Timestamp, TimestampNTZType, text)))
      withClue(text)(problem(fromText(Timestamptz, TimestampType, text)))
    }
    wrongOffset.foreach { offset =>
      val text = s"2024-01-01 00:00:00$offset"
      withClue(text)(problem(fromText(Timestamptz, TimestampType, text)))
    }
  }

  test("a text with an offset is refused as a timestamp, with the Spark type that reads it") {
    Seq("2024-01-01 00:00:00+00", "2024-01-01 00:00:00.5-04:56:02", "0044-03-15 12:00:00+00 BC")
      .foreach { text =>
        assert(
          problem(fromText(Timestamp, TimestampNTZType, text)) ==
            "has an offset from UTC; use TIMESTAMP",
          text
        )
      }
  }

  test("a date has the days that java.time gives it, if there is such a date") {
    forAll(Gen.choose(1, 9999), Gen.choose(0, 13), Gen.choose(0, 32)) { (year, month, day) =>
      val text = f"$year%04d-$month%02d-$day%02d"
      Try(LocalDate.of(year, month, day)).toOption match {
        case Some(date) => assert(fromText(PgDate, DateType, text) == date.toEpochDay.toInt)
        case None       => problem(fromText(PgDate, DateType, text))
      }
    }
  }

  test("a binary value that is out of PostgreSQL's range is refused") {
    Seq(-211813488000000001L, 9223371331200000000L).foreach { value =>
      problem(fromBinary(Timestamp, TimestampNTZType, int8(value)))
      problem(fromBinary(Timestamptz, StringType, int8(value)))
    }
    Seq(-1L, 86400000001L).foreach(value =>
      problem(fromBinary(time, StringType, int8(value)))
    )
    Seq(57600, -57600, Int.MinValue).foreach { zone =>
      val binary = ByteBuffer.allocate(12).putLong(0).putInt(zone).array
      problem(fromBinary(timetz, StringType, binary))
    }
  }

  test("a date is not read as a timestamp, and a time only as a string") {
    val options = ConversionOptions()
    assert(Seq(TimestampType, TimestampNTZType, LongType).forall(PgDate.to(_, options).isEmpty))
    assert(Seq(DateType, LongType).forall(Timestamp.to(_, options).isEmpty))
    assert(Seq(LongType, TimestampType).forall(time.to(_, options).isEmpty))
    assert(Timestamp.sparkType(-1) == TimestampNTZType)
    assert(Timestamptz.sparkType(-1) == TimestampType)
    assert(PgDate.sparkType(-1) == DateType)
  }

  test("a timestamp's text has the value that java.time gives it") {
    forAll { (seed: Long, zone: Int) =>
      val micros = Math.floorMod(seed, 252455615999999999L) // years 1970 to 9969
      val offset = ZoneOffset.ofTotalSeconds(Math.floorMod(zone, 50000))
      val local =
        LocalDateTime.ofEpochSecond(micros / 1000000, (micros % 1000000).toInt * 1000, offset)
      val text = f"${local.toLocalDate} ${local.getHour}%02d:${local.getMinute}%02d:" +
        f"${local.getSecond}%02d.${micros % 1000000}%06d${offset.getId}"
      assert(fromText(Timestamptz, TimestampType, text.replace("Z", "+00")) == micros, text)
    }
  }
}
