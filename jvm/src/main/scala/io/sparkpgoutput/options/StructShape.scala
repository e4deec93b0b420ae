package io.sparkpgoutput.options

import org.apache.spark.sql.types.{ArrayType, DataType, MapType, StructType}

/** Compares structs by the names and types of their members, whatever their comments and nullability. */
object StructShape {
  def same(a: DataType, b: DataType): Boolean = (a, b) match {
    case (a: StructType, b: StructType) =>
      a.length == b.length && a.zip(b).forall { case (x, y) =>
        x.name == y.name && same(x.dataType, y.dataType)
      }
    case (ArrayType(a, _), ArrayType(b, _))             => same(a, b)
    case (MapType(k, v, _), MapType(otherK, otherV, _)) => same(k, otherK) && same(v, otherV)
    case _                                              => a == b
  }
}
