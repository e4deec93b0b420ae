package io.sparkpgoutput.options

import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.protocol.TextEncoding

class DecodeOptionsSuite extends AnyFunSuite {

  private def parsed(options: (String, String)*): DecodeOptions =
    DecodeOptions.decode.parse(options).fold(fail(_), identity)

  private def problem(options: (String, String)*): String =
    DecodeOptions.decode.parse(options).fold(identity, options => fail(options.toString))

  test("by default a malformed message is an error, and text is in UTF-8") {
    assert(parsed() == DecodeOptions(failFast = true, TextEncoding.Utf8))
  }

  test("mode and encoding, in any case and order") {
    assert(parsed("mode" -> "FailFast").failFast)
    val both = Seq("mode" -> "permissive", "encoding" -> "latin1")
    Seq(both, both.reverse).map(parsed(_: _*)).foreach { options =>
      assert(!options.failFast)
      assert(options.encoding.charset.name == "ISO-8859-1")
    }
  }

  test("bad values, and those that are valid") {
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
