package io.sparkpgoutput.decode.sql

import java.util.concurrent.Executors

import scala.concurrent.duration.DurationInt
import scala.concurrent.{Await, ExecutionContext, Future}

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.analysis.TypeCheckResult.{DataTypeMismatch, TypeCheckSuccess}
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.util.toPrettySQL
import org.apache.spark.sql.types._

import io.sparkpgoutput.JavaSerialization
import io.sparkpgoutput.sql.FunctionCall

/** The functions of a message: their arguments, and how Spark evaluates them. */
class DecodeFunctionsSuite extends MessageFunctionTests {

  private val unknown = Literal.create(null, BooleanType)
  private val noOptions = Literal(null)

  private def refused(arguments: Expression*)(texts: String*): Unit =
    DecodeFunctions.all.foreach { function =>
      val error = intercept[AnalysisException](function.call(arguments))
      assert(error.getCondition.startsWith("DATATYPE_MISMATCH."))
      texts.foreach(part => assert(error.getMessage.contains(part)))
    }

  private def evaluators(arguments: Expression*): Seq[MessageEvaluator] =
    DecodeFunctions.all.map(_.call(arguments)).collect {
      case FunctionCall(_, _, evaluator: MessageEvaluator) => evaluator
    }

  test("BINARY, BOOLEAN and a map of strings are accepted") {
    Seq(
      Seq(data),
      Seq(data, inStream),
      Seq(data, unknown, noOptions),
      Seq(data, inStream, options("mode" -> "permissive", "Encoding" -> "win1252")),
      Seq(data, inStream, options()) // map() has no type of entries
    ).foreach { arguments =>
      assert(evaluators(arguments: _*).size == 3)
      evaluators(arguments: _*).foreach(e => assert(e.checkInputDataTypes() == TypeCheckSuccess))
    }
  }

  test("a STRING is refused, with a hint at what may be meant") {
    refused(Literal("4500"))("unhex(", "CAST(")
  }

  test("other types are refused as Spark refuses them") {
    Seq(Seq(Literal(1)) -> "first", Seq(data, Literal(1)) -> "second").foreach {
      case (arguments, which) =>
        evaluators(arguments: _*).foreach(_.checkInputDataTypes() match {
          case mismatch: DataTypeMismatch =>
            assert(mismatch.errorSubClass == "UNEXPECTED_INPUT_TYPE")
            assert(mismatch.messageParameters("paramIndex") == which)
          case other => fail(other.toString)
        })
    }
    refused(data, inStream, Literal("mode"))("map of strings", "STRING")
  }

  test("options that are not the same for all rows are refused") {
    val column = BoundReference(2, StringType, nullable = true)
    refused(data, inStream, CreateMap(Seq(Literal("encoding"), column)))("must be constant")
  }

  test("an option that is unknown or has a bad value is refused, and the valid ones are named") {
    refused(data, unknown, options("modus" -> "PERMISSIVE"))("'modus'", "'mode'", "'encoding'")
    refused(data, unknown, options("mode" -> "DROPMALFORMED"))("'DROPMALFORMED'", "PERMISSIVE")
    refused(data, unknown, options("encoding" -> "UTF-99"))("'UTF-99'", "UTF8", "LATIN1", "BIG5")
    intercept[AnalysisException](tryDecode(data, unknown, options("mode" -> "FAILFAST")))
  }

  test("control characters of an argument are escaped in the error") {
    refused(data, unknown, options("x\u001b[31m\n" -> ""))("'x\\u001b[31m\\n'")
  }

  test("too few and too many arguments are refused") {
    Seq(Nil, Seq(data, unknown, noOptions, noOptions)).foreach { arguments =>
      DecodeFunctions.all.foreach { function =>
        val error = intercept[AnalysisException](function.call(arguments))
        assert(error.getCondition == "WRONG_NUM_ARGS.WITHOUT_SUGGESTION")
      }
    }
  }

  test("a function in an argument is evaluated, also one that Spark replaces") {
    val mode = FunctionCall("a_function", Nil, Literal("PERMISSIVE"))
    val permissive = decode(data, unknown, CreateMap(Seq(Literal("mode"), mode)))
    assert(!evaluator(permissive).options.failFast)
  }

  test("column names do not have the arguments that were left out") {
    DecodeFunctions.all.foreach { function =>
      val name = function.name
      val data = AttributeReference("data", BinaryType)()
      val options = CreateMap(Seq(Literal("mode"), Literal("PERMISSIVE")))
      assert(toPrettySQL(function.call(Seq(data, unknown, noOptions))) == s"$name(data)")
      assert(toPrettySQL(function.call(Seq(data, Literal(true)))) == s"$name(data, true)")
      val all = s"$name(data, NULL, map(mode, PERMISSIVE))"
      assert(toPrettySQL(function.call(Seq(data, unknown, options))) == all)
      assert(function.call(Seq(data, unknown)).toString == s"$name(${data.toString})")
    }
  }

  test("the evaluators are expensive, so that Spark does not evaluate them twice") {
    evaluators(data, inStream).foreach(evaluator => assert(evaluator.expensive))
  }

  test("an evaluator gives the same on an executor as on the driver") {
    evaluators(data, inStream, options("encoding" -> "LATIN1")).foreach { sent =>
      sent.eval(row(insert)) // Its state must not be sent.
      val expression = JavaSerialization.copied(sent)
      assert(expression == sent)
      Seq(insert, latin1).foreach { message =>
        assert(expression.eval(row(message)) == sent.eval(row(message)))
      }
    }
  }

  test("several threads can evaluate the same expression") {
    val threads = Executors.newFixedThreadPool(4)
    implicit val context: ExecutionContext = ExecutionContext.fromExecutor(threads)
    try {
      val decode = evaluators(data, inStream).head
      val runs = Future.traverse(Seq(insert, insertInStream, ambiguous, insert)) { message =>
        Future {
          val expected = decoded(message)
          (1 to 20000).count(_ => decode.eval(row(message)) != expected)
        }
      }
      assert(Await.result(runs, 1.minute).sum == 0)
    } finally threads.shutdown()
  }
}

class DecodeErrorSuite extends MessageFunctionTests {
  private val problem = error(data, inStream)

  private def withOptions(entries: (String, String)*) =
    error(data, inStream, options(entries: _*))

  private val text = "INSERT at byte 15 (new, column 2): need 1 byte, got 0; " +
    s"message of 15 bytes: ${broken.replace(" ", "")}"

  test("a message that decodes gives NULL, and so does NULL") {
    Seq(insert, insertInStream, ambiguous, "", null).foreach { message =>
      checkEvaluation(problem, null, row(message))
    }
    checkEvaluation(error(data), null, row(insert))
  }

  test("a malformed message gives the text of the error, without condition and SQLSTATE") {
    checkEvaluation(problem, text, row(broken))
    checkEvaluation(error(data), text, row(broken))
    assert(problem.dataType == StringType)
  }

  test("in_stream decides how a message is read") {
    checkEvaluation(problem, null, row(insertInStream, true))
    val outside = "INSERT at byte 5 (new, marker): found 0, expected N; message of 20 bytes: " +
      insertInStream.replace(" ", "")
    checkEvaluation(problem, outside, row(insertInStream, false))
  }

  test("the encoding decides which text is valid, and the mode changes nothing") {
    checkEvaluation(withOptions("encoding" -> "latin1"), null, row(latin1))
    Seq("FAILFAST", "PERMISSIVE").foreach { mode =>
      checkEvaluation(withOptions("mode" -> mode), text, row(broken))
      checkEvaluation(withOptions("mode" -> mode), null, row(insert))
    }
  }
}
