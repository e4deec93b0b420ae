package io.sparkpgoutput.types.datetime

import java.time.LocalDate
import java.time.temporal.ChronoUnit

import scala.util.Try

import org.scalacheck.Gen

import io.sparkpgoutput.PropertySuite

class CivilDateSuite extends PropertySuite {
  private val Start = LocalDate.of(2000, 1, 1)

  test("days are java.time's, from the first date that PostgreSQL has to the last") {
    forAll(Gen.oneOf(Gen.choose(-2451545L, 2145031948L), Gen.choose(-800000L, 800000L))) { days =>
      val date = Start.plusDays(days)
      val civil = CivilDate.ofDays(days)
      assert(CivilDate.year(civil) == date.getYear)
      assert(CivilDate.month(civil) == date.getMonthValue)
      assert(CivilDate.day(civil) == date.getDayOfMonth)
      assert(CivilDate.days(date.getYear, date.getMonthValue, date.getDayOfMonth) == days)
      assert(CivilDate.dayOfWeek(days) == date.getDayOfWeek.getValue % 7)
    }
    assert(CivilDate.UnixEpoch == ChronoUnit.DAYS.between(Start, LocalDate.EPOCH))
  }

  test("the dates that exist are java.time's") {
    for {
      year <- Seq(-400, -100, -4, 0, 1900, 2000, 2023, 2024, 2100)
      month <- -1 to 14
      day <- -1 to 33
    } assert(
      CivilDate.exists(year, month, day) == Try(LocalDate.of(year, month, day)).isSuccess,
      (year, month, day)
    )
  }
}
