package io.sparkpgoutput.rows.sql

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.types.StructType

import io.sparkpgoutput.decode.sql.MessageFunction
import io.sparkpgoutput.options.{OptionList, RowOptions}

// scalastyle:off
@ExpressionDescription(
  usage =
    """
    _FUNC_(tuple, schema[, type_ids[, options]]) - Reads the cells of a tuple as a struct as pgoutput_row
      does, but gives NULL for a value that does not fit its type.
  """,
  arguments =
    """
    Arguments:
      * tuple - a tuple of pgoutput_decode's row: its key, old or new.
      * schema - a constant: the columns and their types, as DDL.
      * type_ids - ARRAY<BIGINT>: the oids of the columns' types; NULL: not known.
      * options - a constant map: those of pgoutput_row, of which mode can only be PERMISSIVE.
  """,
  examples =
    """
    Examples:
      > SELECT _FUNC_(pgoutput_decode(X'49000040104E00027400000002343274000000036E2F61').new, 'id BIGINT, price DECIMAL(6,2)');
       {"id":42,"price":null}
  """,
  since = "0.1.0",
  group = "struct_funcs"
)
case class TryPgOutputRow(
    tuple: Expression,
    schema: Expression,
    typeIds: Expression,
    options: Expression,
    timeZoneId: Option[String] = None,
    analyzedRow: Option[StructType] = None,
    required: Option[Seq[Int]] = None,
    fromCells: Boolean = false
) extends RowFunction {

  def this(tuple: Expression, schema: Expression, typeIds: Expression, options: Expression) =
    this(tuple, schema, typeIds, options, None)
  def this(tuple: Expression, schema: Expression, typeIds: Expression) =
    this(tuple, schema, typeIds, MessageFunction.noOptions)
  def this(tuple: Expression, schema: Expression) = this(tuple, schema, RowFunction.noTypeIds)

  override def prettyName: String = "try_pgoutput_row"
  override def failFast: Boolean = false
  override def optionList: OptionList[RowOptions] = RowOptions.tryRow

  override def withRequired(positions: Seq[Int]): RowFunction = copy(required = Some(positions))
  override def ofCells(cells: Expression): RowFunction =
    copy(tuple = cells, fromCells = true)
  override protected def analyzed(timeZoneId: String, row: Option[StructType]): RowFunction =
    copy(timeZoneId = Option(timeZoneId), analyzedRow = row)
  override protected def withNewChildrenInternal(
      tuple: Expression,
      schema: Expression,
      typeIds: Expression,
      options: Expression
  ): Expression = copy(tuple, schema, typeIds, options)
}
