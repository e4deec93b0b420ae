package io.sparkpgoutput.rows

import scala.util.{Failure, Success, Try}

import org.apache.spark.sql.catalyst.expressions.{
  BoundReference,
  InterpretedUnsafeProjection,
  UnsafeProjection,
  UnsafeRow
}
import org.apache.spark.sql.catalyst.util.{ArrayData, GenericArrayData}
import org.apache.spark.sql.types._

import org.scalacheck.Gen

import io.sparkpgoutput.PropertySuite
import io.sparkpgoutput.errors.Errors.raised
import io.sparkpgoutput.errors.PgOutputException
import io.sparkpgoutput.protocol.Messages.Cell
import io.sparkpgoutput.protocol.{DecodedTuple, TupleSchema}
import io.sparkpgoutput.types.ConversionOptions
import io.sparkpgoutput.types.registry.{TypeRegistry, TypedTuples}

class TupleReaderSuite extends PropertySuite {
  private val schema = StructType.fromDDL("a INT, b STRING")
  private val rowSchema =
    RowSchema(schema, Seq(0, 1), ConversionOptions(), TypeRegistry(), failFast = true)

  private def ids(oids: Any*): ArrayData = new GenericArrayData(oids.toArray[Any])

  /** Types that can be read, types that cannot, too few types, and too many. */
  private val someIds: Gen[ArrayData] = Gen.oneOf(
    null,
    ids(23L, 25L),
    ids(null, 25L),
    ids(null, null),
    ids(20L, 23L),
    ids(16L, 25L),
    ids(1700L, 701L),
    ids(23L),
    ids(23L, 25L, 23L),
    ids()
  )

  private val cells: Gen[Seq[Cell]] = Gen.oneOf(
    Gen.oneOf[Seq[Cell]](
      Seq(("t", "1", null), ("t", "x", null)),
      Seq(("b", null, "00000001"), ("b", null, "0000002a")),
      Seq(("b", null, "0000000000000002"), ("n", null, null)),
      Seq(("t", "1", null))
    ),
    Gen.listOfN(2, TypedTuples.cell)
  )

  private def result(read: => UnsafeRow): Either[String, UnsafeRow] =
    Try(read.copy()).toEither.left.map {
      case known: PgOutputException => known.getMessage
      case other                    => throw other
    }

  private def fresh(cells: Seq[Cell], typeIds: ArrayData) =
    result(new TupleReader(rowSchema).read(TypedTuples.row(cells), typeIds))

  private def oneAfterAnother(rows: Seq[(Seq[Cell], ArrayData)]): Unit = {
    val reader = new TupleReader(rowSchema)
    val toUnsafe = UnsafeProjection.create(Array[DataType](TupleSchema.schema, ArrayType(LongType)))
    rows.foreach { case (cells, typeIds) =>
      val tuple = TypedTuples.row(cells)
      val expected = fresh(cells, typeIds)
      assert(result(reader.read(tuple, typeIds)) == expected)
      val unsafe = toUnsafe(org.apache.spark.sql.catalyst.InternalRow(tuple, typeIds))
      val unsafeIds = if (typeIds == null) null else unsafe.getArray(1)
      assert(result(reader.read(unsafe.getStruct(0, 3), unsafeIds)) == expected)
    }
  }

  test("each row is read by its own types, also after an error") {
    forAll(Gen.listOf(Gen.zip(cells, someIds)))(oneAfterAnother)
  }

  test("types that cannot be read are an error in each row, not only in the first that has them") {
    val reader = new TupleReader(rowSchema)
    val tuple = TypedTuples.row(Seq(("b", null, "00000001"), ("t", "x", null)))
    assert(reader.read(tuple, ids(23L, 25L)).getInt(0) == 1)
    (1 to 2).foreach { _ =>
      val error = raised("PGOUTPUT_SCHEMA_MISMATCH")(reader.read(tuple, ids(16L, 25L)))
      assert(error.getMessage == "[PGOUTPUT_SCHEMA_MISMATCH] column 'a' has type bool (oid 16), " +
        "which cannot be read as INT; use BOOLEAN. SQLSTATE: 42804")
    }
    assert(reader.read(tuple, ids(23L, 25L)).getInt(0) == 1)
  }

  test("there can be more kinds of tables than the reader keeps converters") {
    val rows = (0 until 2200).map { number =>
      val oid = 100000L + number % 1100
      (
        Seq[Cell](("t", number.toString, null), ("b", null, "41")),
        ids(23L, if (number % 5 == 0) 25L else oid)
      )
    }
    oneAfterAnother(rows)
  }
}

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
      case Success(_) => true
      case Failure(known: PgOutputException) if known.getCondition == "PGOUTPUT_INVALID_VALUE" =>
        false
      case Failure(other) => throw other
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
      else raised("PGOUTPUT_INVALID_VALUE")(read(strict, cells))
    }
  }
}
