package io.sparkpgoutput.changes.rows

import java.nio.charset.StandardCharsets

import org.apache.spark.sql.types._

import io.sparkpgoutput.changes.{TableName, TablePattern}
import io.sparkpgoutput.protocol.StructSchema
import io.sparkpgoutput.types.ConversionOptions
import io.sparkpgoutput.types.registry.TypeRegistry

/**
 * The rows that are made of changes, and their columns.
 *
 * @param table the form of the table's columns
 * @param requiredColumns the ordinals of the table's columns that rows have, in order
 * @param requiredFields the ordinals of the fields of [[ChangeSchema]] that follow, in order
 */
final case class ChangeFormat(
    table: TableFormat,
    requiredColumns: Seq[Int],
    requiredFields: Seq[Int],
    filter: ChangeFilter,
    options: ConversionOptions,
    types: TypeRegistry,
    failFast: Boolean
) {

  /** The columns of the rows. */
  def rowType: StructType = StructType(
    requiredColumns.map(table.columns(_)) ++ requiredFields.map(ChangeSchema.schema(_))
  )

  /** The format of rows with only those of its columns that have these names, in its own order. */
  def select(names: Set[String]): ChangeFormat = copy(
    requiredColumns = requiredColumns.filter(index => names(table.columns(index).name)),
    requiredFields = requiredFields.filter(index => names(ChangeSchema.schema(index).name))
  )
}

/** The form of the columns of a table. */
sealed abstract class TableFormat {

  /** The columns. */
  def columns: StructType
}

object TableFormat {

  /**
   * Each column is a column of a schema.
   *
   * @param ignoreOthers
   *   true leaves out a column that the schema lacks, or whose type cannot be read as that of the
   *   schema; false makes it an error
   */
  final case class Columns(columns: StructType, ignoreOthers: Boolean, caseSensitive: Boolean)
      extends TableFormat

  /** All columns are one map of names to PostgreSQL's text. */
  case object AsMap extends TableFormat {
    override val columns: StructType = row(MapType(StringType, StringType))
  }

  /** All columns are one VARIANT, an object. */
  case object AsVariant extends TableFormat {
    override val columns: StructType = row(VariantType)
  }

  private def row(dataType: DataType) = new StructType().add(ChangeSchema.Row, dataType)
}

/**
 * The changes whose rows are wanted.
 *
 * @param tables the tables of the option `tables`; None for all
 * @param tableNames the values of `_table` that the query asks for; None for all
 * @param changeTypes the values of `_change_type` that the query asks for; None for all
 */
final case class ChangeFilter(
    tables: Option[Seq[TablePattern]] = None,
    tableNames: Option[Set[String]] = None,
    changeTypes: Option[Set[String]] = None
) {
  def keepsTable(table: TableName): Boolean =
    tables.forall(_.exists(_.matches(table))) && tableNames.forall(_.contains(table.toString))

  def keepsType(changeType: ChangeType): Boolean =
    changeTypes.forall(_.contains(changeType.name))

  /** The part of the query's filter that a plan shows. */
  def shown: Seq[String] = Seq("tables" -> tableNames, "types" -> changeTypes).collect {
    case (what, Some(names)) => names.toSeq.sorted.mkString(s"$what ", ", ", "")
  }
}

/** The columns of a change that come after the columns of its table. */
object ChangeSchema extends StructSchema {
  private val Names = ArrayType(StringType, containsNull = false)

  val TABLE: Int =
    field("_table", StringType, "The schema and the name of the table at the time of the change")
  val CHANGE_TYPE: Int =
    field("_change_type", StringType, "One of " + ChangeType.all.map(_.name).mkString(", "))
  val COMMIT_VERSION: Int = field("_commit_version", LongType, "The LSN of the commit")
  val COMMIT_TIMESTAMP: Int = field("_commit_timestamp", TimestampType, "The time of the commit")
  val XID: Int = field("_xid", LongType, "The id of the top-level transaction")
  val GID: Int = field("_gid", StringType, "The identifier of a prepared transaction")
  val ORIGIN: Int = field("_origin", StringType, "The name of the replication origin")
  val ORDINAL: Int = field(
    "_ordinal",
    LongType,
    "The position of the row in its transaction. It is unique and grows, with gaps"
  )
  val POSITION: Int =
    field(
      "_position",
      LongType,
      "The position of the message: its value in the column that orders the messages"
    )
  val KEYS: Int = field("_keys", Names, "The columns of the replica identity")
  val MISSING: Int = field(
    "_missing",
    Names,
    "The columns that are NULL because the message does not have their value: an unchanged " +
      "TOASTed value, or a column outside the key of an old row"
  )

  /** The last column, if there are several sources. */
  final val Source = "_source"

  /** The column that has all columns of the table, if there is no schema. */
  final val Row = "row"
}

/**
 * A type of changes, by the name that Spark and Delta use. They have no name for truncate.
 *
 * @param index the index in [[ChangeType.all]]
 */
final class ChangeType private (val index: Int, val name: String) {
  val nameBytes: Array[Byte] = name.getBytes(StandardCharsets.US_ASCII)
}

object ChangeType {
  val Insert = new ChangeType(0, "insert")
  val UpdatePreimage = new ChangeType(1, "update_preimage")
  val UpdatePostimage = new ChangeType(2, "update_postimage")
  val Delete = new ChangeType(3, "delete")
  val Truncate = new ChangeType(4, "truncate")
  val all: Seq[ChangeType] = Seq(Insert, UpdatePreimage, UpdatePostimage, Delete, Truncate)
}
