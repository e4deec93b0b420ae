package io.sparkpgoutput.rows

import org.apache.spark.sql.types._

import io.sparkpgoutput.types.registry.TypeRegistry
import io.sparkpgoutput.types.{Conversion, ConversionOptions, PgType}

/**
 * The columns that tuples are read as.
 *
 * @param schema
 *   all of them, by position
 * @param required
 *   the positions of those that are wanted, in order
 * @param options
 *   how values are read
 * @param types
 *   the types that columns can have
 * @param failFast
 *   whether a value that does not fit is an error, or NULL
 */
final case class RowSchema(
    schema: StructType,
    required: Seq[Int],
    options: ConversionOptions,
    types: TypeRegistry,
    failFast: Boolean
) {

  /** What rows have. */
  val rowType: StructType = StructType(required.map(schema(_)))

  /** The conversion of each required column; Left names the first that there is none of. */
  def conversions(typeIds: Seq[Long]): Either[String, Seq[Conversion]] =
    if (typeIds.length != schema.length) {
      Left(
        s"there are ${typeIds.length} type_ids, the schema has ${RowSchema.columns(schema.length)}"
      )
    } else {
      val found = required.map { ordinal =>
        val field = schema(ordinal)
        val pgType = types.byOid(typeIds(ordinal))
        pgType
          .to(field.dataType, options)
          .toRight(RowSchema.refusal(field, typeIds(ordinal), pgType))
      }
      found.collectFirst { case Left(problem) => problem }.toLeft(found.collect { case Right(c) =>
        c
      })
    }

  /** As if all types were unknown. */
  def unknown: Seq[Long] = Seq.fill(schema.length)(0L)
}

object RowSchema {

  /** A number of columns, for error messages. */
  def columns(number: Int): String = s"$number ${if (number == 1) "column" else "columns"}"

  private def refusal(field: StructField, oid: Long, pgType: PgType): String = {
    val found = if (oid == 0) "a type that is not known" else s"type ${pgType.name} (oid $oid)"
    s"column '${field.name}' has $found, which cannot be read as ${field.dataType.sql}; " +
      s"use ${pgType.sparkType(-1).sql}"
  }

  /** The same type with everything in it nullable. */
  def nullable(dataType: DataType): DataType = dataType match {
    case struct: StructType     => nullable(struct)
    case ArrayType(element, _)  => ArrayType(nullable(element))
    case MapType(key, value, _) => MapType(nullable(key), nullable(value))
    case other                  => other
  }

  def nullable(struct: StructType): StructType = StructType(
    struct.map(field => field.copy(dataType = nullable(field.dataType), nullable = true))
  )
}
