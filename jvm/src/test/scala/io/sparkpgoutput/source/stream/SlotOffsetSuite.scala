package io.sparkpgoutput.source.stream

import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.source.SourceException

class SlotOffsetSuite extends AnyFunSuite {
  test("the text of an offset is the same for ever") {
    assert(SlotOffset(0x16b374d848L).json == """{"lsn":"16/B374D848"}""")
  }

  test("an offset is read from its text, also as Spark writes it again") {
    Seq("""{"lsn":"16/B374D848"}""", """ {"lsn" : "16/b374d848"} """).foreach { json =>
      assert(SlotOffset.of(json) == SlotOffset(0x16b374d848L))
    }
  }

  test("an offset of another source is an error") {
    Seq("{}", "7", """{"lsn":7}""", """{"lsn":"16"}""", """{"lsn":"1/2","seq":3}""").foreach {
      json =>
        val error = intercept[SourceException](SlotOffset.of(json))
        assert(error.getMessage.contains(json))
    }
  }
}
