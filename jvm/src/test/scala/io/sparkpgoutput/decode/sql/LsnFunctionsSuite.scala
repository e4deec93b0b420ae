package io.sparkpgoutput.decode.sql

import org.apache.spark.SparkFunSuite
import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.expressions.{Expression, ExpressionEvalHelper, Literal}
import org.apache.spark.sql.types.{LongType, StringType}

import io.sparkpgoutput.errors.PgOutputException
import io.sparkpgoutput.sql.{ConstantArgument, SqlFunction}

class LsnFunctionsSuite extends SparkFunSuite with ExpressionEvalHelper {
  import LsnFunctions.{format, parse, tryParse}

  private val invalid = Seq("", "1A", "0/", "G/0", "0/123456789", " 0/0", "0/0 ")

  private def call(function: SqlFunction, argument: Any): Expression =
    function.call(Seq(Literal(argument)))

  test("an LSN is formatted as PostgreSQL shows it, and negative numbers are the upper half") {
    checkEvaluation(call(format, 97500059720L), "16/B374D848")
    checkEvaluation(call(format, 0L), "0/0")
    checkEvaluation(call(format, -1L), "FFFFFFFF/FFFFFFFF")
    checkEvaluation(call(format, Long.MinValue), "80000000/0")
    checkEvaluation(call(format, 26), "0/1A")
  }

  test("an LSN is parsed to its 64 bits, padded or not and in any case") {
    Seq(parse, tryParse).foreach { function =>
      checkEvaluation(call(function, "16/B374D848"), 97500059720L)
      checkEvaluation(call(function, "16/0000001a"), 0x16_0000001aL)
      checkEvaluation(call(function, "16/1A"), 0x16_0000001aL)
      checkEvaluation(call(function, "00000000/00000000"), 0L)
      checkEvaluation(call(function, "FFFFFFFF/FFFFFFFF"), -1L)
    }
  }

  test("pg_lsn_format refuses the text of an LSN, with a hint") {
    val error = intercept[AnalysisException](call(format, "16/1A"))
    assert(error.getMessage.contains("not STRING"))
    assert(error.getMessage.contains("pg_lsn_format(pg_lsn_parse(…))"))
  }

  test("NULL gives NULL") {
    checkEvaluation(format.call(Seq(Literal.create(null, LongType))), null)
    Seq(parse, tryParse).foreach { function =>
      checkEvaluation(function.call(Seq(Literal.create(null, StringType))), null)
    }
  }

  test("a text that is not an LSN is an error of pg_lsn_parse, and NULL for try_pg_lsn_parse") {
    invalid.foreach { text =>
      checkExceptionInExpression[PgOutputException](
        call(parse, text),
        s"[PGOUTPUT_INVALID_LSN] '$text' is not an LSN such as 16/B374D848; " +
          "try_pg_lsn_parse gives NULL instead. SQLSTATE: 22P02"
      )
      checkEvaluation(call(tryParse, text), null)
    }
  }

  test("the calls have names and types, and constant calls have a value") {
    Seq(format -> 0L, parse -> "0/0", tryParse -> "0/0").foreach { case (function, argument) =>
      val expression = call(function, argument)
      assert(ConstantArgument.value(expression).isDefined)
      assert(expression.nullable)
      assert(expression.sql.startsWith(s"${function.name}("))
    }
    assert(call(format, 0L).dataType == StringType)
    assert(call(parse, "0/0").dataType == LongType)
  }
}
