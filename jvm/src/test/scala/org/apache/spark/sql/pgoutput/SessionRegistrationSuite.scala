package org.apache.spark.sql.pgoutput

import org.apache.spark.sql.classic

import io.sparkpgoutput.{PgOutputExtensions, SparkSessionTests}

class SessionRegistrationSuite extends SparkSessionTests {
  private val names = PgOutputExtensions.functions.map { case (name, _, _) => name }

  private def registry =
    spark.asInstanceOf[classic.SparkSession].sessionState.functionRegistry

  private def decoded = spark.sql("SELECT pgoutput_decode(X'45').type").collect().head.getString(0)

  test("a running session gets the functions") {
    names.foreach(registry.dropFunction)
    SessionRegistration.register(spark)
    assert(names.forall(registry.functionExists))
    assert(decoded == "STREAM_STOP")
  }

  test("a session that has some of them gets the others") {
    registry.dropFunction(names.last)
    SessionRegistration.register(spark)
    assert(registry.functionExists(names.last))
  }

  test("a session that has them is left as it is") {
    val before = names.map(registry.lookupFunctionBuilder)
    SessionRegistration.register(spark)
    assert(names.map(registry.lookupFunctionBuilder) == before)
    assert(decoded == "STREAM_STOP")
  }
}
