package io.sparkpgoutput.lake.verify

import java.time.ZoneOffset

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{SpecializedGetters, XXH64}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.Platform

/**
 * The hash of some columns of a row. Equal values have equal hashes, whatever has read or written them.
 * NaN is NaN and -0 is 0, as in comparisons by PostgreSQL and by Spark. The order of a map does not
 * count. NULL differs from every value, unlike in the function `xxhash64` of Spark.
 *
 * @param columns the places of the columns
 */
final private class RowHash(schema: StructType, columns: Seq[Int]) {
  private val places = columns.toArray
  private val types = places.map(schema(_).dataType)

  def of(row: InternalRow): Long = {
    var hash = RowHash.Seed
    var column = 0
    while (column < places.length) {
      hash = RowHash.cell(row, places(column), types(column), hash)
      column += 1
    }
    hash
  }
}

private object RowHash {
  final private val Seed = 42L
  final private val IsNull = 0
  final private val IsValue = 1

  private def cell(row: SpecializedGetters, at: Int, dataType: DataType, seed: Long): Long =
    if (row.isNullAt(at)) XXH64.hashInt(IsNull, seed)
    else value(row, at, dataType, XXH64.hashInt(IsValue, seed))

  private def value(row: SpecializedGetters, at: Int, dataType: DataType, seed: Long): Long =
    dataType match {
      case BooleanType            => XXH64.hashInt(if (row.getBoolean(at)) 1 else 0, seed)
      case ByteType               => XXH64.hashInt(row.getByte(at).toInt, seed)
      case ShortType              => XXH64.hashInt(row.getShort(at).toInt, seed)
      case IntegerType | DateType => XXH64.hashInt(row.getInt(at), seed)
      case LongType | TimestampType | TimestampNTZType => XXH64.hashLong(row.getLong(at), seed)
      case FloatType                                   => double(row.getFloat(at).toDouble, seed)
      case DoubleType                                  => double(row.getDouble(at), seed)
      case decimal: DecimalType =>
        val unscaled = row.getDecimal(at, decimal.precision, decimal.scale).toJavaBigDecimal
        bytes(unscaled.setScale(decimal.scale).unscaledValue.toByteArray, seed)
      case BinaryType => bytes(row.getBinary(at), seed)
      case _: StringType =>
        val text = row.getUTF8String(at)
        XXH64.hashUnsafeBytes(text.getBaseObject, text.getBaseOffset, text.numBytes, seed)
      case VariantType => bytes(row.getVariant(at).toJson(ZoneOffset.UTC).getBytes("UTF-8"), seed)
      case StructType(fields) =>
        val struct = row.getStruct(at, fields.length)
        fields.indices.foldLeft(seed)((hash, field) =>
          cell(struct, field, fields(field).dataType, hash)
        )
      case ArrayType(element, _) =>
        val array = row.getArray(at)
        (0 until array.numElements())
          .foldLeft(XXH64.hashInt(array.numElements(), seed))((hash, index) =>
            cell(array, index, element, hash)
          )
      case MapType(key, value, _) =>
        val map = row.getMap(at)
        val entries = (0 until map.numElements()).map(index =>
          cell(map.valueArray(), index, value, cell(map.keyArray(), index, key, Seed))
        )
        XXH64.hashLong(entries.sum, XXH64.hashInt(entries.length, seed))
      case other => throw new IllegalStateException(s"No target has columns of type ${other.sql}.")
    }

  private def double(value: Double, seed: Long) =
    XXH64.hashLong(if (value == 0) 0L else java.lang.Double.doubleToLongBits(value), seed)

  private def bytes(value: Array[Byte], seed: Long) =
    XXH64.hashUnsafeBytes(value, Platform.BYTE_ARRAY_OFFSET.toLong, value.length, seed)
}
