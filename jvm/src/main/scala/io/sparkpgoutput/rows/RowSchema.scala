package io.sparkpgoutput.rows

import org.apache.spark.sql.catalyst.util.ArrayData
import org.apache.spark.sql.types._

import io.sparkpgoutput.types.registry.TypeRegistry
import io.sparkpgoutput.types.{Conversion, ConversionOptions}

/**
 * The columns that tuples are read as.
 *
 * @param schema all columns, by position
 * @param required the positions of the columns that rows have, in order
 */
final case class RowSchema(
    schema: StructType,
    required: Seq[Int],
    options: ConversionOptions,
    types: TypeRegistry,
    failFast: Boolean
) {

  val rowType: StructType = StructType(required.map(schema(_)))

  /** Finds a conversion for each required column. Left says why there is none, and for which column. */
  def conversions(typeIds: Seq[Long]): Either[String, Seq[Conversion]] =
    if (typeIds.length != schema.length) {
      Left(
        s"there are ${typeIds.length} type_ids, the schema has ${RowSchema.columns(schema.length)}"
      )
    } else {
      val found = required.map(ordinal => conversion(schema(ordinal), typeIds(ordinal)))
      found.collectFirst { case Left(problem) => problem }.toLeft(found.flatMap(_.toOption))
    }

  private def conversion(field: StructField, oid: Long): Either[String, Conversion] = {
    val pgType = types.byOid(oid)
    pgType.to(field.dataType, options).toRight {
      val found = if (oid == 0) "a type that is not known" else s"type $pgType (oid $oid)"
      s"column '${field.name}' has $found, which cannot be read as ${field.dataType.sql}; " +
        s"use ${pgType.sparkType(-1).sql}"
    }
  }

  /** The oids in an array of type_ids, 0 for NULL. If the array is NULL, no type is known. */
  def oids(typeIds: ArrayData): Array[Long] =
    if (typeIds == null) new Array[Long](schema.length)
    else Array.tabulate(typeIds.numElements())(RowSchema.oid(typeIds, _))
}

object RowSchema {

  /** The oid at an index, 0 for NULL. */
  def oid(typeIds: ArrayData, index: Int): Long =
    if (typeIds.isNullAt(index)) 0L else typeIds.getLong(index)

  /** Formats a number of columns for error messages. */
  def columns(number: Int): String = s"$number ${if (number == 1) "column" else "columns"}"
}
