package io.sparkpgoutput.rows.sql

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.analysis.TypeCheckResult.{TypeCheckFailure, TypeCheckSuccess}
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.util.GenericArrayData
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

import io.sparkpgoutput.decode.sql.MessageFunctionTests
import io.sparkpgoutput.protocol.{MessageSchema, RelationSchema}

class PgOutputSchemaSuite extends MessageFunctionTests {
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
    checkEvaluation(new PgOutputSchema(relation), unknown, input)
    checkEvaluation(PgOutputSchema(relation, Literal(null)), unknown, input)
    checkEvaluation(PgOutputSchema(relation, options()), unknown, input)
  }

  test("an option names the type behind an oid") {
    checkEvaluation(
      PgOutputSchema(relation, options("type.16402" -> "int4")),
      s"${known}INT COMMENT 'int4'",
      input
    )
    checkEvaluation(
      PgOutputSchema(relation, options("type.16402" -> "array:enum")),
      s"${known}ARRAY<STRING> COMMENT 'enum[]'",
      input
    )
  }

  test("a NULL relation gives NULL") {
    checkEvaluation(new PgOutputSchema(relation), null, InternalRow(null))
    checkEvaluation(new PgOutputSchema(Literal(null)), null, InternalRow())
    assert(new PgOutputSchema(Literal(null)).checkInputDataTypes() == TypeCheckSuccess)
  }

  test("NULL if the columns are NULL, or a column or its name is") {
    val column = InternalRow(true, null, 20L, -1)
    Seq(null, new GenericArrayData(Seq(null)), new GenericArrayData(Seq(column))).foreach {
      columns =>
        val relation = InternalRow(UTF8String.fromString("public"), null, null, columns)
        checkEvaluation(new PgOutputSchema(this.relation), null, InternalRow(relation))
    }
  }

  private def refused(function: PgOutputSchema)(texts: String*): Unit =
    function.checkInputDataTypes() match {
      case TypeCheckFailure(text) => texts.foreach(part => assert(text.contains(part)))
      case other                  => fail(other.toString)
    }

  test("wrong arguments are refused") {
    refused(new PgOutputSchema(Literal("orders")))("relation", "STRING")
    refused(PgOutputSchema(relation, Literal("mode")))("map of strings", "STRING")
    refused(PgOutputSchema(relation, options("modus" -> "x")))("There is no option 'modus'")
    refused(
      PgOutputSchema(relation, BoundReference(1, MapType(StringType, StringType), nullable = true))
    )("must be constant")
  }
}
