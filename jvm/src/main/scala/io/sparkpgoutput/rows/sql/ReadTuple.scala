package io.sparkpgoutput.rows.sql

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.ExprCode
import org.apache.spark.sql.catalyst.util.ArrayData
import org.apache.spark.sql.types.{BinaryType, DataType, StructType}

import io.sparkpgoutput.decode.sql._
import io.sparkpgoutput.decode.{FieldSelection, MessageDecoder}
import io.sparkpgoutput.options.DecodeOptions
import io.sparkpgoutput.protocol.{EncodedTuple, MessageSchema}
import io.sparkpgoutput.rows.{RowConverter, RowSchema, TupleReader}

/** An expression that gives a typed row of a tuple, with all columns or with those that are used. */
trait TypedRow extends Expression {
  def rowSchema: RowSchema

  /** The row with the columns at these positions of the schema only. */
  def withColumns(positions: Seq[Int]): TypedRow

  final def rowType: StructType = rowSchema.rowType
  final override def dataType: DataType = rowType

  final override def prettyName: String =
    if (rowSchema.failFast) "pgoutput_row" else "try_pgoutput_row"

  final protected def columnNames: String = rowType.fieldNames.mkString("[", ", ", "]")
}

/**
 * The typed row of a tuple: evaluates `pgoutput_row` and `try_pgoutput_row`. The result is NULL for a
 * NULL tuple only.
 *
 * @param tuple
 *   a tuple of a decode's row; the optimizer may replace it by the tuple's cells as they are in the
 *   message, which are BINARY
 * @param typeIds the oids of the columns' types
 */
case class ReadTuple(tuple: Expression, typeIds: Expression, rowSchema: RowSchema)
    extends ReaderExpression[TupleReader](classOf[TupleReader])
    with TypedRow {

  override def left: Expression = tuple
  override def right: Expression = typeIds

  override def withColumns(positions: Seq[Int]): ReadTuple =
    copy(rowSchema = rowSchema.copy(required = positions))

  /** The oids that are the same in each row; None if a column has them. */
  def constantTypeIds: Option[Seq[Long]] =
    Option.when(typeIds.foldable)(rowSchema.oids(typeIds.eval().asInstanceOf[ArrayData]).toSeq)

  override def newReader(): TupleReader = new TupleReader(rowSchema)

  override def eval(row: InternalRow): Any = {
    def ids = typeIds.eval(row).asInstanceOf[ArrayData]
    tuple.eval(row) match {
      case decoded: InternalRow => reader.read(decoded, ids).copy()
      case cells: Array[Byte]   => reader.read(cells, ids).copy()
      case _                    => null
    }
  }

  /** Generated code passes on the reader's own row, as `DecodeMessage` does. */
  override protected def genCall(reader: String, cells: ExprCode, ids: ExprCode): String = {
    val tupleClass = if (tuple.dataType == BinaryType) "byte[]" else "InternalRow"
    val idsOrNull = s"${ids.isNull} ? null : (ArrayData) ${ids.value}"
    s"$reader.read(($tupleClass) ${cells.value}, $idsOrNull)"
  }

  override def toString: String =
    super.toString + (if (rowType == rowSchema.schema) "" else columnNames)

  override protected def arguments(show: Expression => String): Seq[String] =
    show(tuple) +: rowSchema.schema.toDDL +: givenRight.map(show).toSeq

  override protected def withNewChildrenInternal(
      tuple: Expression,
      typeIds: Expression
  ): ReadTuple = copy(tuple, typeIds)
}

/**
 * The typed row of a message's tuple. The optimizer puts it in the place of a [[ReadTuple]] of a
 * [[DecodeMessage]], of which nothing else is used: it reads the tuple from the message, and makes no arrays
 * of its cells.
 *
 * @param field the tuple's ordinal in [[MessageSchema]]
 */
case class DecodeTuple(
    data: Expression,
    inStream: Expression,
    options: DecodeOptions,
    field: Int,
    typeIds: Seq[Long],
    rowSchema: RowSchema
) extends MessageEvaluator
    with TypedRow {

  override def withColumns(positions: Seq[Int]): DecodeTuple =
    copy(rowSchema = rowSchema.copy(required = positions))

  override def newReader(): MessageFunction = {
    val decoder = new MessageDecoder(options.encoding, FieldSelection.Unused)
    val cells = new EncodedTuple
    // The types may not fit the schema, which is an error only if there is a tuple.
    lazy val converter = new RowConverter(rowSchema, typeIds)
    (message, context) => {
      val decoded = decoder.decode(message, context, options.failFast)
      if (decoded == null || !decoder.cells(field, cells)) null else converter.row(cells)
    }
  }

  override protected def arguments(show: Expression => String): Seq[String] = {
    val decode = DecodeMessage(data, inStream, options)
    Seq(s"${show(decode)}.${MessageSchema.schema(field).name}")
  }

  /** For example `pgoutput_row(pgoutput_decode(data#1).new)[id, amount]`. */
  override def toString: String = super.toString + columnNames

  override protected def withNewChildrenInternal(
      data: Expression,
      inStream: Expression
  ): DecodeTuple = copy(data, inStream)
}
