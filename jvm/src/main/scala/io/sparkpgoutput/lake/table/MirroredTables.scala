package io.sparkpgoutput.lake.table

import scala.util.control.NonFatal

import org.apache.spark.sql.types._

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
   * Checks that each name of a type is one of a type of the server.
   *
   * @param pgTypes Spark types as DDL, by the names of PostgreSQL's types
   */
  def checkPgTypes(connection: ServerConnection, pgTypes: Map[String, String]): Unit = {
    val known = oids(connection, pgTypes)
    pgTypes.keys.find(name => !known.values.exists(_._1 == s"pgTypes.$name")).foreach(name =>
      throw LakeError.option(
        s"The option pgTypes.$name names no type of the server. Write it without a modifier, and a type " +
          "of your own with its schema, for example numeric, timestamptz[] or public.price."
      )
    )
  }

  /**
   * Returns the name of the option and the DDL for the oids of types. The server knows all names of a type,
   * such as `int`, `int4` and `integer`.
   */
  private def oids(
      connection: ServerConnection,
      pgTypes: Map[String, String]
  ): Map[Long, (String, String)] = pgTypes.toSeq.flatMap { case (name, ddl) =>
    // A modifier would be ignored.
    val found =
      if (name.contains('(')) None
      else connection.query("SELECT to_regtype(?)::oid::bigint AS oid", name)(row =>
        Option(row.getObject("oid")).map(_ => row.getLong("oid"))
      ).head
    found.map(_ -> (s"pgTypes.$name" -> ddl))
  }.toMap

  /**
   * Returns the tables with the Spark types of their columns: those that PostgreSQL's types have by
   * default, unless the user gives others. For a table that cannot have such types, returns the reason.
   *
   * @param targets the name of each table in the target, by its oid
   * @param types types as DDL, by columns
   * @param pgTypes types as DDL, by PostgreSQL's types. `types` wins.
   */
  def each(
      connection: ServerConnection,
      sources: Seq[SourceTable],
      targets: Map[Long, String],
      types: Map[String, String],
      pgTypes: Map[String, String]
  ): Seq[Either[LakeException, MirroredTable]] = {
    val columnTypes = sources.flatMap(_.columns).map(_.typeId).distinct
    val catalog = CatalogTypes.read(connection, columnTypes, TypeRegistry())
    val byOid = oids(connection, pgTypes)
    def wanted(source: SourceTable, column: SourceColumn) =
      names(source, column).find(types.contains).map(name => s"types.$name" -> types(name))
        .orElse(byOid.get(column.typeId).filter(_ => column.modifier < 0))
    sources.map { source =>
      try {
        val fields = source.columns.map(column =>
          field(source, column, catalog, wanted(source, column))
        )
        val chosen = source.columns.filter(wanted(source, _).nonEmpty).map(_.name).toSet
        val target = targets(source.oid)
        Right(MirroredTable(source, target, StructType(fields), catalog.registry, chosen = chosen))
      } catch { case error: LakeException => Left(error) }
    }
  }

  /** The names under which the user can give a type for a column, the strongest one first. */
  private def names(source: SourceTable, column: SourceColumn) =
    Seq(s"${source.name}.${column.name}", column.name)

  /** @param chosen the name of an option and the DDL of the type that it gives */
  private def field(
      source: SourceTable,
      column: SourceColumn,
      catalog: CatalogTypes,
      chosen: Option[(String, String)]
  ): StructField = {
    val modifier = catalog.modifier(column.typeId, column.modifier)
    val pgType = catalog.byOid(column.typeId)
    val dataType = chosen.fold(pgType.sparkType(modifier)) { case (option, ddl) =>
      val wanted = parse(option, ddl)
      if (pgType.to(wanted, ConversionOptions()).isEmpty)
        throw notReadable(source, column, pgType, modifier, wanted)
      if (source.key.contains(column.name) && !isExact(pgType, modifier, wanted))
        throw inexactKey(source, column, pgType, modifier, wanted, option)
      wanted
    }
    StructField(column.name, dataType).withComment(catalog.describe(column.typeId, modifier))
  }

  /**
   * Returns whether different values stay different as values of a Spark type. Conversions to other types
   * than these refuse what they would change.
   */
  private def isExact(pgType: PgType, modifier: Int, wanted: DataType): Boolean =
    wanted == pgType.sparkType(modifier) || parts(wanted).forall {
      case FloatType                   => pgType.name == "int2"
      case DoubleType                  => Set("int2", "int4", "float4")(pgType.name)
      case StringType | VarcharType(_) => true
      case _: StringType               => false // blanks at the end or a collation make texts equal
      case _                           => true
    }

  private def parts(dataType: DataType): Seq[DataType] = dataType match {
    case ArrayType(element, _) => parts(element)
    case StructType(fields)    => fields.toSeq.flatMap(field => parts(field.dataType))
    case other                 => Seq(other)
  }

  private def parse(option: String, ddl: String): DataType =
    try new StructType().add("type", DataType.fromDDL(ddl)).toNullable.head.dataType
    catch {
      case NonFatal(_) =>
        throw LakeError.option(
          s"The option $option has '$ddl', which is no type of Spark. Write it as in CREATE TABLE, " +
            "for example DECIMAL(20,4)."
        )
    }

  private def noColumn(name: String): LakeException = LakeError.option(
    s"The option types.$name names no column that the publications send. Write the name of a column, or " +
      "schema.table.column."
  )

  private def inexactKey(
      source: SourceTable,
      column: SourceColumn,
      pgType: PgType,
      modifier: Int,
      wanted: DataType,
      option: String
  ): LakeException = LakeError.option(
    s"The option $option gives ${wanted.sql} to the column '${column.name}' of ${source.name}, which is in " +
      s"the key. Different values of the type ${pgType.describe(modifier)} can be the same as " +
      s"${wanted.sql}, so rows would be lost. Set types.${source.name}.${column.name} to " +
      s"${pgType.sparkType(modifier).sql} or STRING."
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
