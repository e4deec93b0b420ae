package io.sparkpgoutput.types.datetime

import java.nio.ByteBuffer

import org.apache.spark.sql.types.DayTimeIntervalType.{DAY, HOUR, MINUTE, SECOND}
import org.apache.spark.sql.types.YearMonthIntervalType.YEAR
import org.apache.spark.sql.types._

import io.sparkpgoutput.PropertySuite
import io.sparkpgoutput.types.{ConversionOptions, ConversionTests, InfinityMode}

class PgIntervalSuite extends PropertySuite with ConversionTests {
  private val DayTime = DayTimeIntervalType()
  private val YearMonth = YearMonthIntervalType()
  private val Hour = 3600000000L

  private def read(text: String, target: DataType, infinity: InfinityMode = InfinityMode.Error) =
    fromText(PgInterval, target, text, ConversionOptions(infinity = infinity))

  test("a day has 24 hours, and months are separate from days") {
    assert(read("2 days -01:00:00", DayTime) == 47 * Hour)
    assert(read("-1 years -2 mons", YearMonth) == -14)
    assert(
      problem(read("1 mon", DayTime)) == "has months; use INTERVAL YEAR TO MONTH"
    )
    assert(problem(read("1 mon 1 day", DayTime)) == "has months; use STRING")
    assert(
      problem(read("00:00:01", YearMonth)) == "has days or time; use INTERVAL DAY TO SECOND"
    )
    assert(problem(read("1 mon -1 days", YearMonth)) == "has days or time; use STRING")
  }

  test("an interval must not be finer than the last field of its type") {
    Seq("25:00:01" -> SECOND, "25:01:00" -> MINUTE, "25:00:00" -> HOUR, "24:00:00" -> DAY).foreach {
      case (text, finest) =>
        Seq(DAY, HOUR, MINUTE, SECOND).foreach { end =>
          val target = DayTimeIntervalType(DAY, end)
          if (end >= finest) read(text, target)
          else {
            val remedy = "use INTERVAL DAY TO SECOND"
            assert(problem(read(text, target)) == s"is finer than ${target.sql}; $remedy")
          }
        }
    }
    assert(read("-2 years", YearMonthIntervalType(YEAR)) == -24)
    assert(problem(read("1 year 1 mon", YearMonthIntervalType(YEAR))).contains("finer"))
  }

  test("infinity is an error, NULL or the widest interval of the type") {
    assert(problem(read(
      "infinity",
      DayTime
    )) == "is infinite; set the option infinity to null or clamp")
    assert(read("-infinity", YearMonth, InfinityMode.Null) == null)
    assert(read("infinity", DayTime, InfinityMode.Clamp) == Long.MaxValue)
    assert(read("-infinity", DayTime, InfinityMode.Clamp) == Long.MinValue)
    assert(read("infinity", DayTimeIntervalType(DAY), InfinityMode.Clamp) == 106751991L * 24 * Hour)
    assert(read("infinity", YearMonth, InfinityMode.Clamp) == Int.MaxValue)
    assert(
      read("-infinity", YearMonthIntervalType(YEAR), InfinityMode.Clamp) == -178956970 * 12
    )
  }

  test("the sum of days and time is exact up to the last microsecond") {
    forAll { (days: Int, micros: Long) =>
      val binary = ByteBuffer.allocate(16).putLong(micros).putInt(days / 16).putInt(0).array
      val sum = BigInt(days / 16) * 24 * Hour + micros
      if (sum.isValidLong) assert(fromBinary(PgInterval, DayTime, binary) == sum.toLong)
      else assert(problem(fromBinary(PgInterval, DayTime, binary)).contains("out of range"))
    }
  }

  test("text that no server prints is refused") {
    Seq(
      "",
      " ",
      "-",
      "1",
      "-0",
      "00",
      "1 day ",
      " 1 day",
      "1  day",
      "1 dayss",
      "1 s",
      "1 week",
      "1 day 1 day",
      "1 day 1 year",
      "1.5 days",
      "1 day 2",
      "1 2 3",
      "1 -2:00:00",
      "0",
      "3 4:05:06",
      "4:05:06",
      "P1D",
      "PT4H5M6S",
      "@ 1 day",
      "04:05:06 1 day",
      "04:05:06 04:05:06",
      "1 hour",
      "12345678901:00:00",
      "1-2 3 4:05:06",
      "+1-2 3 +4:05:06",
      "+1-2 +3",
      "1-12",
      "1-",
      "1:2:3",
      "1:00",
      "1:60:00",
      "1:00:60",
      "1:00:00.",
      "1:00:00.1234567",
      "1:00:00 ago",
      "1 day ago",
      "@",
      "@ ",
      "@ ago",
      "@ 0 ago",
      "@ 1 day agos",
      "P",
      "PT",
      "P1",
      "P1S",
      "PT1Y",
      "P1D1M",
      "P1.5D",
      "PT1.S",
      "P1YT",
      "PTT1S",
      "P--1D",
      "12345678901 days",
      "2147483648 days",
      "-2147483649 days",
      "178956971 years",
      "2562047788:00:54.775808",
      "-2562047788:00:54.775809",
      "2562047789:00:00",
      "infinity ago"
    ).foreach(text =>
      withClue(text)(problem(read(text, DayTime)) match {
        case text if text.startsWith("is not a valid interval in IntervalStyle postgres; set") =>
        case other => fail(other)
      })
    )
  }
}
