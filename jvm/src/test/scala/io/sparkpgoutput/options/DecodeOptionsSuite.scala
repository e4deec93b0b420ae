package io.sparkpgoutput.options

import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.InLocale
import io.sparkpgoutput.protocol.TextEncoding

class DecodeOptionsSuite extends AnyFunSuite {

  private def parsed(options: (String, String)*): DecodeOptions =
    DecodeOptions.parse(options).fold(fail(_), identity)

  private def problem(options: (String, String)*): String =
    DecodeOptions.parse(options).fold(identity, options => fail(options.toString))

  test("without options nothing is said about the mode, and text is in UTF-8") {
    assert(parsed() == DecodeOptions(None, TextEncoding.Utf8))
  }

  test("names and modes in any case") {
    Seq("mode", "MODE", "Mode").foreach { name =>
      assert(parsed(name -> "PERMISSIVE").mode.contains(ParseMode.Permissive))
      assert(parsed(name -> "FailFast").mode.contains(ParseMode.FailFast))
    }
    assert(parsed("ENCODING" -> "koi8r").encoding.charset.name == "KOI8-R")
    InLocale("tr")(assert(parsed("ENCODING" -> "LATIN1", "MODE" -> "permissive").mode.nonEmpty))
  }

  test("both together, in any order") {
    val both = Seq("mode" -> "permissive", "encoding" -> "latin1")
    Seq(both, both.reverse).map(parsed(_: _*)).foreach { options =>
      assert(options.mode.contains(ParseMode.Permissive))
      assert(options.encoding.charset.name == "ISO-8859-1")
    }
  }

  test("unknown names") {
    Seq("", "modes", "charset", "client_encoding").foreach { name =>
      assert(problem(name -> "UTF8").startsWith(s"There is no option '$name'"))
    }
  }

  test("a name that is given twice, though in different case") {
    val twice = problem("mode" -> "FAILFAST", "Mode" -> "PERMISSIVE")
    assert(twice == "The option 'mode' is given twice")
  }

  test("bad values, NULL among them") {
    Seq("", "DROPMALFORMED", null).foreach { mode =>
      assert(problem("mode" -> mode).endsWith("valid are FAILFAST, PERMISSIVE"))
    }
    Seq("", "no such", "SQL_ASCII", null).foreach { encoding =>
      val text = problem("encoding" -> encoding)
      TextEncoding.names.foreach(name => assert(text.contains(name)))
    }
  }

  test("of several problems the first is told") {
    assert(problem("mode" -> "?", "encoding" -> "?").contains("option 'mode'"))
  }
}
