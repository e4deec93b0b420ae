package io.sparkpgoutput.rows.sql

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Literal
import org.apache.spark.sql.catalyst.expressions.objects.Invoke
import org.apache.spark.sql.types.StringType
import org.apache.spark.unsafe.types.UTF8String

import io.sparkpgoutput.options.RowOptions
import io.sparkpgoutput.protocol.RelationSchema
import io.sparkpgoutput.rows.TableSchema
import io.sparkpgoutput.sql.{FunctionDescription, SqlFunction}
import io.sparkpgoutput.types.TypeLookup

/** The function that returns the schema of a relation: `pgoutput_schema`. */
object SchemaFunction {

  val schema: SqlFunction = new SqlFunction(
    "pgoutput_schema",
    needed = 1,
    most = 2,
    FunctionDescription(
      usage =
        """(relation[, options]) - Returns the Spark schema of a table as DDL, for people to read and
        |  for pgoutput_row. The comment of each column names its type in PostgreSQL.""",
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
