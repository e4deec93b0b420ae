package io.sparkpgoutput.protocol

import java.nio.charset.StandardCharsets

import org.scalacheck.Gen

import io.sparkpgoutput.{InLocale, PropertySuite}

class TextEncodingSuite extends PropertySuite {

  private def encoding(name: String): TextEncoding =
    TextEncoding.of(name).getOrElse(fail(s"no encoding $name"))

  /** None if the bytes are not a text in the encoding. */
  private def text(encoding: TextEncoding, bytes: Array[Byte]): Option[String] =
    Option(encoding.toUtf8(bytes, 0, bytes.length)).map(new String(_, StandardCharsets.UTF_8))

  /**
   * For each of PostgreSQL's names, a character that other encodings have at another place, or not at all.
   */
  private val characters = Seq(
    ("UTF8", "e4b8ad", "中"),
    ("LATIN1", "a4", "¤"),
    ("LATIN2", "f5", "ő"),
    ("LATIN3", "b1", "ħ"),
    ("LATIN4", "a2", "ĸ"),
    ("LATIN5", "fe", "ş"),
    ("LATIN7", "ec", "ģ"),
    ("LATIN9", "a4", "€"),
    ("LATIN10", "aa", "Ș"),
    ("ISO_8859_5", "d6", "ж"),
    ("ISO_8859_6", "c7", "ا"),
    ("ISO_8859_7", "e1", "α"),
    ("ISO_8859_8", "e0", "א"),
    ("WIN1250", "8c", "Ś"),
    ("WIN1251", "e6", "ж"),
    ("WIN1252", "80", "€"),
    ("WIN1253", "a2", "Ά"),
    ("WIN1254", "9f", "Ÿ"),
    ("WIN1255", "a4", "₪"),
    ("WIN1256", "81", "پ"),
    ("WIN1257", "ec", "ģ"),
    ("WIN1258", "fe", "₫"),
    ("WIN866", "a6", "ж"),
    ("WIN874", "80", "€"),
    ("KOI8R", "d6", "ж"),
    ("KOI8U", "a4", "є"),
    ("EUC_JP", "a4a2", "あ"),
    ("SJIS", "82a0", "あ"),
    ("SHIFT_JIS_2004", "82f2", "ゔ"),
    ("EUC_CN", "d6d0", "中"),
    ("GBK", "8140", "丂"),
    ("GB18030", "81308130", "\u0080"),
    ("EUC_KR", "c7d1", "한"),
    ("UHC", "8141", "갂"),
    ("JOHAB", "d065", "한"),
    ("EUC_TW", "c4e3", "中"),
    ("BIG5", "a4a4", "中")
  )

  test("every encoding is the one that its name says") {
    characters.foreach { case (name, bytes, character) =>
      assert(text(encoding(name), Fields.unhex(bytes)).contains(character), name)
      assert(text(encoding(name), "ASCII".getBytes).contains("ASCII"), name)
    }
    assert(characters.map { case (name, _, _) => name } == TextEncoding.names)
  }

  test(
    "EUC_TW has the characters that PostgreSQL writes in plane 14 and in the long form of plane 1"
  ) {
    val known = Seq(
      "8eaea1a1" -> "\u4e28",
      "8eaee2e3" -> "\u4fbd", // which Java has in plane 4
      "8ea1c4e3" -> "中",
      "c4e3" -> "中",
      "418ea1c4e38eaea1a142" -> "A中\u4e28B"
    )
    known.foreach { case (bytes, expected) =>
      assert(text(encoding("EUC_TW"), Fields.unhex(bytes)).contains(expected), bytes)
    }
    Seq("8e", "8ea1", "8eaea1", "8ea14142", "8eaea141", "c4", "c441", "a18ea1c4e3").foreach(bytes =>
      assert(text(encoding("EUC_TW"), Fields.unhex(bytes)).isEmpty, bytes)
    )
  }

  /** Other names that PostgreSQL takes: `pg_encname_tbl` in its `src/common/encnames.c`. */
  private val aliases = Map(
    "UTF8" -> "unicode",
    "LATIN1" -> "iso88591",
    "LATIN2" -> "iso88592",
    "LATIN3" -> "iso88593",
    "LATIN4" -> "iso88594",
    "LATIN5" -> "iso88599",
    "LATIN7" -> "iso885913",
    "LATIN9" -> "iso885915",
    "LATIN10" -> "iso885916",
    "WIN1250" -> "windows1250",
    "WIN1251" -> "win windows1251",
    "WIN1252" -> "windows1252",
    "WIN1253" -> "windows1253",
    "WIN1254" -> "windows1254",
    "WIN1255" -> "windows1255",
    "WIN1256" -> "windows1256",
    "WIN1257" -> "windows1257",
    "WIN1258" -> "abc tcvn tcvn5712 vscii windows1258",
    "WIN866" -> "alt windows866",
    "WIN874" -> "windows874",
    "KOI8R" -> "koi8",
    "SJIS" -> "mskanji shiftjis win932 windows932",
    "GBK" -> "win936 windows936",
    "UHC" -> "win949 windows949",
    "BIG5" -> "win950 windows950"
  )

  test("PostgreSQL's other names are known") {
    for ((name, others) <- aliases; other <- others.split(' '))
      assert(encoding(other).charset == encoding(name).charset, s"$other is $name")
  }

  test("names are compared by their letters and digits, in any case") {
    val decorated = for {
      name <- Gen.oneOf(TextEncoding.names)
      letters <- Gen.sequence[Seq[String], String](name.map { letter =>
        Gen.oneOf(letter.toLower.toString, letter.toString, s"-$letter", s"${letter}_")
      })
    } yield (name, letters.mkString)
    forAll(decorated) { case (name, variant) =>
      assert(encoding(variant).charset == encoding(name).charset)
    }
  }

  test("names do not depend on the locale") {
    InLocale("tr")(assert(encoding("WIN1252").charset == encoding("win1252").charset))
  }

  test("Java's names are known, if PostgreSQL has no such name") {
    assert(encoding("IBM037").charset.name == "IBM037")
    assert(encoding("utf-8").isUtf8)
  }

  test("other names are refused, also those of PostgreSQL's that Java has no charset for") {
    val none = Seq("", "-", "latin", "UTF-99", "no such", "ü", "MULE_INTERNAL", "EUC_JIS_2004")
    val notConverted = Seq("SQL_ASCII")
    val unknownToJava = Seq("LATIN6", "LATIN8", "iso885910", "iso885914")
    (none ++ notConverted ++ unknownToJava).foreach(name =>
      assert(TextEncoding.of(name).isEmpty, name)
    )
  }

  test("EUC_JP and SJIS have the same characters of JIS X 0208, as in PostgreSQL") {
    val eucJp = encoding("EUC_JP")
    val sjis = encoding("SJIS")
    for (row <- 1 to 84; cell <- 1 to 94) {
      val character = text(eucJp, Array(0xa0 + row, 0xa0 + cell).map(_.toByte))
      val upper = if (row < 63) (row + 0x101) / 2 else (row + 0x181) / 2
      val lower = if (row % 2 == 0) cell + 0x9e else if (cell < 64) cell + 0x3f else cell + 0x40
      val inSjis = text(sjis, Array(upper, lower).map(_.toByte))
      assert(character == inSjis, s"row $row, cell $cell")
    }
  }

  test("GB18030 is the standard of 2000, as in PostgreSQL, whatever Java follows") {
    Seq("82359037" -> "\u9fb4", "84318236" -> "\ufe10", "a6d9" -> "\ue78d", "8135f437" -> "\u1e3f")
      .foreach { case (bytes, character) =>
        assert(text(encoding("GB18030"), Fields.unhex(bytes)).contains(character), bytes)
      }
  }

  test("bytes that are not valid in the encoding give null") {
    Seq("EUC_JP" -> "a4", "WIN1252" -> "81", "ISO_8859_6" -> "a1", "GBK" -> "ff", "UHC" -> "c7")
      .foreach { case (name, bytes) =>
        assert(text(encoding(name), Fields.unhex(bytes)).isEmpty, name)
      }
  }
}
