package io.sparkpgoutput.rows

import scala.util.{Failure, Success, Try}

import org.apache.spark.sql.catalyst.expressions.{
  BoundReference,
  InterpretedUnsafeProjection,
  UnsafeRow
}

import io.sparkpgoutput.PropertySuite
import io.sparkpgoutput.errors.InvalidValueException
import io.sparkpgoutput.protocol.DecodedTuple
import io.sparkpgoutput.protocol.Messages.Cell
import io.sparkpgoutput.types.ConversionOptions
import io.sparkpgoutput.types.registry.{TypeRegistry, TypedTuples}

class RowConverterSuite extends PropertySuite {
  import TypedTuples._

  private def converter(columns: Seq[Column], required: Seq[Int], failFast: Boolean) =
    new RowConverter(
      RowSchema(schema(columns), required, ConversionOptions(), TypeRegistry(), failFast),
      columns.map(_.oid)
    )

  private def read(converter: RowConverter, cells: Seq[Cell]): UnsafeRow = {
    val tuple = new DecodedTuple
    tuple.start(row(cells))
    converter.row(tuple)
  }

  private def fits(column: Column, cell: Cell): Boolean =
    Try(read(converter(Seq(column), Seq(0), failFast = true), Seq(cell))) match {
      case Success(_)                        => true
      case Failure(_: InvalidValueException) => false
      case Failure(other)                    => throw other
    }

  private def onlyFitting(columns: Seq[Column], cells: Seq[Cell]): Seq[Cell] =
    columns.zip(cells).map { case (column, cell) =>
      if (fits(column, cell)) cell else ("n", null, null)
    }

  test("a row with a value that does not fit has the same bytes as a row with NULL there") {
    forAll(tuples, minSuccessful(2000)) { case (columns, cells) =>
      val all = columns.indices
      val permissive = converter(columns, all, failFast = false)
      val expected =
        read(converter(columns, all, failFast = true), onlyFitting(columns, cells)).copy()
      assert(read(permissive, cells) == expected)
      // The next row has no trace of it either.
      assert(read(permissive, onlyFitting(columns, cells)) == expected)
    }
  }

  test("rows have the bytes that Spark writes") {
    forAll(tuples) { case (columns, cells) =>
      val found = read(converter(columns, columns.indices, failFast = false), cells)
      val fields = columns.zipWithIndex.map { case (column, i) =>
        BoundReference(i, column.dataType, nullable = true)
      }
      val written = InterpretedUnsafeProjection.createProjection(fields).apply(found)
      assert(found == written)
      assert(found.getSizeInBytes == written.getSizeInBytes)
    }
  }

  test("a row of some columns has the same values, and values of other columns need not fit") {
    val chosen = tuples.flatMap { case (columns, cells) =>
      some(columns).map((columns, cells, _))
    }
    forAll(chosen) { case (columns, cells, required) =>
      val part = read(converter(columns, required, failFast = false), cells)
      val alone = required.map(columns)
      assert(part == read(converter(alone, alone.indices, failFast = false), required.map(cells)))
      assert(part.numFields == required.size)
      val strict = converter(columns, required, failFast = true)
      val others = cells.indices.filter(i => fits(columns(i), cells(i)) || !required.contains(i))
      if (others.size == cells.size) assert(read(strict, cells) == part)
      else intercept[InvalidValueException](read(strict, cells))
    }
  }
}
