package io.sparkpgoutput.decode.sql

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, ObjectInputStream, ObjectOutputStream}
import java.util.concurrent.Executors

import scala.concurrent.duration.DurationInt
import scala.concurrent.{Await, ExecutionContext, Future}

import org.apache.spark.sql.catalyst.analysis.TypeCheckResult
import org.apache.spark.sql.catalyst.analysis.TypeCheckResult.{
  DataTypeMismatch,
  TypeCheckFailure,
  TypeCheckSuccess
}
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.util.toPrettySQL
import org.apache.spark.sql.types._

/** What the functions of a message have in common: their arguments, and how they are evaluated. */
class MessageFunctionSuite extends MessageFunctionTests {

  private val functions = Seq[(Expression, Expression, Expression) => MessageFunction](
    PgOutputDecode,
    TryPgOutputDecode,
    PgOutputError
  )

  private val unknown = Literal.create(null, BooleanType)
  private val noOptions = Literal.create(null, MapType(StringType, StringType))

  private def check(
      data: Expression = data,
      inStream: Expression = inStream,
      options: Expression = noOptions
  )(expected: PartialFunction[TypeCheckResult, Any]): Unit =
    functions.foreach { function =>
      val result = function(data, inStream, options).checkInputDataTypes()
      assert(expected.isDefinedAt(result), result)
      expected(result)
    }

  private def refused(entries: (String, String)*)(texts: String*): Unit =
    check(options = options(entries: _*)) { case TypeCheckFailure(text) =>
      texts.foreach(part => assert(text.contains(part)))
    }

  test("BINARY, BOOLEAN and a map of strings are accepted") {
    check() { case TypeCheckSuccess => }
    check(inStream = unknown) { case TypeCheckSuccess => }
    check(options = options("mode" -> "permissive", "Encoding" -> "win1252")) {
      case TypeCheckSuccess =>
    }
    check(options = options()) { case TypeCheckSuccess => } // map() has no type of entries
  }

  test("a STRING is refused, with a hint at what may be meant") {
    check(data = Literal("4500")) { case TypeCheckFailure(text) =>
      assert(text.contains("unhex(") && text.contains("CAST("))
    }
  }

  test("other types are refused as Spark does it") {
    check(data = Literal(1)) { case mismatch: DataTypeMismatch =>
      assert(mismatch.errorSubClass == "UNEXPECTED_INPUT_TYPE")
      assert(mismatch.messageParameters("paramIndex") == "first")
    }
    check(inStream = Literal(1)) { case mismatch: DataTypeMismatch =>
      assert(mismatch.messageParameters("paramIndex") == "second")
    }
    check(options = Literal("mode")) { case mismatch: DataTypeMismatch =>
      assert(mismatch.messageParameters("paramIndex") == "third")
    }
  }

  test("options that are not the same for all rows are refused") {
    val column = BoundReference(2, StringType, nullable = true)
    check(options = CreateMap(Seq(Literal("encoding"), column))) {
      case mismatch: DataTypeMismatch =>
        assert(mismatch.errorSubClass == "NON_FOLDABLE_INPUT")
        assert(mismatch.messageParameters("inputName") == "`options`")
    }
  }

  test("an unknown option is refused, and the options are named") {
    refused("modus" -> "PERMISSIVE")("'modus'", "'mode'", "'encoding'")
  }

  test("a bad value of an option is refused, and the valid ones are named") {
    refused("mode" -> "DROPMALFORMED")("'DROPMALFORMED'", "FAILFAST", "PERMISSIVE")
    refused("encoding" -> "UTF-99")("'UTF-99'", "UTF8", "LATIN1", "WIN1252", "EUC_JP", "BIG5")
  }

  test("column names without the arguments that were left out") {
    val names = Seq("pgoutput_decode", "try_pgoutput_decode", "pgoutput_error")
    functions.zip(names).foreach { case (function, name) =>
      val data = AttributeReference("data", BinaryType)()
      val options = CreateMap(Seq(Literal("mode"), Literal("PERMISSIVE")))
      assert(toPrettySQL(function(data, unknown, noOptions)) == s"$name(data)")
      assert(toPrettySQL(function(data, Literal(true), noOptions)) == s"$name(data, true)")
      val all = s"$name(data, NULL, map(mode, PERMISSIVE))"
      assert(toPrettySQL(function(data, unknown, options)) == all)
      assert(function(data, unknown, noOptions).toString == s"$name(${data.toString})")
    }
  }

  test("it is evaluated once where Spark can avoid more, for it says that it is expensive") {
    functions.foreach(function => assert(function(data, inStream, noOptions).expensive))
  }

  test("on an executor it is what it was on the driver") {
    functions.foreach { function =>
      val sent = function(data, inStream, options("encoding" -> "LATIN1"))
      sent.eval(row(insert)) // what it has by now is left behind
      val bytes = new ByteArrayOutputStream
      new ObjectOutputStream(bytes).writeObject(sent)
      val arrived = new ObjectInputStream(new ByteArrayInputStream(bytes.toByteArray)).readObject
      val expression = arrived.asInstanceOf[Expression]
      assert(expression == sent)
      Seq(insert, latin1).foreach { message =>
        assert(expression.eval(row(message)) == sent.eval(row(message)))
      }
    }
  }

  test("one of them can be evaluated by several threads") {
    val threads = Executors.newFixedThreadPool(4)
    implicit val context: ExecutionContext = ExecutionContext.fromExecutor(threads)
    try {
      val decode = PgOutputDecode(data, inStream, noOptions)
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
