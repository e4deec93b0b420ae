package io.sparkpgoutput.lake.table

import scala.util.control.NonFatal

import org.apache.spark.sql.types.{DataType, StructField, StructType}

import io.sparkpgoutput.lake.{LakeError, LakeException}
import io.sparkpgoutput.source.connection.ServerConnection
import io.sparkpgoutput.source.table.CatalogTypes
import io.sparkpgoutput.types.registry.TypeRegistry
import io.sparkpgoutput.types.{ConversionOptions, PgType}

/** Finds the columns that tables have in the target. */
object MirroredTables {

  /**
   * Checks that each type that the user gives is one of a published column.
   *
   * @param types
   *   types as DDL, such as `DECIMAL(20,4)`, by `column` or by `schema.table.column`. The latter wins.
   */
  def checkTypes(sources: Seq[SourceTable], types: Map[String, String]): Unit = {
    val columns = sources.flatMap(source => source.columns.map(source -> _))
    val unused = types.keySet -- columns.flatMap { case (source, column) => names(source, column) }
    unused.headOption.foreach(name => throw noColumn(name))
  }

  /**
   * Returns the tables with the Spark types of their columns: those that PostgreSQL's types have by
   * default, unless the user gives others. For a table that cannot have such types, returns the reason.
   *
   * @param targets the name of each table in the target, by its oid
   */
  def each(
      connection: ServerConnection,
      sources: Seq[SourceTable],
      targets: Map[Long, String],
      types: Map[String, String]
  ): Seq[Either[LakeException, MirroredTable]] = {
    val oids = sources.flatMap(_.columns).map(_.typeId).distinct
    val catalog = CatalogTypes.read(connection, oids, TypeRegistry())
    sources.map { source =>
      try {
        val fields = source.columns.map(column => field(source, column, catalog, types))
        Right(MirroredTable(source, targets(source.oid), StructType(fields), catalog.registry))
      } catch { case error: LakeException => Left(error) }
    }
  }

  /** The names under which the user can give a type for a column, the strongest one first. */
  private def names(source: SourceTable, column: SourceColumn) =
    Seq(s"${source.name}.${column.name}", column.name)

  private def field(
      source: SourceTable,
      column: SourceColumn,
      catalog: CatalogTypes,
      types: Map[String, String]
  ): StructField = {
    val modifier = catalog.modifier(column.typeId, column.modifier)
    val pgType = catalog.byOid(column.typeId)
    val name = names(source, column).find(types.contains)
    val dataType = name.fold(pgType.sparkType(modifier)) { name =>
      val wanted = parse(name, types(name))
      if (pgType.to(wanted, ConversionOptions()).isEmpty)
        throw notReadable(source, column, pgType, modifier, wanted)
      wanted
    }
    StructField(column.name, dataType).withComment(catalog.describe(column.typeId, modifier))
  }

  private def parse(name: String, ddl: String): DataType =
    try new StructType().add("type", DataType.fromDDL(ddl)).toNullable.head.dataType
    catch {
      case NonFatal(_) =>
        throw LakeError.option(
          s"The option types.$name has '$ddl', which is no type of Spark. Write it as in CREATE TABLE, " +
            "for example DECIMAL(20,4)."
        )
    }

  private def noColumn(name: String): LakeException = LakeError.option(
    s"The option types.$name names no column that the publications send. Write the name of a column, or " +
      "schema.table.column."
  )

  private def notReadable(
      source: SourceTable,
      column: SourceColumn,
      pgType: PgType,
      modifier: Int,
      wanted: DataType
  ): LakeException = LakeError.option(
    s"The column '${column.name}' of ${source.name} has the type ${pgType.describe(modifier)}, which " +
      s"cannot be read as ${wanted.sql}. Use ${pgType.sparkType(modifier).sql} or STRING."
  )
}
