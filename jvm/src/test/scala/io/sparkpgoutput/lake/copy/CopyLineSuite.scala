package io.sparkpgoutput.lake.copy

import java.nio.charset.StandardCharsets.UTF_8

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

class CopyLineSuite extends AnyFunSuite {

  /** What the server writes for a character that it escapes (`CopyAttributeOutText`). */
  private val escapes = Map(
    '\b' -> "\\b",
    '\f' -> "\\f",
    '\n' -> "\\n",
    '\r' -> "\\r",
    '\t' -> "\\t",
    11.toChar -> "\\v",
    '\\' -> "\\\\"
  )

  /** Writes a row as the server does. None is NULL. */
  private def written(cells: Seq[Option[String]]): Array[Byte] =
    cells
      .map(_.fold("\\N")(_.flatMap(char => escapes.getOrElse(char, char.toString))))
      .mkString("", "\t", "\n")
      .getBytes(UTF_8)

  private def read(line: CopyLine, row: Array[Byte]): Seq[Option[String]] = {
    line.start(row)
    val cells = (0 until line.columns).map { column =>
      line.goTo(column) match {
        case 'n' => None
        case 't' => Some(new String(line.bytes, line.from, line.to - line.from, UTF_8))
      }
    }
    line.finish()
    cells
  }

  test("cells are what they were before the server escaped them") {
    val random = new Random(1)
    val characters = (0.toChar to 0x80.toChar).drop(1) ++ "\\\\\\\t\t\n\rNNbfv.ß🐢😀"
    (1 to 20000).foreach { _ =>
      val cells = Seq.fill(1 + random.nextInt(5)) {
        val size = if (random.nextInt(50) == 0) 2000 else random.nextInt(7)
        Option.when(random.nextInt(6) > 0)(
          Seq.fill(size)(characters(random.nextInt(characters.length))).mkString
        ).filter(text => new String(text.getBytes(UTF_8), UTF_8) == text)
      }
      assert(read(new CopyLine(cells.length), written(cells)) == cells)
    }
  }

  test("an instance reads one row after another, and its columns with gaps") {
    val line = new CopyLine(3)
    val rows = Seq(
      Seq(Some("a\tb"), None, Some("c")),
      Seq(None, Some(""), Some("\\N")),
      Seq(Some(""), Some("\\" * 5000), Some("N"))
    )
    rows.foreach(cells => assert(read(line, written(cells)) == cells))
    line.start(written(rows.head))
    assert(line.goTo(2) == 't')
    assert(new String(line.bytes, line.from, line.to - line.from, UTF_8) == "c")
  }

  test("a table without columns has empty rows") {
    assert(read(new CopyLine(0), "\n".getBytes) == Nil)
  }

  test("a row that is cut off or has other columns is an error") {
    Seq("a", "", "a\n", "a\tb\tc\n", "a\tb\\\n").foreach { row =>
      assertThrows[IllegalStateException](read(new CopyLine(2), row.getBytes(UTF_8)))
    }
  }
}
