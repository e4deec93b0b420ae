package io.sparkpgoutput.options

import java.time.{ZoneId, ZoneOffset}

import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.InLocale
import io.sparkpgoutput.protocol.TextEncoding
import io.sparkpgoutput.types.{ConversionOptions, InfinityMode}

class RowOptionsSuite extends AnyFunSuite {
  private def parsed(options: (String, String)*): RowOptions =
    RowOptions.row.parse(options).fold(fail(_), identity)

  private def conversion(options: (String, String)*): ConversionOptions =
    parsed(options: _*).conversion

  private def problem(options: (String, String)*): String =
    RowOptions.row.parse(options).fold(identity, options => fail(options.toString))

  test("by default a value that does not fit is an error, and the time zone is the session's") {
    assert(parsed() == RowOptions(failFast = true, None, ConversionOptions()))
  }

  test("each option is read, with its name and its value in any case") {
    assert(!parsed("Mode" -> "permissive").failFast)
    InfinityMode.all.foreach { infinity =>
      assert(conversion("INFINITY" -> infinity.name.toUpperCase).infinity == infinity)
    }
    Seq("ISO", "iso", "ISO, MDY", "ISO,DMY", "iso, ymd").foreach { style =>
      assert(parsed("DateStyle" -> style) == parsed())
    }
    Seq(0, 2, 10).foreach { scale =>
      assert(conversion("moneyScale" -> scale.toString).moneyScale == scale)
    }
    assert(conversion("encoding" -> "LATIN1").encoding.toString == "ISO-8859-1")
    val declared =
      parsed("type.16402" -> "int4", "TYPE.4294967295" -> "array:range:int8").types
    assert(declared.byOid(16402).name == "int4")
    assert(declared.byOid(4294967295L).name == "range[]")
    InLocale("tr")(assert(parsed("TIMEZONE" -> "UTC", "INFINITY" -> "CLAMP").timeZone.nonEmpty))
  }

  test(
    "timeZone is for reading and printing; by default, reading uses the session's and printing UTC"
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

  test("an unknown option is refused, with a list of all options") {
    val unknown = problem("zone" -> "UTC")
    assert(unknown.startsWith("There is no option 'zone'"))
    Seq("mode", "encoding", "timeZone", "infinity", "dateStyle", "moneyScale", "type.<oid>")
      .foreach(name => assert(unknown.contains(s"'$name'")))
    assert(problem("type" -> "int4").startsWith("There is no option 'type'"))
  }

  test("an option that is given twice is refused, also in different case") {
    assert(problem("type.7" -> "int4", "TYPE.7" -> "int8") == "The option 'type.7' is given twice.")
  }

  test("a bad value is refused, with the valid values") {
    Seq("", "no such").foreach { value =>
      Seq(
        "mode" -> "FAILFAST, PERMISSIVE",
        "encoding" -> "UTF8",
        "timeZone" -> "Europe/Berlin",
        "infinity" -> "error, null, clamp",
        "dateStyle" -> "ISO, alone or as in 'ISO, MDY'",
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

  test("try_pgoutput_row is always PERMISSIVE") {
    assert(RowOptions.tryRow.parse(Nil).exists(!_.failFast))
    assert(RowOptions.tryRow.parse(Seq("mode" -> "FAILFAST")).isLeft)
    assert(RowOptions.tryRow.specs.map(_.name) == RowOptions.row.specs.map(_.name))
  }

  test("the option type.<oid> needs a valid oid") {
    Seq("", "x", "0", "-1", "4294967296", "99999999999999999999").foreach { oid =>
      assert(problem(s"type.$oid" -> "int4").startsWith(s"'type.$oid' is not an option"))
    }
  }
}

class DecodeOptionsSuite extends AnyFunSuite {

  private def parsed(options: (String, String)*): DecodeOptions =
    DecodeOptions.decode.parse(options).fold(fail(_), identity)

  private def problem(options: (String, String)*): String =
    DecodeOptions.decode.parse(options).fold(identity, options => fail(options.toString))

  test("by default a malformed message is an error, and text is in UTF-8") {
    assert(parsed() == DecodeOptions(failFast = true, TextEncoding.Utf8))
  }

  test("mode and encoding are read in any case and order") {
    assert(parsed("mode" -> "FailFast").failFast)
    val both = Seq("mode" -> "permissive", "encoding" -> "latin1")
    Seq(both, both.reverse).map(parsed(_: _*)).foreach { options =>
      assert(!options.failFast)
      assert(options.encoding.charset.name == "ISO-8859-1")
    }
  }

  test("a bad value is refused, with the valid values") {
    Seq("", "DROPMALFORMED").foreach { mode =>
      assert(problem("mode" -> mode).endsWith("The valid values are: FAILFAST, PERMISSIVE."))
    }
    Seq("", "no such", "SQL_ASCII").foreach { encoding =>
      val text = problem("encoding" -> encoding)
      TextEncoding.names.foreach(name => assert(text.contains(name)))
    }
  }

  test("try_pgoutput_decode is always PERMISSIVE") {
    val permissive = Right(DecodeOptions(failFast = false))
    Seq(Nil, Seq("mode" -> "Permissive")).foreach { options =>
      assert(DecodeOptions.tryDecode.parse(options) == permissive)
    }
    val refused = DecodeOptions.tryDecode.parse(Seq("mode" -> "FAILFAST"))
    assert(refused == Left(
      "'FAILFAST' is not valid for the option 'mode'. The valid values are: PERMISSIVE " +
        "(for FAILFAST, use pgoutput_decode)."
    ))
  }
}
