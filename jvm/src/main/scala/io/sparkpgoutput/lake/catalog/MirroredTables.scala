package io.sparkpgoutput.lake.catalog

import java.util.Locale

import scala.util.control.NonFatal

import org.apache.spark.sql.catalyst.util.QuotingUtils
import org.apache.spark.sql.connector.expressions.{Literal, NamedReference, Transform}
import org.apache.spark.sql.pgoutput.TablePlans
import org.apache.spark.sql.types._

import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.changes.rows.ChangeSchema
import io.sparkpgoutput.errors.LakeException
import io.sparkpgoutput.source.connection.{ServerConnection, SqlState}
import io.sparkpgoutput.source.table.CatalogTypes
import io.sparkpgoutput.types.registry.TypeRegistry
import io.sparkpgoutput.types.{ConversionOptions, PgType}

/**
 * A table of the server, and the table of the target that is kept equal to it.
 *
 * @param target the name of the table in the target
 * @param schema
 *   the columns of the target that come from the server, with the names and in the order of the source
 * @param types the types of columns whose oids PostgreSQL does not fix
 * @param mode what the target has of the table
 * @param shape how the rows are laid out in files
 */
final case class MirroredTable(
    source: SourceTable,
    target: String,
    schema: StructType,
    types: TypeRegistry,
    mode: TableMode = TableMode.Mirror,
    shape: TableShape = TableShape.none
) {

  /** Whether the target has the changes themselves. */
  def isHistory: Boolean = mode.isInstanceOf[TableMode.History]

  /** Whether the target keeps deleted rows, which are marked. */
  def marks: Boolean = mode.parts.head == TableMode.Marking

  /** Whether the target has all versions of each row. */
  def hasVersions: Boolean = mode == TableMode.Versions

  /** The column that is NULL in the rows that the server still has. None if the mode has no such column. */
  def endLsn: Option[String] = mode.parts.head match {
    case TableMode.Marking  => Some(TableMode.Marking.DeletedLsn)
    case TableMode.Versions => Some(TableMode.Versions.ToLsn)
    case _                  => None
  }

  /** All columns that the job gives to the table of the target. */
  def targetSchema: StructType = StructType(schema ++ mode.columns)

  /** The columns by which rows of the target are found. Rows of a history are only added. */
  def targetKey: Seq[String] = if (isHistory) Nil else source.key

  /** This definition for each table of the target that the job writes for the table: a mirror, a history, or both. */
  def parts: Seq[MirroredTable] = mode.parts.zip(mode.targets(target)).map { case (part, name) =>
    copy(mode = part, target = name)
  }

  /** The names in the target that belong to the table. It has none if another table has got its name. */
  def targets: Seq[String] = if (target.isEmpty) Nil else mode.targets(target)

  /** These names as keys. */
  def keys: Seq[String] = targets.map(MirroredTable.folded)
}

object MirroredTable {

  /** The name of a table of the target as a key. Many catalogs take names that differ only in case for one name. */
  def folded(target: String): String = target.toLowerCase(Locale.ROOT)

  /** A table that is not mirrored. */
  def none(source: SourceTable): MirroredTable =
    MirroredTable(source, source.name.name, new StructType, TypeRegistry())
}

/** The mode of a table: it says what the table of the target contains. */
sealed abstract class TableMode(val name: String) extends Serializable {

  /** The columns of the target that follow those of the table. */
  def columns: StructType

  /** The mode of each table of the target that has the table. */
  def parts: Seq[TableMode] = Seq(this)

  /** Returns the names of these tables. The first one has the given name. */
  def targets(name: String): Seq[String] = Seq(name)
}

object TableMode {

  /** The rows that the server's table has. */
  case object Mirror extends TableMode("mirror") {
    override def columns: StructType = new StructType
  }

  /**
   * The rows that the server's table has, and those that it has had, which are marked as deleted. Both columns are
   * NULL in a row that the server has. The rows must have a key.
   */
  case object Marking extends TableMode(Mirror.name) {

    /** The time of the commit that deleted the row. */
    val DeletedAt = "_deleted_at"

    /** The LSN of this commit. */
    val DeletedLsn = "_deleted_lsn"

    override val columns: StructType =
      new StructType().add(DeletedAt, TimestampType).add(DeletedLsn, LongType)
  }

  /**
   * All versions of each row since the first copy. A version begins with the transaction that gave the row its
   * values, and ends with the next one that changed the row. `_to_lsn` and `_to_timestamp` are NULL in the version
   * that is current. The rows must have a key.
   */
  case object Versions extends TableMode("versions") {
    val FromLsn = "_from_lsn"
    val FromTimestamp = "_from_timestamp"
    val ToLsn = "_to_lsn"
    val ToTimestamp = "_to_timestamp"
    val IsCurrent = "_is_current"

    override val columns: StructType = new StructType()
      .add(FromLsn, LongType)
      .add(FromTimestamp, TimestampType)
      .add(ToLsn, LongType)
      .add(ToTimestamp, TimestampType)
      .add(IsCurrent, BooleanType)
  }

  /**
   * All changes of the table since the first copy, and the rows of each copy.
   *
   * @param prefix the text with which the names of the columns of a change begin
   */
  final case class History(prefix: String) extends TableMode(History.name) {
    override def columns: StructType =
      StructType(History.fields.map(field => field.copy(name = prefix + field.name.drop(1))))
  }

  object History {
    val name = "history"

    /** The value of `_change_type` for a row of a copy. */
    val Snapshot = "snapshot"

    val DefaultPrefix = "_"

    /** The columns of a change, with the names of [[ChangeSchema]], in the order of a history. */
    val fields: StructType = {
      import ChangeSchema._
      StructType(
        Seq(CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP, XID, ORIGIN, ORDINAL, KEYS, MISSING)
          .map(ordinal => nullable(schema(ordinal)))
      )
    }

    // The formats do not say whether the elements of an array can be NULL.
    private def nullable(field: StructField) = field.dataType match {
      case _: ArrayType => field.copy(dataType = ArrayType(StringType))
      case _            => field
    }
  }

  /**
   * A mirror and a history: two tables of the target, which get the same changes in one commit each.
   *
   * @param mirror the mode of the mirror
   */
  final case class Both(mirror: TableMode, history: History) extends TableMode(Both.name) {

    /** The columns of both tables. */
    override def columns: StructType = StructType(mirror.columns ++ history.columns)
    override def parts: Seq[TableMode] = Seq(mirror, history)
    override def targets(name: String): Seq[String] = Seq(name, s"${name}_history")
  }

  object Both { val name = "both" }

  val names: Seq[String] = all(History.DefaultPrefix).map(_.name)

  /** Returns a mode by its name; None if there is no such mode. */
  def of(name: String, prefix: String): Option[TableMode] = all(prefix).find(_.name == name)

  private def all(prefix: String) =
    Seq(Mirror, Versions, History(prefix), Both(Mirror, History(prefix)))
}

/** The values of the option `onDelete`: what happens in the target to a row that the server deletes. */
object OnDeletes {
  val Delete = "delete"
  val Mark = "mark"
  val names: Seq[String] = Seq(Delete, Mark)
}

/**
 * How the rows of a table of the target are laid out in files, by the options `partition` and `cluster`.
 *
 * @param partition the fields that have the same value in all rows of a file
 * @param cluster the columns by which rows are near each other
 */
final case class TableShape(partition: Seq[PartitionField] = Nil, cluster: Seq[String] = Nil) {
  def isNone: Boolean = partition.isEmpty && cluster.isEmpty

  /** Returns the same shape with other names of columns. */
  def renamed(name: String => String): TableShape = TableShape(
    partition.map(field => field.copy(column = name(field.column))),
    cluster.map(name)
  )

  override def toString: String = Seq(
    "partition" -> partition.map(_.sql),
    "cluster" -> cluster.map(QuotingUtils.quoteIfNeeded)
  ).collect { case (option, fields) if fields.nonEmpty => s"$option ${fields.mkString(", ")}" }
    .mkString("; ")
}

object TableShape {
  val none: TableShape = TableShape()

  /** Reads a list such as `days(created_at), bucket(16, id)`. None if it is not one. */
  def partition(text: String): Option[Seq[PartitionField]] = for {
    transforms <- TablePlans.partitioning(text)
    fields = transforms.flatMap(PartitionField.of(_))
    if fields.length == transforms.length
  } yield fields

  /** Reads a list of columns. None if it is not one. */
  def columns(text: String): Option[Seq[String]] =
    partition(text).filter(_.forall(_.isColumn)).map(_.map(_.column))
}

/**
 * A field of a partitioning.
 *
 * @param transform `identity`, or a function such as `days` or `bucket`
 * @param number the number of buckets, or the width of a truncation
 */
final case class PartitionField(column: String, transform: String, number: Option[Int] = None) {
  import PartitionField._

  /** Returns whether the field is a column itself. */
  def isColumn: Boolean = transform == Identity

  /** The field in PARTITIONED BY. */
  def sql: String = {
    val name = QuotingUtils.quoteIfNeeded(column)
    if (isColumn) name else s"$transform(${(number.map(_.toString).toSeq :+ name).mkString(", ")})"
  }
}

object PartitionField {
  final val Identity = "identity"

  /** Spark has other names of these functions, too. */
  private val Names =
    Map("year" -> "years", "month" -> "months", "day" -> "days", "hour" -> "hours")

  def of(transform: Transform): Option[PartitionField] = {
    val columns =
      transform.arguments.toSeq.collect { case column: NamedReference => column.fieldNames.toSeq }
    val numbers = transform.arguments.toSeq.collect { case literal: Literal[_] => literal.value }
    val name = transform.name.toLowerCase(Locale.ROOT)
    (columns, numbers) match {
      case (Seq(Seq(column)), Seq()) => Some(PartitionField(column, Names.getOrElse(name, name)))
      case (Seq(Seq(column)), Seq(number: Int)) => Some(PartitionField(column, name, Some(number)))
      case _                                    => None
    }
  }
}

/** Finds the columns that tables have in the target. */
object MirroredTables {

  /**
   * Returns an error for each type that the user gives and no published column has.
   *
   * @param types
   *   types as DDL, such as `DECIMAL(20,4)`, by `column` or by `schema.table.column`. The latter wins.
   */
  def unusedTypes(sources: Seq[SourceTable], types: Map[String, String]): Seq[LakeException] = {
    val columns = sources.flatMap(source => source.columns.map(source -> _))
    val unused = types.keySet -- columns.flatMap { case (source, column) => names(source, column) }
    unused.toSeq.sorted.map(name =>
      new LakeException("PGOUTPUT_REPLICATE_OPTION.NO_COLUMN", "column" -> name)
    )
  }

  /**
   * Returns an error for each name of a type that the server does not know.
   *
   * @param pgTypes Spark types as DDL, by the names of PostgreSQL's types
   * @throws LakeException if two names of one type give it two Spark types
   */
  def unknownPgTypes(
      connection: ServerConnection,
      pgTypes: Map[String, String]
  ): Seq[LakeException] = {
    val known = oids(connection, pgTypes)
    for (
      (_, same) <- known.groupMap(_._1)(_._2); one <- same.headOption;
      other <- same.find(other => pgTypes(other) != pgTypes(one))
    ) throw new LakeException(
      "PGOUTPUT_REPLICATE_OPTION.SAME_PG_TYPE",
      "one" -> one,
      "other" -> other
    )
    (pgTypes.keySet -- known.map(_._2)).toSeq.sorted.map(name =>
      new LakeException("PGOUTPUT_REPLICATE_OPTION.NO_PG_TYPE", "name" -> name)
    )
  }

  /** Returns the oids of types by their names. Several names, such as `int`, `int4` and `integer`, can be one. */
  private def oids(
      connection: ServerConnection,
      pgTypes: Map[String, String]
  ): Seq[(Long, String)] = {
    val names = pgTypes.keys.filterNot(_.contains('(')).toSeq // a modifier would be ignored
    def found(names: Seq[String]) = connection.unless(NoType)(connection.query(
      "SELECT name, to_regtype(name)::oid::bigint AS oid FROM unnest(?::text[]) AS wanted (name) " +
        "WHERE to_regtype(name) IS NOT NULL",
      names.toArray
    )(row => row.getLong("oid") -> row.getString("name")))
    if (names.isEmpty) Nil
    else found(names).getOrElse(names.flatMap(name => found(Seq(name)).getOrElse(Nil)))
  }

  /** What the server says of a name that cannot be one of a type, such as `timestamp with timezone`. */
  private val NoType =
    Set(SqlState.SyntaxError, SqlState.UndefinedObject, SqlState.InvalidSchemaName)

  /**
   * Returns the tables with the Spark types of their columns: those that PostgreSQL's types have by
   * default, unless the user gives others. For a table that cannot have such types, returns the reason.
   *
   * @param targets the name of each table in the target, by its oid
   * @param types types as DDL, by columns
   * @param pgTypes types as DDL, by PostgreSQL's types. `types` wins.
   * @param shown hides columns of a table
   */
  def each(
      connection: ServerConnection,
      sources: Seq[SourceTable],
      targets: Map[Long, String],
      types: Map[String, String],
      pgTypes: Map[String, String],
      shown: SourceTable => SourceTable
  ): Seq[Either[LakeException, MirroredTable]] = {
    val columnTypes = sources.flatMap(_.columns).map(_.typeId).distinct
    val catalog = CatalogTypes.read(connection, columnTypes, TypeRegistry())
    val byOid = oids(connection, pgTypes).map { case (oid, name) =>
      oid -> (s"pgTypes.$name" -> pgTypes(name))
    }.toMap
    def wanted(source: SourceTable, column: TableColumn) =
      if (column.isHashed) None
      else
        names(source, column).find(types.contains).map(name => s"types.$name" -> types(name))
          .orElse(byOid.get(column.typeId).filter(_ => column.modifier < 0))
    sources.map { sent =>
      try {
        val source = shown(sent)
        val fields = source.columns.map(column =>
          field(source, column, catalog, wanted(source, column))
        )
        Right(MirroredTable(source, targets(source.oid), StructType(fields), catalog.registry))
      } catch { case error: LakeException => Left(error) }
    }
  }

  /** The names under which the user can give a type for a column, the strongest one first. */
  private def names(source: SourceTable, column: TableColumn) =
    Seq(source.name.unambiguous, source.name.toString, source.name.quoted)
      .map(table => s"$table.${column.name}") :+ column.name

  /** @param chosen the name of an option and the DDL of the type that it gives */
  private def field(
      source: SourceTable,
      column: TableColumn,
      catalog: CatalogTypes,
      chosen: Option[(String, String)]
  ): StructField = {
    val modifier = catalog.modifier(column.typeId, column.modifier)
    val pgType = catalog.byOid(column.typeId)
    def natural = if (column.isHashed) StringType else pgType.sparkType(modifier)
    val dataType = chosen.fold(natural) { case (option, ddl) =>
      val wanted = parse(option, ddl)
      val isOpaque = catalog.hasOpaqueArray(column.typeId, wanted)
      if (isOpaque || pgType.to(wanted, ConversionOptions()).isEmpty)
        throw new LakeException(
          "PGOUTPUT_REPLICATE_OPTION.UNREADABLE_TYPE",
          "option" -> option,
          "type" -> wanted.sql,
          "column" -> column.name,
          "table" -> source.name,
          "pgType" -> pgType.describe(modifier),
          "possible" -> possible(pgType, modifier)
        )
      // Without a key, rows are found by all of their values. Equal numbers are then counted as equal rows.
      val isPart = source.key.isEmpty && source.identity == ReplicaIdentity.Full
      if (
        source.key.contains(column.name) && !isExact(pgType, modifier, wanted) ||
        isPart && isCollated(wanted)
      )
        throw new LakeException(
          "PGOUTPUT_REPLICATE_OPTION.INEXACT_KEY",
          "option" -> option,
          "type" -> wanted.sql,
          "column" -> column.name,
          "table" -> source.name,
          "pgType" -> pgType.describe(modifier),
          "possible" -> possible(pgType, modifier)
        )
      wanted
    }
    val described = catalog.describe(column.typeId, modifier)
    StructField(column.name, dataType)
      .withComment(if (column.isHashed) s"hash of $described" else described)
  }

  /**
   * Returns whether different values stay different as values of a Spark type. Conversions to the other types
   * refuse a value that they would change.
   */
  private def isExact(pgType: PgType, modifier: Int, wanted: DataType): Boolean =
    wanted == pgType.sparkType(modifier) || hasOneText(wanted) && parts(wanted).forall {
      case FloatType  => pgType.name == "int2"
      case DoubleType => Set("int2", "int4", "float4")(pgType.name)
      case other      => !isCollated(other)
    }

  /**
   * Returns whether equal values of a type are one key for the router too, which compares texts. It writes the
   * numbers of a text in one way, as 1.0 for 1.00, unless something beside them can look like a number
   * ([[io.sparkpgoutput.lake.route.CutRouter]]).
   */
  private def hasOneText(wanted: DataType): Boolean = {
    val all = parts(wanted)
    !all.exists(_.isInstanceOf[DecimalType]) ||
    all.forall(part => part.isInstanceOf[NumericType] || part == BooleanType)
  }

  /** Returns whether a collation makes different texts equal. */
  private def isCollated(wanted: DataType): Boolean = parts(wanted).exists {
    case StringType | VarcharType(_) => false
    case other                       => other.isInstanceOf[StringType]
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
        throw new LakeException(
          "PGOUTPUT_REPLICATE_OPTION.NO_SPARK_TYPE",
          "option" -> option,
          "type" -> ddl
        )
    }

  private def possible(pgType: PgType, modifier: Int) =
    Seq(pgType.sparkType(modifier).sql, StringType.sql).distinct.mkString(" or ")
}

/** The errors of the tables of the server. */
object TableError {

  /** @param reason a whole sentence */
  def changed(table: TableName, reason: String): LakeException =
    new LakeException("PGOUTPUT_TABLE_CHANGED.UNDESCRIBED", "table" -> table, "reason" -> reason)

  /** A message does not have the key of a row that changes, because of the replica identity of a partition. */
  def keyNotSent(table: TableName): LakeException =
    new LakeException("PGOUTPUT_TABLE_CHANGED.KEY_NOT_SENT", "table" -> table)

  /** A message has NULL in the key of a row that changes, because of the replica identity of a partition. */
  def keyIsNull(table: TableName): LakeException =
    new LakeException("PGOUTPUT_TABLE_CHANGED.KEY_IS_NULL", "table" -> table)

  /** @param problems what is missing, each a whole text with the statement that corrects it */
  def notReady(problems: Seq[String]): LakeException = problems match {
    case Seq(one) => new LakeException("PGOUTPUT_SOURCE_NOT_READY.ONE", "problem" -> one)
    case several =>
      val listed = several.zipWithIndex.map { case (text, index) => s"(${index + 1}) $text" }
      new LakeException(
        "PGOUTPUT_SOURCE_NOT_READY.SEVERAL",
        "number" -> several.length,
        "problems" -> listed.mkString(" ")
      )
  }
}
