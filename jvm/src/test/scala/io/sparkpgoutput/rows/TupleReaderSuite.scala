package io.sparkpgoutput.rows

import scala.util.Try

import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.catalyst.util.{ArrayData, GenericArrayData}
import org.apache.spark.sql.types._

import org.scalacheck.Gen

import io.sparkpgoutput.PropertySuite
import io.sparkpgoutput.errors.{PgOutputException, SchemaMismatchException}
import io.sparkpgoutput.protocol.Messages.Cell
import io.sparkpgoutput.protocol.TupleSchema
import io.sparkpgoutput.types.ConversionOptions
import io.sparkpgoutput.types.registry.{TypeRegistry, TypedTuples}

class TupleReaderSuite extends PropertySuite {
  private val schema = StructType.fromDDL("a INT, b STRING")
  private val rowSchema =
    RowSchema(schema, Seq(0, 1), ConversionOptions(), TypeRegistry(), failFast = true)

  private def ids(oids: Any*): ArrayData = new GenericArrayData(oids.toArray[Any])

  /** Types that can be read, that cannot, too few, too many; 42 as int8 or numeric is another value. */
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
      val error = intercept[SchemaMismatchException](reader.read(tuple, ids(16L, 25L)))
      assert(error.getMessage == "[PGOUTPUT_SCHEMA_MISMATCH] column 'a' has type bool (oid 16), " +
        "which cannot be read as INT; use BOOLEAN. SQLSTATE: 42804")
    }
    assert(reader.read(tuple, ids(23L, 25L)).getInt(0) == 1)
  }

  test("there can be more kinds of tables than converters are kept") {
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
