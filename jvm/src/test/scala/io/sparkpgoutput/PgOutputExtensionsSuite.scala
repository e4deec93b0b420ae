package io.sparkpgoutput

import org.apache.spark.SparkThrowable
import org.apache.spark.sql.{AnalysisException, classic}

import io.sparkpgoutput.errors.ErrorCauses

/** The functions, called from SQL. */
class PgOutputExtensionsSuite extends SparkSessionTests {

  private def value(query: String): Any = spark.sql(s"SELECT $query").collect().head.get(0)

  private def refused(query: String): AnalysisException =
    intercept[AnalysisException](spark.sql(s"SELECT $query"))

  private val names = Seq(
    "pgoutput_decode",
    "try_pgoutput_decode",
    "pgoutput_error",
    "pgoutput_row",
    "try_pgoutput_row",
    "pgoutput_schema",
    "pg_lsn_format",
    "pg_lsn_parse",
    "try_pg_lsn_parse"
  )

  test("the JAR alone gives a session the functions") {
    names.foreach(name => assert(spark.catalog.functionExists(name)))
  }

  test("a running session gets the functions that it lacks, and is otherwise left as it is") {
    val registry = spark.asInstanceOf[classic.SparkSession].sessionState.functionRegistry
    val functions = PgOutputExtensions.functions.map { case (name, _, _) => name }
    Seq(functions, functions.takeRight(1), Nil).foreach { lacking =>
      lacking.foreach(registry.dropFunction)
      val before = functions.map(registry.lookupFunctionBuilder)
      PgOutputExtensions.register(spark)
      assert(functions.forall(registry.functionExists))
      if (lacking.isEmpty) assert(functions.map(registry.lookupFunctionBuilder) == before)
      assert(value("pgoutput_decode(X'45').type") == "STREAM_STOP")
    }
  }

  test("each function is described under its own name") {
    assert(PgOutputExtensions.functions.map { case (name, _, _) => name.funcName } == names)
    assert(PgOutputExtensions.functions.map { case (_, info, _) => info.getName } == names)
  }

  test("a function takes one to three arguments, and each of them can be NULL") {
    Seq("pgoutput_decode", "try_pgoutput_decode", "pgoutput_error").foreach { function =>
      Seq("X''", "NULL", "X'', true", "X'', NULL, NULL", "NULL, NULL, map('mode', 'PERMISSIVE')")
        .foreach(arguments => assert(value(s"$function($arguments)") == null))
      Seq("", "X'', NULL, NULL, NULL").foreach { arguments =>
        val error = refused(s"$function($arguments)")
        assert(error.getCondition.startsWith("WRONG_NUM_ARGS"))
      }
    }
  }

  test("named arguments are refused") {
    val calls = names.map(name => s"SELECT $name(data => X'45')") ++
      Seq("pgoutput_changes", "pgoutput_open", "pgoutput_tables").map { name =>
        s"SELECT * FROM $name('messages', order => 'seq')"
      }
    calls.foreach { call =>
      val error = intercept[AnalysisException](spark.sql(call))
      assert(error.getCondition == "NAMED_PARAMETERS_NOT_SUPPORTED", call)
    }
  }

  test("wrong arguments are refused at analysis, as Spark's own functions refuse theirs") {
    Seq("pgoutput_decode", "try_pgoutput_decode", "pgoutput_error").foreach { function =>
      Seq(
        "'4500'",
        "1",
        "X'', 1",
        "X'', true, 'mode'",
        "X'', true, map('mode', uuid())",
        "X'', true, map('mode', 'DROPMALFORMED')",
        "X'', true, map('modus', 'FAILFAST')",
        "X'', true, map('encoding', 'UTF-99')"
      ).foreach { arguments =>
        val error = refused(s"$function($arguments)")
        assert(error.getCondition.startsWith("DATATYPE_MISMATCH."), arguments)
        assert(error.getMessage.contains(function), arguments)
      }
    }
  }

  test("a STRING is refused as a BINARY, and an INT is accepted as a BIGINT") {
    assert(refused("pgoutput_decode('E')").getMessage.contains("unhex"))
    assert(value("pg_lsn_format(26)") == "0/1A")
  }

  test("a malformed message reaches the user with condition and SQLSTATE") {
    // The bytes come from a column, because Spark evaluates a constant before there are tasks.
    val decode = spark.range(1).selectExpr("pgoutput_decode(unhex(concat('450', id))) AS d")
    val error = ErrorCauses.of(intercept[Throwable](decode.collect())).collectFirst {
      case error: SparkThrowable if error.getCondition == "PGOUTPUT_MALFORMED_MESSAGE" => error
    }
    assert(error.exists(_.getSqlState == "08P01"))
  }
}
