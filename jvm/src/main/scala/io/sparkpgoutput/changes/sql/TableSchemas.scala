package io.sparkpgoutput.changes.sql

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.catalyst.expressions.{Expression, UnaryExpression}
import org.apache.spark.sql.catalyst.util.{ArrayData, GenericArrayData}
import org.apache.spark.sql.functions._
import org.apache.spark.sql.types._
import org.apache.spark.sql.{Column, DataFrame}
import org.apache.spark.unsafe.types.UTF8String

import io.sparkpgoutput.changes.rows.RelationDecoder
import io.sparkpgoutput.changes.{MessageColumns, TableName, TablePattern}
import io.sparkpgoutput.protocol.{PgTypeSchema, RelationSchema}
import io.sparkpgoutput.rows.{MergedSchema, TableSchema}
import io.sparkpgoutput.types.registry.TypeRegistry

/**
 * Finds the schemas of tables in their definitions.
 *
 * @param child an array of the structs that [[TableSchemas.definitions]] gives
 * @param named tables that are part of the result even if no message defines them
 */
case class TableSchemas(
    child: Expression,
    named: Seq[TableName],
    types: TypeRegistry,
    caseSensitive: Boolean
) extends UnaryExpression
    with CodegenFallback {
  import TableSchemas._

  override def dataType: DataType = ArrayType(schema, containsNull = false)
  override def prettyName: String = "table_schemas"

  private lazy val ArrayType(definition: StructType, _) = child.dataType

  override protected def nullSafeEval(array: Any): Any = {
    val elements = array.asInstanceOf[ArrayData]
    val all = Seq.tabulate(elements.numElements())(elements.getStruct(_, members.length))
    val (relations, typeMessages) = all.partition(!_.isNullAt(Relation))
    val typesOf =
      typeMessages.groupBy(source).view.mapValues(withDomains).toMap.withDefaultValue(types)
    val tables = relations.groupBy(row => TableName.of(relationOf(row)))
    val names = (tables.keySet ++ named).toSeq.sortBy(_.toString)
    new GenericArrayData(names.map { name =>
      val found = tables.getOrElse(name, Nil).sortBy(_.getLong(First))
      val schemas = found.map(row => TableSchema.of(relationOf(row), typesOf(source(row))))
      val last = schemas.zip(found).maxByOption(_._2.getLong(Last)).map(_._1)
      val merged = last.map(_ => MergedSchema.of(schemas, caseSensitive))
      InternalRow(
        UTF8String.fromString(name.toString),
        last.map(ddl).orNull,
        merged.map(ddl).orNull
      )
    })
  }

  private def source(row: InternalRow): Any = row.get(Source, definition(Source).dataType)

  /** The oid of a domain is not fixed, but a Type message names its base type. */
  private def withDomains(messages: Seq[InternalRow]): TypeRegistry =
    types.withDomains(messages.sortBy(_.getLong(Last)).flatMap { row =>
      RelationDecoder.baseType(row.getStruct(PgType, PgTypeSchema.schema.length))
    })

  override protected def withNewChildInternal(child: Expression): Expression =
    copy(child)
}

object TableSchemas {

  /** One row for each table. */
  val schema: StructType = new StructType()
    .add("_table", StringType, nullable = false)
    .add("schema", StringType)
    .add("merged_schema", StringType)

  // The members of a definition: a Relation message's relation or a Type message's pg_type, the
  // source of its messages, and the positions of the first and the last of them.
  private val Source = 0
  private val Relation = 1
  private val PgType = 2
  private val First = 3
  private val Last = 4
  private val members = Seq("source", "relation", "pg_type", "first", "last")

  /**
   * Collects the definitions of tables and types in one array, each definition once.
   *
   * It ignores messages that are malformed or have no position, because `pgoutput_changes` reports
   * them.
   *
   * @param messages
   *   the messages and, if there are any, earlier messages, with all columns of [[MessageColumns]]
   */
  def definitions(messages: Seq[DataFrame], options: ChangesOptions): DataFrame = {
    val Seq(position, message, source) = MessageColumns.names.map(col)
    val encoding = map(lit("encoding"), lit(options.row.conversion.encoding.toString))
    messages
      .reduce(_ union _)
      .where(position.isNotNull && substring(message, 1, 1).isin("R".getBytes, "Y".getBytes))
      .withColumn("d", call_function("try_pgoutput_decode", message, lit(null), encoding))
      .where(col("d").isNotNull)
      .select(position, source, col("d.relation"), col("d.pg_type"))
      .where(options.tables.fold(lit(true))(_.map(isTable).fold(col("pg_type").isNotNull)(_ || _)))
      .groupBy(members.take(3).map(col): _*)
      .agg(min(position).as(members(First)), max(position).as(members(Last)))
      .agg(collect_list(struct(members.map(col): _*)))
  }

  /** Returns whether a relation is one of a pattern's tables. */
  private def isTable(pattern: TablePattern): Column = {
    val sent = if (pattern.namespace == "pg_catalog") "" else pattern.namespace
    val isInNamespace = col("relation.namespace") === sent
    pattern.name.fold(isInNamespace)(name => isInNamespace && col("relation.name") === name)
  }

  private def relationOf(definition: InternalRow): InternalRow =
    definition.getStruct(Relation, RelationSchema.schema.length)

  private def ddl(schema: StructType): UTF8String = UTF8String.fromString(TableSchema.ddl(schema))
}
