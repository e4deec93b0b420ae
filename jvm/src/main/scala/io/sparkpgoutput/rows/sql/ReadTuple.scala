package io.sparkpgoutput.rows.sql

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.Block._
import org.apache.spark.sql.catalyst.expressions.codegen._
import org.apache.spark.sql.catalyst.util.ArrayData
import org.apache.spark.sql.types.BinaryType

import io.sparkpgoutput.rows.{RowSchema, TupleReader}

/**
 * The typed row of a tuple: evaluates `pgoutput_row` and `try_pgoutput_row`. The result is NULL for a
 * NULL tuple only.
 *
 * @param tuple
 *   a tuple of a decode's row; the optimizer may replace it by the tuple's cells as they stand in the
 *   message, which are BINARY
 * @param typeIds the oids of the columns' types
 */
case class ReadTuple(tuple: Expression, typeIds: Expression, rowSchema: RowSchema)
    extends BinaryExpression
    with TypedRow {

  override def left: Expression = tuple
  override def right: Expression = typeIds
  override def nullable: Boolean = true

  override def withColumns(positions: Seq[Int]): ReadTuple =
    copy(rowSchema = rowSchema.copy(required = positions))

  /** See `MessageEvaluator.expensive`. */
  def expensive: Boolean = true

  /** The oids that are the same in each row; None if a column has them. */
  def constantTypeIds: Option[Seq[Long]] =
    Option.when(typeIds.foldable)(ReadTuple.oids(typeIds.eval(), rowSchema))

  /** A reader for one task; generated code calls it. */
  def newReader(): TupleReader = new TupleReader(rowSchema)

  /** See `MessageEvaluator.decoders`. */
  @transient private lazy val readers: ThreadLocal[TupleReader] =
    ThreadLocal.withInitial(() => newReader())

  override def eval(row: InternalRow): Any = {
    def ids = typeIds.eval(row).asInstanceOf[ArrayData]
    tuple.eval(row) match {
      case decoded: InternalRow => readers.get.read(decoded, ids).copy()
      case cells: Array[Byte]   => readers.get.read(cells, ids).copy()
      case _                    => null
    }
  }

  /** Generated code hands on the reader's own row, as `DecodeMessage` does. */
  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val evaluator = ctx.addReferenceObj("evaluator", this, classOf[ReadTuple].getName)
    val reader = ctx.addMutableState(
      classOf[TupleReader].getName,
      "tupleReader",
      name => s"$name = $evaluator.newReader();"
    )
    val tupleClass = if (tuple.dataType == BinaryType) "byte[]" else "InternalRow"
    val cells = tuple.genCode(ctx)
    val ids = typeIds.genCode(ctx)
    val idsOrNull = s"${ids.isNull} ? null : (ArrayData) ${ids.value}"
    ev.copy(code = code"""
      ${cells.code}
      InternalRow ${ev.value} = null;
      if (!${cells.isNull}) {
        ${ids.code}
        ${ev.value} = $reader.read(($tupleClass) ${cells.value}, $idsOrNull);
      }
      boolean ${ev.isNull} = ${ev.value} == null;""")
  }

  override def sql: String = call(_.sql)
  override def toString: String =
    call(_.toString) + (if (rowType == rowSchema.schema) "" else columnNames)

  private def call(show: Expression => String): String = {
    val known = Seq(typeIds).filter {
      case Literal(null, _) => false
      case _                => true
    }
    s"$prettyName(${(show(tuple) +: rowSchema.schema.toDDL +: known.map(show)).mkString(", ")})"
  }

  override protected def withNewChildrenInternal(
      tuple: Expression,
      typeIds: Expression
  ): ReadTuple = copy(tuple, typeIds)
}

object ReadTuple {

  /** The oids in the value of constant type_ids, 0 for each that is not known. */
  def oids(typeIds: Any, rowSchema: RowSchema): Seq[Long] = typeIds match {
    case ids: ArrayData => TupleReader.oids(ids).toSeq
    case _              => rowSchema.unknown
  }
}
