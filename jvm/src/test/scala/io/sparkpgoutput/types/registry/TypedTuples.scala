package io.sparkpgoutput.types.registry

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.util.GenericArrayData
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

import org.scalacheck.Gen

import io.sparkpgoutput.protocol.Fields
import io.sparkpgoutput.protocol.Messages.Cell

/** Random tuples, and their schemas. Some values fit the schema, others do not, and some are missing. */
object TypedTuples {
  final case class Column(dataType: DataType, oid: Long)

  private val struct = StructType.fromDDL("a INT, b STRING, c DECIMAL(30,2), d ARRAY<INT>")

  private val columns: Gen[Column] = Gen.oneOf(
    Column(StringType, 25),
    Column(StringType, 0),
    Column(BinaryType, 17),
    Column(IntegerType, 23),
    Column(IntegerType, 0),
    Column(LongType, 20),
    Column(BooleanType, 16),
    Column(DoubleType, 701),
    Column(DecimalType(12, 2), 1700),
    Column(DecimalType(38, 2), 1700),
    Column(DateType, 1082),
    Column(TimestampType, 1184),
    Column(ArrayType(IntegerType), 1007),
    Column(ArrayType(ArrayType(IntegerType)), 1007),
    Column(ArrayType(StringType), 0),
    Column(ArrayType(DecimalType(30, 2)), 1231),
    Column(ArrayType(struct), 0),
    Column(struct, 0),
    Column(MapType(StringType, StringType), 0),
    Column(StringType, 99999),
    Column(BinaryType, 99999)
  )

  private val texts: Gen[String] = Gen.oneOf(
    "42",
    "-7",
    "1.25",
    "1e400",
    "t",
    "",
    "2024-02-29",
    "infinity",
    "2024-02-29 12:00:00.5+02",
    "\\x00ff",
    "{}",
    "{1,NULL,3}",
    "{1,2,x}",
    "{{1,2},{3,4}}",
    "{{1,2},{3,x}}",
    "{1.25,2.5,x}",
    "(42,text,1.25,\"{1,2}\")",
    "(42,text,1.25,\"{1,x}\")",
    "(42,text,1.255,)",
    "(42,text)",
    """{"(1,a,2.50,{1})","(2,,,)"}""",
    """{"(1,a,2.50,{1})","(2,,,{x})"}""",
    "\"a\"=>\"1\", \"b\"=>NULL",
    "\"a\"=>\"1\", \"b\"=>",
    "naïve €"
  )

  /** 42 as int4 and int8, true, 1.25 as numeric, {1,NULL}, an array that is cut off, or any bytes. */
  private val binaries: Gen[String] = Gen.frequency(
    3 -> Gen.oneOf(
      "0000002a",
      "01",
      "000000000000002a",
      "000200000000000200" + "0109c4",
      "0000000100000001000000170000000200000001" + "0000000400000001ffffffff",
      "0000000100000001000000170000000200000001" + "00000004000000010000000a"
    ),
    1 -> Gen.listOf(Gen.choose(Byte.MinValue, Byte.MaxValue)).map(b => Fields.hex(b.toArray))
  )

  val cell: Gen[Cell] = Gen.frequency(
    6 -> texts.map(text => ("t", text, null)),
    3 -> binaries.map(bytes => ("b", null, bytes)),
    1 -> Gen.oneOf("n", "u").map(kind => (kind, null, null))
  )

  /** Some have more than 64 columns, so that the bits for NULL take more than one word. */
  val shape: Gen[Seq[Column]] =
    Gen.frequency(9 -> Gen.choose(1, 8), 1 -> Gen.choose(60, 70)).flatMap(Gen.listOfN(_, columns))

  val tuples: Gen[(Seq[Column], Seq[Cell])] = for {
    columns <- shape
    cells <- Gen.listOfN(columns.size, cell)
  } yield (columns, cells)

  /** The positions of some of the columns, in order. */
  def some(columns: Seq[Column]): Gen[Seq[Int]] =
    Gen.someOf(columns.indices).map(_.sorted.toSeq)

  def schema(columns: Seq[Column]): StructType =
    StructType(columns.zipWithIndex.map { case (column, i) =>
      StructField(s"c$i", column.dataType)
    })

  /** The struct of a tuple, as a row of objects. */
  def row(cells: Seq[Cell]): InternalRow = {
    val (kinds, text, binary) = cells.unzip3
    InternalRow(
      UTF8String.fromString(kinds.mkString),
      new GenericArrayData(text.map(UTF8String.fromString).toArray[Any]),
      if (kinds.contains("b")) {
        new GenericArrayData(binary.map(b => if (b == null) null else Fields.unhex(b)).toArray[Any])
      } else null
    )
  }
}
