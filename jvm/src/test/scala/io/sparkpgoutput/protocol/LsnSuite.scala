package io.sparkpgoutput.protocol

import org.scalacheck.Gen

import io.sparkpgoutput.{InLocale, PropertySuite}

class LsnSuite extends PropertySuite {
  private val lsn = Gen.chooseNum(Long.MinValue, Long.MaxValue, -1L, 0L, 0xffffffffL, 1L << 32)

  test("a formatted LSN is parsed to the same LSN") {
    forAll(lsn)(lsn => assert(Lsn.parse(Lsn.format(lsn)).contains(lsn)))
  }

  test("an LSN is parsed padded or not, and in any case") {
    forAll(lsn) { lsn =>
      val padded = f"${lsn >>> 32}%08x/${lsn & 0xffffffffL}%08x"
      assert(Lsn.parse(padded).contains(lsn))
      assert(Lsn.parse(padded.toUpperCase).contains(lsn))
    }
  }

  test("an LSN is formatted as before PostgreSQL 19, in upper case without padding") {
    assert(Lsn.format(0) == "0/0")
    assert(Lsn.format(0x16_b374d848L) == "16/B374D848")
    assert(Lsn.format(0x1_00000000L) == "1/0")
    assert(Lsn.format(0xaL) == "0/A")
    assert(Lsn.format(-1) == "FFFFFFFF/FFFFFFFF")
    assert(Lsn.format(Long.MinValue) == "80000000/0")
  }

  test("other texts are not LSNs") {
    val texts = Seq(
      "",
      "/",
      "0",
      "1A",
      "1/",
      "/1",
      "1//2",
      "1/2/3",
      "G/1",
      "1/G",
      "0x1/2",
      "+1/2",
      "-1/2",
      "123456789/1",
      "1/123456789",
      " 1/2",
      "1/2 ",
      "1 /2",
      "1/2\n",
      "１/２"
    )
    texts.foreach(text => assert(Lsn.parse(text).isEmpty, s"'$text'"))
  }

  test("the format does not depend on the locale") {
    InLocale("ar-EG-u-nu-arab")(assert(Lsn.format(0x16_b374d848L) == "16/B374D848"))
  }
}
