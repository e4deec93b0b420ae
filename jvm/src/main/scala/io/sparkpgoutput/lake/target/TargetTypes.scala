package io.sparkpgoutput.lake.target

import org.apache.spark.sql.types._

/** The types that columns have in the target. */
object TargetTypes {

  /**
   * Returns the schema of a table in the target.
   *
   * @param format `delta` or `iceberg`
   * @param key the columns by which rows are found
   * @throws LakeException
   *   if the format lacks a type, or if rows cannot be found by it. The text has the override that works.
   */
  def of(format: String, table: String, schema: StructType, key: Seq[String]): StructType =
    StructType(schema.map { field =>
      def fail(problem: String) = throw TargetError.columnType(
        s"The column '${field.name}' of the table $table has the type ${field.dataType.sql}, and " +
          s"$problem. Set types.${field.name}=STRING, and start the job again."
      )
      if (key.contains(field.name) && !isComparable(field.dataType))
        fail("rows cannot be found by values of this type")
      field.copy(
        dataType = inTarget(format, field.dataType).getOrElse(fail(s"$format does not have it"))
      )
    })

  private def isComparable(dataType: DataType): Boolean =
    !exists(dataType)(part => part.isInstanceOf[MapType] || part == VariantType)

  private def inTarget(format: String, dataType: DataType): Option[DataType] = dataType match {
    case ByteType | ShortType if format == TableFormat.Iceberg.name         => Some(IntegerType)
    case _: CharType | _: VarcharType if format == TableFormat.Iceberg.name => Some(StringType)
    case ArrayType(element, nulls) => inTarget(format, element).map(ArrayType(_, nulls))
    case MapType(key, value, nulls) =>
      for (key <- inTarget(format, key); value <- inTarget(format, value))
        yield MapType(key, value, nulls)
    case StructType(fields) =>
      val inner =
        fields.map(field => inTarget(format, field.dataType).map(t => field.copy(dataType = t)))
      Option.when(inner.forall(_.nonEmpty))(StructType(inner.flatten))
    case _ => Option.when(!lacking(dataType))(dataType)
  }

  /** Neither format has them. Spark has TIME from 4.1 on. */
  private def lacking(dataType: DataType) = dataType match {
    case CalendarIntervalType | NullType                   => true
    case _: DayTimeIntervalType | _: YearMonthIntervalType => true
    case other => other.typeName.startsWith("time(") || other.typeName == "time"
  }

  /** Returns whether a type or a part of it has a property. */
  private[target] def exists(dataType: DataType)(property: DataType => Boolean): Boolean =
    property(dataType) || (dataType match {
      case ArrayType(element, _)  => exists(element)(property)
      case MapType(key, value, _) => exists(key)(property) || exists(value)(property)
      case StructType(fields)     => fields.exists(field => exists(field.dataType)(property))
      case _                      => false
    })
}
