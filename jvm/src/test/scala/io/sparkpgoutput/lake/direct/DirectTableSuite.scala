package io.sparkpgoutput.lake.direct

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeArrayData, UnsafeProjection}
import org.apache.spark.sql.catalyst.util.{ArrayBasedMapData, GenericArrayData}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.{UTF8String, VariantVal}

import org.scalatest.funsuite.AnyFunSuite

class DirectTableSuite extends AnyFunSuite {
  test("the size of a value has the bytes of all that is in it") {
    val text = UTF8String.fromString("é" * 500)
    val texts = new GenericArrayData(Array[Any](text, null, text))
    val struct = new StructType().add("n", IntegerType).add("v", StringType)
    val row = InternalRow(1, text)
    def size(value: Any, ddl: String) = DirectTable.bytes(value, DataType.fromDDL(ddl))
    val head = size(null, "INT")
    assert(head > 0 && size(1, "INT") == head && size(Decimal(1), "DECIMAL(38,0)") == head)
    assert(size(text, "STRING") == head + 1000)
    assert(size(new Array[Byte](1000), "BINARY") == head + 1000)
    assert(size(new VariantVal(new Array(700), new Array(300)), "VARIANT") == head + 1000)
    assert(size(texts, "ARRAY<STRING>") == 4 * head + 2000)
    assert(size(row, struct.sql) == 3 * head + 1000)
    assert(size(new GenericArrayData(Array[Any](row)), s"ARRAY<${struct.sql}>") == 4 * head + 1000)
    val map = new ArrayBasedMapData(texts, new GenericArrayData(Array[Any](1, 2, 3)))
    assert(size(map, "MAP<STRING, INT>") == 9 * head + 2000)
    val unsafe = UnsafeProjection.create(struct)(row)
    assert(size(unsafe, struct.sql) == head + unsafe.getSizeInBytes)
    val numbers = UnsafeArrayData.fromPrimitiveArray(Array.fill(1000)(7L))
    assert(size(numbers, "ARRAY<BIGINT>") == head + numbers.getSizeInBytes)
  }
}
