package io.sparkpgoutput.optimizer

import org.apache.spark.sql.catalyst.expressions.ExprId
import org.apache.spark.sql.types.{IntegerType, StringType, StructType}

import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.decode.FieldSelection.{All, Presence, member, members}
import io.sparkpgoutput.rows.RowSchema
import io.sparkpgoutput.types.ConversionOptions
import io.sparkpgoutput.types.registry.TypeRegistry

class RowColumnSuite extends AnyFunSuite {
  private val point = new StructType().add("x", IntegerType).add("y", IntegerType)
  private val columns = new StructType().add("p", point).add("q", point).add("n", StringType)
  private val row =
    RowSchema(columns, columns.indices, ConversionOptions(), TypeRegistry(), failFast = true)
  private val whole = RowColumn(ExprId(1))

  test("a typed row keeps whole columns, and the first one if only its presence is used") {
    def left(part: io.sparkpgoutput.decode.FieldSelection) = RowColumn.wholeColumns(part, row)
    assert(left(All) == All)
    assert(left(members("n").and(member("q", members("x")))) == members("n", "q"))
    assert(left(member("p", Presence)) == members("p"))
    assert(left(Presence) == members("p"))
    assert(whole.copy(typed = Some(row)).ofColumn(member("q", Presence)) == members("q"))
  }

  test("the part of a column is found from that of the row, and the other way round") {
    val nested = whole.member("new").member("text")
    assert(nested.ofRow(All) == member("new", member("text", All)))
    assert(nested.ofColumn(member("new", member("text", Presence))) == Presence)
    assert(nested.ofColumn(All) == All)
    assert(whole.ofColumn(members("xid")) == members("xid"))
  }
}
