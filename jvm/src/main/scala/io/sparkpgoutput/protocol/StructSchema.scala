package io.sparkpgoutput.protocol

import scala.collection.mutable.ListBuffer

import org.apache.spark.sql.types.{DataType, StructField, StructType}

/**
 * A struct whose fields are declared one by one. A declaration gives the field's ordinal, so that the
 * fields' order, names, types and comments are written once.
 */
abstract class StructSchema {
  private val declared = ListBuffer.empty[StructField]

  final protected def field(name: String, dataType: DataType, comment: String): Int = {
    declared += StructField(name, dataType).withComment(comment)
    declared.size - 1
  }

  /** The struct, once all its fields are declared. */
  final lazy val schema: StructType = StructType(declared.toSeq)
}
