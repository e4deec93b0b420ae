package io.sparkpgoutput.rows.sql

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.util.GenericArrayData
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

import io.sparkpgoutput.decode.sql.MessageFunctionTests
import io.sparkpgoutput.protocol.{MessageSchema, RelationSchema}

class SchemaFunctionSuite extends MessageFunctionTests {
  private def schema(arguments: Expression*): Expression = SchemaFunction.schema.call(arguments)

  private val relation = BoundReference(0, RelationSchema.schema, nullable = true)

  /** public.orders: id int8, amount numeric(12,2), state of a type with oid 16402. */
  private val orders = "52 0000404a 7075626c696300 6f726465727300 64 0003" +
    "01 696400 00000014 ffffffff" + "00 616d6f756e7400 000006a4 000c0006" +
    "00 737461746500 00004012 ffffffff"

  private val input = InternalRow(
    decoded(orders).getStruct(MessageSchema.RELATION, RelationSchema.schema.length)
  )

  private val known =
    "id BIGINT COMMENT 'int8', amount DECIMAL(12,2) COMMENT 'numeric(12,2)', state "

  test("the DDL has the columns' names and types, and PostgreSQL's types as comments") {
    val unknown = s"${known}STRING COMMENT 'type with oid 16402'"
    checkEvaluation(schema(relation), unknown, input)
    checkEvaluation(schema(relation, Literal(null)), unknown, input)
    checkEvaluation(schema(relation, options()), unknown, input)
  }

  test("an option names the type behind an oid") {
    checkEvaluation(
      schema(relation, options("type.16402" -> "int4")),
      s"${known}INT COMMENT 'int4'",
      input
    )
    checkEvaluation(
      schema(relation, options("type.16402" -> "array:enum")),
      s"${known}ARRAY<STRING> COMMENT 'enum[]'",
      input
    )
  }

  test("a NULL relation gives NULL") {
    checkEvaluation(schema(relation), null, InternalRow(null))
    checkEvaluation(schema(Literal(null)), null, InternalRow())
  }

  test("NULL if the columns are NULL, or a column or its name is") {
    val column = InternalRow(true, null, 20L, -1)
    Seq(null, new GenericArrayData(Seq(null)), new GenericArrayData(Seq(column))).foreach {
      columns =>
        val relation = InternalRow(UTF8String.fromString("public"), null, null, columns)
        checkEvaluation(schema(this.relation), null, InternalRow(relation))
    }
  }

  private def refused(arguments: Expression*)(texts: String*): Unit = {
    val error = intercept[AnalysisException](schema(arguments: _*))
    assert(error.getCondition.startsWith("DATATYPE_MISMATCH."))
    texts.foreach(part => assert(error.getMessage.contains(part)))
  }

  test("wrong arguments are refused") {
    refused(Literal("orders"))("relation", "STRING")
    refused(relation, Literal("mode"))("map of strings", "STRING")
    refused(relation, options("modus" -> "x"))("There is no option 'modus'")
    refused(relation, BoundReference(1, MapType(StringType, StringType), nullable = true))(
      "must be constant"
    )
  }
}
