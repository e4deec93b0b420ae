package io.sparkpgoutput.lake.target

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils
import org.apache.spark.sql.functions.{col, expr}
import org.apache.spark.sql.types._

import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.errors.{ErrorCauses, LakeException}
import io.sparkpgoutput.lake.catalog.{PartitionField, TableShape}

/** Says which shapes tables can have in the target. */
object TargetShapes {

  /** The greatest number of columns by which Delta clusters a table. */
  final val MostClustered = 4

  /** `delta.dataSkippingNumIndexedCols` */
  final private val Indexed = 32

  /**
   * Checks the shape that the options give a table.
   *
   * @param schema the columns of the table in the target
   * @throws LakeException if the format cannot have it
   */
  def check(format: String, table: TableName, schema: StructType, shape: TableShape): Unit = {
    def fail(option: String, entry: String, problem: String) = throw new LakeException(
      "PGOUTPUT_REPLICATE_OPTION.SHAPE",
      "option" -> s"$option.$table",
      "entry" -> entry,
      "problem" -> problem
    )
    def typeOf(option: String, entry: String, column: String): DataType =
      schema.find(_.name == column).fold(
        fail(
          option,
          entry,
          s"the table has no column '$column' in the target. Its columns are " +
            s"${schema.fieldNames.mkString(", ")}"
        )
      )(_.dataType)
    val isDelta = format == LakeFormat.Delta.name
    shape.partition.foreach { field =>
      val dataType = typeOf("partition", field.sql, field.column)
      val problem =
        if (isDelta) deltaProblem(field, dataType) else icebergProblem(field, dataType)
      problem.foreach(fail("partition", field.sql, _))
    }
    shape.partition.groupBy(field => (field.column, kindOf(field))).values
      .collectFirst { case one +: another +: _ => (one, another) }.foreach { case (one, another) =>
        fail("partition", another.sql, s"it says the same of the column as ${one.sql}")
      }
    shape.cluster.foreach { column =>
      val dataType = typeOf("cluster", column, column)
      if (isDelta) {
        if (!hasStatistics(schema, column)) fail(
          "cluster",
          column,
          s"Delta clusters only by columns with statistics: numbers, dates, timestamps and texts, among the " +
            s"first $Indexed columns. The column has the type ${dataType.sql}"
        )
      } else if (!isSortable(dataType))
        fail("cluster", column, s"Iceberg cannot sort by the type ${dataType.sql}")
    }
    shape.cluster.diff(shape.cluster.distinct).headOption
      .foreach(column => fail("cluster", column, "it names the column twice"))
    if (isDelta && shape.cluster.length > MostClustered)
      fail(
        "cluster",
        shape.cluster(MostClustered),
        s"Delta clusters by $MostClustered columns at most"
      )
    if (isDelta && shape.cluster.nonEmpty) shape.partition.headOption.foreach(field =>
      fail("partition", field.sql, "a table of Delta with a clustering has no partitions")
    )
    if (isDelta && shape.partition.nonEmpty && shape.partition.length == schema.length)
      fail(
        "partition",
        shape.partition.last.sql,
        "Delta needs a column that is not one of the partitioning"
      )
  }

  /** For one column, two fields of the same kind say the same. */
  private def kindOf(field: PartitionField) =
    if (Times(field.transform)) "time" else field.transform

  private val Times = Set("years", "months", "days", "hours")

  private def deltaProblem(field: PartitionField, dataType: DataType): Option[String] =
    if (!field.isColumn)
      Some("Delta has partitions only by columns, and not by functions of columns")
    else
      Option.when(!isInDeltaPartition(dataType))(
        s"Delta cannot have exact partitions by the type ${dataType.sql}"
      )

  /** Returns whether the log of Delta, which has the values of partitions as texts, has all values of a type exactly. */
  def isInDeltaPartition(dataType: DataType): Boolean = dataType match {
    case BooleanType | ByteType | ShortType | IntegerType | LongType | DateType | StringType => true
    case _: DecimalType                                                                      => true
    case _ => false
  }

  /** @see Iceberg's specification, "Partition Transforms" */
  private def icebergProblem(field: PartitionField, dataType: DataType): Option[String] = {
    def isTimestamp = dataType == TimestampType || dataType == TimestampNTZType
    def isInteger = Set[DataType](ByteType, ShortType, IntegerType, LongType)(dataType)
    def isText = dataType == StringType || dataType == BinaryType
    def isDecimal = dataType.isInstanceOf[DecimalType]
    def fits(takes: Boolean) =
      Option.when(!takes)(s"${field.transform} does not take the type ${dataType.sql}")
    def numbered(takes: Boolean) =
      if (!field.number.exists(_ > 0))
        Some(
          s"${field.transform} takes a number above 0 and a column, as in ${field.transform}(16, id)"
        )
      else fits(takes)
    field.transform match {
      case "bucket" =>
        numbered(isInteger || isDecimal || isText || isTimestamp || dataType == DateType)
      case "truncate"                  => numbered(isInteger || isDecimal || isText)
      case "years" | "months" | "days" => fits(isTimestamp || dataType == DateType)
      case "hours"                     => fits(isTimestamp)
      case PartitionField.Identity =>
        fits(
          isInteger || isDecimal || isText || isTimestamp || dataType == DateType || dataType == BooleanType
        )
      case other => Some(
          s"Iceberg has no function $other. It has years, months, days, hours, bucket and truncate"
        )
    }
  }

  private def isSortable(dataType: DataType) = dataType match {
    case _: ArrayType | _: MapType | _: StructType | VariantType => false
    case _                                                       => true
  }

  /** Returns whether Delta has statistics of a column, as it needs them for clustering (`SkippingEligibleDataType`). */
  def hasStatistics(schema: StructType, name: String): Boolean =
    schema.take(Indexed).exists(field =>
      field.name == name && (field.dataType match {
        case _: NumericType | DateType | TimestampType | TimestampNTZType | _: StringType => true
        case _                                                                            => false
      })
    )
}

/**
 * Texts that Delta takes for NULL in a column of its partitioning: the empty text, and the name of the folder of
 * NULL.
 */
object DeltaPartitionText {
  final private val Begin = "<pgoutput_partition "
  final private val Raised = s"[USER_RAISED_EXCEPTION] $Begin"
  final private val End = " pgoutput_partition>"

  /** Returns the SQL of a value that fails for such a text. */
  def checked(value: String, column: String): String =
    s"CASE WHEN $value IN ('', '${ExternalCatalogUtils.DEFAULT_PARTITION_NAME}') " +
      s"THEN raise_error('$Begin${column.replace("\\", "\\\\").replace("'", "\\'")}$End') ELSE $value END"

  /** Returns rows that fail if a column has such a text. */
  def checked(rows: DataFrame, columns: Seq[String]): DataFrame = {
    val texts = rows.schema.filter(field =>
      field.dataType == StringType && columns.exists(_.equalsIgnoreCase(field.name))
    ).map(_.name).toSet
    if (texts.isEmpty) rows
    else rows.select(rows.columns.toSeq.map { name =>
      val quoted = TablePlace.quoted(name)
      if (texts(name)) expr(checked(quoted, name)).as(name) else col(quoted)
    }: _*)
  }

  /** Returns the error of a table if a cause is the error that an expression of [[checked]] raises. */
  def error(table: String, problem: Throwable): Option[LakeException] =
    ErrorCauses.of(problem).flatMap(cause => Option(cause.getMessage)).collectFirst {
      case text if text.contains(Raised) && text.indexOf(End, text.indexOf(Raised)) > 0 =>
        val begin = text.indexOf(Raised) + Raised.length
        val column = text.substring(begin, text.indexOf(End, begin))
        val error = new LakeException(
          "PGOUTPUT_REPLICATE_OPTION.EMPTY_PARTITION",
          "table" -> table,
          "column" -> column
        )
        error.initCause(problem)
        error
    }
}
