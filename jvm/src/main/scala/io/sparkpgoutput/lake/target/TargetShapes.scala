package io.sparkpgoutput.lake.target

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils
import org.apache.spark.sql.catalyst.expressions.Literal
import org.apache.spark.sql.functions.{col, expr}
import org.apache.spark.sql.pgoutput.TablePlans
import org.apache.spark.sql.types._

import org.apache.iceberg.expressions.Term
import org.apache.iceberg.spark.{Spark3Util, SparkSchemaUtil}
import org.apache.iceberg.types.{TypeUtil, Types}
import org.apache.iceberg.{Schema, Transaction, UpdateSchema}

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
      schema.find(_.name == column).map(_.dataType).getOrElse {
        val known = schema.fieldNames.mkString(", ")
        val problem = s"the table has no column '$column' in the target. Its columns are $known"
        fail(option, entry, problem)
      }
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

  /**
   * Returns whether the log of Delta, which has the values of partitions as texts, has all values of a type exactly.
   */
  def isInDeltaPartition(dataType: DataType): Boolean = dataType match {
    case BooleanType | ByteType | ShortType | IntegerType | LongType | DateType | StringType => true
    case _: DecimalType                                                                      => true
    case _ => false
  }

  /** @see Iceberg's specification, "Partition Transforms" */
  private def icebergProblem(field: PartitionField, dataType: DataType): Option[String] = {
    def isTimestamp = dataType == TimestampType || dataType == TimestampNTZType
    def isTime = isTimestamp || dataType == DateType
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
      case "bucket"                    => numbered(isInteger || isDecimal || isText || isTime)
      case "truncate"                  => numbered(isInteger || isDecimal || isText)
      case "years" | "months" | "days" => fits(isTime)
      case "hours"                     => fits(isTimestamp)
      case PartitionField.Identity =>
        fits(isInteger || isDecimal || isText || isTime || dataType == BooleanType)
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
 * A text that an SQL expression raises as the error of a task.
 *
 * @param name marks the text
 */
final private[lake] class RaisedText(name: String) {
  private val begin = s"<pgoutput_$name "
  private val end = s" pgoutput_$name>"

  /**
   * Spark begins the error of a task so. Other errors can quote a plan, which has the expression but not these words.
   */
  private val raised = s"[USER_RAISED_EXCEPTION] $begin"

  /** @param text an SQL expression */
  def raise(text: String): String = s"raise_error(concat('$begin', $text, '$end'))"

  def unapply(error: Throwable): Option[String] = {
    val text = String.valueOf(error.getMessage)
    val start = text.indexOf(raised)
    val last = text.indexOf(end, start)
    Option.when(start >= 0 && last > start)(text.substring(start + raised.length, last))
  }
}

/**
 * Texts that Delta takes for NULL in a column of its partitioning: the empty text, and the name of the folder of
 * NULL.
 */
object DeltaPartitionText {
  private val Raised = new RaisedText("partition")

  /** Returns the SQL of a value that fails for such a text. */
  def checked(value: String, column: String): String =
    s"CASE WHEN $value IN ('', '${ExternalCatalogUtils.DEFAULT_PARTITION_NAME}') " +
      s"THEN ${Raised.raise(Literal(column).sql)} ELSE $value END"

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
  def error(table: String, problem: Throwable): Option[Throwable] =
    ErrorCauses.of(problem).collectFirst { case Raised(column) =>
      new LakeException(
        "PGOUTPUT_REPLICATE_OPTION.EMPTY_PARTITION",
        "table" -> table,
        "column" -> column
      ).initCause(problem)
    }
}

/** Gives a table of Iceberg the columns of rows that replace all of its rows. */
private object IcebergColumns {

  /** Returns whether a table has all columns of rows, with their types. */
  def fits(schema: Schema, rows: StructType): Boolean = {
    val before = SparkSchemaUtil.convert(schema)
    rows.forall(field => before.exists(isSame(_, field)))
  }

  /** Returns the column that [[fit]] would replace, and that has this id or a field with this id. */
  def replaced(schema: Schema, rows: StructType, id: Int): Option[String] =
    SparkSchemaUtil.convert(schema).zip(schema.columns.asScala).collectFirst {
      case (known, column)
          if rows.exists(field => isNamed(known, field) && !isSame(known, field)) &&
            TypeUtil.indexById(Types.StructType.of(column)).containsKey(id) => column.name
    }

  private def isNamed(known: StructField, field: StructField) =
    known.name.equalsIgnoreCase(field.name)

  private def isSame(one: StructField, other: StructField) =
    one.name == other.name && one.dataType == other.dataType

  /** A column whose type changes becomes a new column of the same name, since no old value stays. */
  def fit(update: UpdateSchema, schema: Schema, rows: StructType): Unit = {
    val before = SparkSchemaUtil.convert(schema)
    val after = SparkSchemaUtil.convert(rows)
    rows.foreach { field =>
      val known = before.find(isNamed(_, field))
      if (!known.exists(isSame(_, field))) {
        known.foreach(known => update.deleteColumn(known.name))
        // In this method, a name with a point is the name of a column, and not a path.
        update.allowIncompatibleChanges()
          .addColumn(null, field.name, after.asStruct.field(field.name).`type`)
      }
    }
    update.commit()
  }
}

/** Gives a table of Iceberg a partitioning and a sort order. Files that exist keep theirs. */
private object IcebergShape {
  def fit(transaction: Transaction, shape: TableShape): Unit = {
    partition(transaction, shape.partition)
    sort(transaction, shape.cluster)
  }

  private def partition(transaction: Transaction, wanted: Seq[PartitionField]): Unit = {
    val table = transaction.table
    val found = table.spec.fields.asScala.filterNot(_.transform.isVoid).toSeq
    def id(field: PartitionField) = (table.schema.findField(field.column).fieldId, name(field))
    val known = found.map(field => (field.sourceId, field.transform.toString))
    if (known.toSet != wanted.map(id).toSet) {
      val update = transaction.updateSpec().caseSensitive(true)
      found.filterNot(field => wanted.map(id).contains((field.sourceId, field.transform.toString)))
        .foreach(field => update.removeField(field.name))
      wanted.filterNot(field => known.contains(id(field))).foreach(field =>
        update.addField(term(field))
      )
      update.commit()
    }
  }

  /** How Iceberg writes a transform. */
  private def name(field: PartitionField): String =
    field.transform.stripSuffix("s") + field.number.fold("")(number => s"[$number]")

  private def term(field: PartitionField): Term =
    Spark3Util.toIcebergTerm(TablePlans.partitioning(field.sql).get.head)

  private def sort(transaction: Transaction, wanted: Seq[String]): Unit = {
    val table = transaction.table
    val found =
      table.sortOrder.fields.asScala.map(field => table.schema.findColumnName(field.sourceId))
    if (found.toSeq != wanted || table.sortOrder.fields.asScala.exists(!_.transform.isIdentity)) {
      val order = transaction.replaceSortOrder().caseSensitive(true)
      wanted.foreach(order.asc(_))
      order.commit()
    }
  }
}
