package io.sparkpgoutput.rows

import java.nio.charset.StandardCharsets

import scala.util.Random

import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter
import org.apache.spark.sql.catalyst.expressions.{SafeProjection, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.types.StructType

import io.sparkpgoutput.PropertySuite
import io.sparkpgoutput.types.containers.ComposedCells
import io.sparkpgoutput.types.{ConversionOptions, InvalidValue, ValueWriter}

/**
 * Rows with a column of each composed type, which have the same bytes as the rows that Spark makes of their
 * values, so that equal values are equal keys.
 */
class ComposedRowsSuite extends PropertySuite {
  private val columns =
    ComposedCells.all.groupBy(cell => (cell.declaration, cell.target)).values.toSeq
  private val schema = columns.zipWithIndex.foldLeft(new StructType) {
    case (struct, (cells, index)) =>
      struct.add(s"c$index", cells.head.target)
  }
  private val conversions = columns.map { cells =>
    cells.head.pgType.to(cells.head.target, ConversionOptions()).get
  }
  private val types = schema.fields.map(_.dataType)
  private val safe = SafeProjection.create(types)
  private val unsafe = UnsafeProjection.create(types)

  private class Rows {
    private val writer = new UnsafeRowWriter(schema.length, 16) // small, so that it must grow
    private val slots = ValueWriter.all(writer, schema)

    def write(random: Random): UnsafeRow = {
      writer.reset()
      writer.zeroOutNullBytes()
      columns.indices.foreach { column =>
        val slot = slots(column)
        val cell = columns(column)(random.nextInt(columns(column).size))
        random.nextInt(8) match {
          case 0 => slot.setNull()
          case 1 | 2 | 3 =>
            val text = cell.text.getBytes(StandardCharsets.UTF_8)
            conversions(column).fromText(text, 0, text.length, slot)
          case _ => conversions(column).fromBinary(cell.binary, 0, cell.binary.length, slot)
        }
      }
      writer.getRow
    }
  }

  test("rows have the bytes that Spark writes, whichever rows came before") {
    val used = Seq(new Rows, new Rows)
    forAll { seed: Long =>
      val random = new Random(seed)
      val rows = if (random.nextInt(4) == 0) new Rows else used(random.nextInt(2))
      val row = rows.write(random)
      assert(unsafe(safe(row)) == row)
    }
  }

  test("a value that was refused leaves no trace in the next row") {
    val rows = new Rows
    forAll { seed: Long =>
      val random = new Random(seed)
      val column = random.nextInt(columns.size)
      val cell = columns(column)(random.nextInt(columns(column).size))
      val writer = new UnsafeRowWriter(1)
      writer.reset()
      writer.zeroOutNullBytes()
      val slot = new ValueWriter(writer, cell.target, 0)
      val cut = random.nextInt(cell.binary.length)
      try conversions(column).fromBinary(cell.binary, 0, cut, slot)
      catch { case _: InvalidValue => }
      val row = rows.write(random)
      assert(unsafe(safe(row)) == row)
    }
  }
}
