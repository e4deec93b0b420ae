package io.sparkpgoutput.options

import java.time.{ZoneId, ZoneOffset}

import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.InLocale
import io.sparkpgoutput.types.{ConversionOptions, DateStyle, Infinity}

class RowOptionsSuite extends AnyFunSuite {
  private def parsed(options: (String, String)*): RowOptions =
    RowOptions.parse(options).fold(fail(_), identity)

  private def conversion(options: (String, String)*): ConversionOptions =
    parsed(options: _*).conversion

  private def problem(options: (String, String)*): String =
    RowOptions.parse(options).fold(identity, options => fail(options.toString))

  test("without options nothing is said about mode and time zone") {
    assert(parsed() == RowOptions(None, None, ConversionOptions()))
  }

  test("each option, names and values in any case") {
    assert(parsed("Mode" -> "permissive").mode.contains(ParseMode.Permissive))
    Infinity.all.foreach { infinity =>
      assert(conversion("INFINITY" -> infinity.name.toUpperCase).infinity == infinity)
    }
    DateStyle.all.foreach { style =>
      assert(conversion("dateStyle" -> style.name).dateStyle == style)
    }
    Seq(0, 2, 10).foreach { scale =>
      assert(conversion("moneyScale" -> scale.toString).moneyScale == scale)
    }
    assert(conversion("encoding" -> "LATIN1").encoding.toString == "ISO-8859-1")
    val declared =
      conversion("type.16402" -> "int4", "TYPE.4294967295" -> "array:range:int8").declared
    assert(declared.view.mapValues(_.name).toMap == Map(16402L -> "int4", 4294967295L -> "range[]"))
    InLocale("tr")(assert(parsed("TIMEZONE" -> "UTC", "INFINITY" -> "CLAMP").timeZone.nonEmpty))
  }

  test(
    "a time zone is that of all there is, else the session's of what is read, UTC of what is shown"
  ) {
    val session = ZoneId.of("Asia/Tokyo")
    val own = parsed("timeZone" -> "Europe/Berlin").conversionIn(session)
    assert(own.timeZone == ZoneId.of("Europe/Berlin"))
    assert(own.printedTimeZone == ZoneId.of("Europe/Berlin"))
    assert(parsed().conversionIn(session).timeZone == session)
    assert(parsed().conversionIn(session).printedTimeZone == ZoneOffset.UTC)
    val moved = parsed("timeZone" -> "+02:00", "moneyScale" -> "3").conversionIn(session)
    assert(moved.timeZone.getRules.getOffset(java.time.Instant.EPOCH).getTotalSeconds == 7200)
    assert(moved.moneyScale == 3)
  }

  test("unknown names, and all that there are") {
    val unknown = problem("zone" -> "UTC")
    assert(unknown.startsWith("There is no option 'zone'"))
    Seq("mode", "encoding", "timeZone", "infinity", "dateStyle", "moneyScale", "type.<oid>")
      .foreach(name => assert(unknown.contains(s"'$name'")))
    assert(problem("type" -> "int4").startsWith("There is no option 'type'"))
  }

  test("the same option twice, though in different case") {
    assert(problem("type.7" -> "int4", "TYPE.7" -> "int8") == "The option 'type.7' is given twice")
  }

  test("bad values, NULL among them, and the valid ones") {
    Seq("", "no such", null).foreach { value =>
      Seq(
        "mode" -> "FAILFAST, PERMISSIVE",
        "encoding" -> "UTF8",
        "timeZone" -> "Europe/Berlin",
        "infinity" -> "error, null, clamp",
        "dateStyle" -> DateStyle.all.map(_.name).mkString(", "),
        "moneyScale" -> "0 to 10",
        "type.16402" -> "composite"
      ).foreach { case (name, valid) =>
        val text = problem(name -> value)
        assert(text.startsWith(s"'$value' is not valid for the option '$name'"))
        assert(text.contains(valid))
      }
    }
    Seq("-1", "11", "2.0").foreach(scale => assert(problem("moneyScale" -> scale).contains(scale)))
    Seq("array:", "array:none", "range", "int4[]", "array:array", "composite:int4").foreach { name =>
      assert(problem("type.16402" -> name).startsWith(s"'$name' is not valid"))
    }
  }

  test("oids that are none") {
    Seq("", "x", "0", "-1", "4294967296", "99999999999999999999").foreach { oid =>
      assert(problem(s"type.$oid" -> "int4").startsWith(s"'type.$oid' is not an option"))
    }
  }
}
