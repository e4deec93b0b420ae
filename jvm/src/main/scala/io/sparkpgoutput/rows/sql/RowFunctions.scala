package io.sparkpgoutput.rows.sql

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.objects.Invoke
import org.apache.spark.sql.catalyst.expressions.{Cast, Expression, Literal}
import org.apache.spark.sql.catalyst.util.{ArrayData, DateTimeUtils}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

import io.sparkpgoutput.options.{OptionList, RowOptions}
import io.sparkpgoutput.protocol.{RelationSchema, TupleSchema}
import io.sparkpgoutput.rows.{RowSchema, TableSchema}
import io.sparkpgoutput.sql._
import io.sparkpgoutput.types.TypeLookup

/** The functions that read tuples as typed rows: `pgoutput_row` and `try_pgoutput_row`. */
object RowFunctions {

  private val Arguments = Seq(
    """tuple - a tuple of pgoutput_decode's row: its key, old or new. NULL gives NULL. Cells of the kinds
      |      n and u give NULL; tuple.kinds still says which of the two it was.""",
    """schema - a constant with the columns and their types as DDL. The tuple must have as many
      |      columns. NOT NULL is ignored.""",
    """type_ids - ARRAY<BIGINT>: the oids of the columns' types, a constant or a column such as
      |      r.relation.columns.type_id of the decoded Relation message r. Binary cells need them. If the
      |      array or an element is NULL, the type is not known: text is read by the type in the schema."""
  )

  private val Notes =
    """The value of a column depends neither on other columns nor on the optimizer. Spark may not read
      |a column that the query does not use. If a value in such a column does not fit, this may or may
      |not be an error. To check every column, select the whole row, or count the rows for which
      |pgoutput_row(…) IS NULL. try_pgoutput_row never fails for a value."""

  val row: SqlFunction = function(
    "pgoutput_row",
    RowOptions.row,
    usage =
      """(tuple, schema[, type_ids[, options]]) - Reads the cells of a tuple, by position, as a
      |  struct of the schema. A value that does not fit its type is an error with the condition
      |  PGOUTPUT_INVALID_VALUE, or NULL with the mode PERMISSIVE.""",
    examples = Seq(
      "_FUNC_(pgoutput_decode(X'49000040104E000374000000023432740000000431392E396E').new, 'id BIGINT, price DECIMAL(6,2), note STRING')" ->
        Seq("{\"id\":42,\"price\":19.90,\"note\":null}"),
      "_FUNC_(pgoutput_decode(X'49000040104E00016200000004000003E9').new, 'id INT', array(23))" ->
        Seq("{\"id\":1001}"),
      "_FUNC_(pgoutput_decode(X'49000040104E00017400000008696E66696E697479').new, 'due DATE', NULL, map('infinity', 'clamp'))" ->
        Seq("{\"due\":9999-12-31}")
    )
  )

  val tryRow: SqlFunction = function(
    "try_pgoutput_row",
    RowOptions.tryRow,
    usage = """(tuple, schema[, type_ids[, options]]) - Reads the cells of a tuple as a struct as
      |  pgoutput_row does, but returns NULL for a value that does not fit its type.""",
    examples = Seq(
      "_FUNC_(pgoutput_decode(X'49000040104E00027400000002343274000000036E2F61').new, 'id BIGINT, price DECIMAL(6,2)')" ->
        Seq("{\"id\":42,\"price\":null}")
    )
  )

  val all: Seq[SqlFunction] = Seq(row, tryRow)

  private def function(
      name: String,
      options: OptionList[RowOptions],
      usage: String,
      examples: Seq[(String, Seq[String])]
  ): SqlFunction = {
    val arguments = Arguments :+ s"options - a constant map:\n${options.describe}"
    val description = FunctionDescription(usage, arguments, examples, Notes, "struct_funcs")
    new SqlFunction(name, needed = 2, description)(read(_, options))
  }

  /**
   * Returns the expression for a call. It reads the settings of the session now, during the
   * analysis, because they may change later, and because a view has its own settings.
   */
  private def read(call: CallArguments, list: OptionList[RowOptions]): ReadTuple = {
    val tuple =
      call.struct(TupleSchema.schema, "a tuple, such as d.new of a row d of pgoutput_decode")
    val columns = SchemaArgument.parse(call.arguments(1), "the argument 'schema'").toNullable
    val ids = bigints(call, call.argument(2, ArrayType(LongType)))
    val options = call.options(3, list)
    val zone = DateTimeUtils.getZoneId(SQLConf.get.sessionLocalTimeZone)
    val conversion = options.conversionIn(zone)
    val rowSchema =
      RowSchema(columns, columns.indices, conversion, options.types, options.failFast)
    for {
      constant <- ConstantArgument.value(ids)
      oids = rowSchema.oids(constant.asInstanceOf[ArrayData])
      problem <- rowSchema.conversions(oids.toSeq).left.toOption
    } throw call.refused(problem)
    ReadTuple(tuple, ids, rowSchema)
  }

  private def bigints(call: CallArguments, typeIds: Expression): Expression =
    typeIds.dataType match {
      case ArrayType(LongType | NullType, _) => typeIds
      case ArrayType(ByteType | ShortType | IntegerType, containsNull) =>
        Cast(typeIds, ArrayType(LongType, containsNull))
      case other =>
        throw call.refused(
          "The type_ids must be an ARRAY<BIGINT> with the oid of each column's type, such as " +
            s"r.relation.columns.type_id, and not ${other.sql}"
        )
    }
}

/** The function that returns the schema of a relation: `pgoutput_schema`. */
object SchemaFunction {

  val schema: SqlFunction = new SqlFunction(
    "pgoutput_schema",
    needed = 1,
    FunctionDescription(
      usage =
        """(relation[, options]) - Returns the Spark schema of a table as human-readable DDL, which
        |  pgoutput_row takes. The comment of each column names its type in PostgreSQL.""",
      arguments = Seq(
        """relation - the field relation of the struct that pgoutput_decode returns for a Relation
          |      message. NULL gives NULL.""",
        """options - a constant map with options of pgoutput_row. Only type.<oid> matters here: it
          |      names the type behind an oid that PostgreSQL does not fix."""
      ),
      examples = Seq(
        "_FUNC_(pgoutput_decode(X'520000404A7075626C6963006F7264657273006400020169640000000014FFFFFFFF00616D6F756E7400000006A4000C0006').relation)" ->
          Seq("id BIGINT COMMENT 'int8', amount DECIMAL(12,2) COMMENT 'numeric(12,2)'")
      ),
      group = "struct_funcs"
    )
  )(call => {
    val ddl = new RelationDdl(call.options(1, RowOptions.row).types)
    val relation =
      call.struct(RelationSchema.schema, "the field relation of pgoutput_decode's struct")
    Invoke(Literal.fromObject(ddl), "of", StringType, Seq(relation))
  })

  /** Writes the DDL of relations. */
  final class RelationDdl(types: TypeLookup) extends Serializable {

    /** Returns null if the relation lacks columns. */
    def of(relation: InternalRow): UTF8String =
      if (TableSchema.isComplete(relation)) {
        UTF8String.fromString(TableSchema.ddl(TableSchema.of(relation, types)))
      } else null
  }
}
