package io.sparkpgoutput.decode.sql

import org.apache.spark.SparkFunSuite
import org.apache.spark.sql.catalyst.expressions.{ExpressionEvalHelper, Literal}
import org.apache.spark.sql.types.{LongType, StringType}

class PgLsnFormatSuite extends SparkFunSuite with ExpressionEvalHelper {

  test("the text of an LSN, negative ones in the upper half") {
    checkEvaluation(PgLsnFormat(Literal(97500059720L)), "16/B374D848")
    checkEvaluation(PgLsnFormat(Literal(0L)), "0/0")
    checkEvaluation(PgLsnFormat(Literal(-1L)), "FFFFFFFF/FFFFFFFF")
    checkEvaluation(PgLsnFormat(Literal(Long.MinValue)), "80000000/0")
  }

  test("NULL is NULL") {
    checkEvaluation(PgLsnFormat(Literal.create(null, LongType)), null)
  }

  test("generated code does what interpreted code does") {
    checkConsistencyBetweenInterpretedAndCodegen(PgLsnFormat(_), LongType)
  }

  test("it is what pg_lsn_parse reads") {
    Seq(0L, 26L, -1L, Long.MinValue, Long.MaxValue).foreach { lsn =>
      checkEvaluation(PgLsnParse(PgLsnFormat(Literal(lsn))), lsn)
    }
  }

  test("it takes a BIGINT and makes a STRING") {
    val format = PgLsnFormat(Literal(0L))
    assert(format.inputTypes == Seq(LongType))
    assert(format.dataType == StringType)
    assert(format.sql == "pg_lsn_format(0L)")
  }
}
