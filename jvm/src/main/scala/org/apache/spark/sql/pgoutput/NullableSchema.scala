package org.apache.spark.sql.pgoutput

import org.apache.spark.sql.types.StructType

/** Makes all parts of a schema nullable. In this package because `asNullable` is `private[spark]`. */
object NullableSchema {
  def of(schema: StructType): StructType = schema.asNullable
}
