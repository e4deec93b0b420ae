package io.sparkpgoutput.decode.sql

import org.apache.spark.SparkFunSuite
import org.apache.spark.sql.catalyst.expressions.{Expression, ExpressionEvalHelper, Literal}
import org.apache.spark.sql.types.{LongType, StringType}

import io.sparkpgoutput.errors.InvalidLsnException

/** `pg_lsn_parse` and `try_pg_lsn_parse`, which differ in what a text that is no LSN gives. */
class PgLsnParseSuite extends SparkFunSuite with ExpressionEvalHelper {
  private val functions = Seq[Expression => LsnText](PgLsnParse, TryPgLsnParse)
  private val invalid = Seq("", "1A", "0/", "G/0", "0/123456789", " 0/0", "0/0 ")

  test("the 64 bits of an LSN, padded or not and in any case") {
    functions.foreach { parse =>
      checkEvaluation(parse(Literal("16/B374D848")), 97500059720L)
      checkEvaluation(parse(Literal("16/0000001a")), 0x16_0000001aL)
      checkEvaluation(parse(Literal("16/1A")), 0x16_0000001aL)
      checkEvaluation(parse(Literal("00000000/00000000")), 0L)
      checkEvaluation(parse(Literal("FFFFFFFF/FFFFFFFF")), -1L)
    }
  }

  test("NULL is NULL") {
    functions.foreach(parse => checkEvaluation(parse(Literal.create(null, StringType)), null))
  }

  test("a text that is none is an error of pg_lsn_parse") {
    invalid.foreach { text =>
      checkExceptionInExpression[InvalidLsnException](
        PgLsnParse(Literal(text)),
        s"[PGOUTPUT_INVALID_LSN] '$text' is not an LSN such as 16/B374D848; try_pg_lsn_parse gives NULL instead. SQLSTATE: 22P02"
      )
    }
  }

  test("a text that is none is NULL for try_pg_lsn_parse") {
    invalid.foreach(text => checkEvaluation(TryPgLsnParse(Literal(text)), null))
  }

  test("they take a STRING and make a BIGINT, or NULL") {
    functions.map(_(Literal("0/0"))).zip(Seq("pg_lsn_parse", "try_pg_lsn_parse")).foreach {
      case (parse, name) =>
        assert(parse.inputTypes == Seq(StringType))
        assert(parse.dataType == LongType)
        assert(parse.nullable)
        assert(parse.sql == s"$name('0/0')")
    }
  }
}
