package io.sparkpgoutput.rows.sql

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.types.StructType

import io.sparkpgoutput.decode.sql.MessageFunction

// scalastyle:off
@ExpressionDescription(
  usage =
    """
    _FUNC_(tuple, schema[, type_ids[, options]]) - Reads the cells of a tuple, by position, as a struct
      of the schema. A value that does not fit its type is an error, or NULL with mode PERMISSIVE.
  """,
  arguments =
    """
    Arguments:
      * tuple - a tuple of pgoutput_decode's row: its key, old or new. NULL gives NULL. Cells of kind n
          and u give NULL; which of the two it was is still in tuple.kinds.
      * schema - a constant: the columns and their types, as DDL. Their number must be the tuple's.
          NOT NULL in it is ignored.
      * type_ids - ARRAY<BIGINT>: the oids of the columns' types, a constant or a column such as
          r.relation.columns.type_id of the decoded Relation message r. Binary cells need them. NULL, or
          NULL for a column: not known; its text is read by the type in the schema.
      * options - a constant map:
          mode - FAILFAST (the default): a value that does not fit is an error with the condition
            PGOUTPUT_INVALID_VALUE; PERMISSIVE: it gives NULL.
          infinity - what infinite dates, timestamps and intervals give: error (the default), null, or
            clamp for the first and last that there are (years 1 to 9999).
          timeZone - of timestamptz text without an offset, of a timestamp that is read as TIMESTAMP
            (the session's is the default), and of a binary timestamptz that is read as STRING (UTC is
            the default).
          dateStyle - the server's DateStyle when the messages were written, which must be ISO.
          moneyScale - the digits of money after the point; 2 is the default.
          encoding - the server's client_encoding, for the text inside binary cells; UTF8 is the default.
          type.<oid> - what a type is whose oid PostgreSQL does not fix, for binary cells: the name of a
            base type (int4, text), hstore, enum, composite, range:<name of the subtype>,
            multirange:<name of the subtype>, array:<any of these>.
  """,
  examples =
    """
    Examples:
      > SELECT _FUNC_(pgoutput_decode(X'49000040104E000374000000023432740000000431392E396E').new, 'id BIGINT, price DECIMAL(6,2), note STRING');
       {"id":42,"price":19.90,"note":null}
      > SELECT _FUNC_(pgoutput_decode(X'49000040104E00016200000004000003E9').new, 'id INT', array(23L));
       {"id":1001}
      > SELECT _FUNC_(pgoutput_decode(X'49000040104E00017400000008696E66696E697479').new, 'due DATE', NULL, map('infinity', 'clamp'));
       {"due":9999-12-31}
  """,
  note =
    """
    A value is converted where the query uses its column: one that does not fit is no error where it is
    not used.
  """,
  since = "0.1.0",
  group = "struct_funcs"
)
case class PgOutputRow(
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

  override def prettyName: String = "pgoutput_row"
  override lazy val failFast: Boolean = rowOptions.failFast

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
