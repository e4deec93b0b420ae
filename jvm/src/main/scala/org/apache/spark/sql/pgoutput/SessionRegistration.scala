package org.apache.spark.sql.pgoutput

import org.apache.spark.sql.{SparkSession, SparkSessionExtensions, classic}

import io.sparkpgoutput.PgOutputExtensions

/**
 * Registers the functions, their optimizer rules and their operators in a session that is running
 * already. This object is in this package because the function registry of a session is
 * `private[sql]`.
 */
object SessionRegistration {

  /** Registers the functions, unless the session has them. */
  def register(session: SparkSession): Unit = {
    val names = PgOutputExtensions.functions.map { case (name, _, _) => name.funcName }
    if (!names.forall(name => session.catalog.functionExists(name))) {
      val extensions = new SparkSessionExtensions
      new PgOutputExtensions().apply(extensions)
      val classicSession = session.asInstanceOf[classic.SparkSession]
      extensions.registerFunctions(classicSession.sessionState.functionRegistry)
      extensions.registerTableFunctions(classicSession.sessionState.tableFunctionRegistry)
      classicSession.experimental.extraOptimizations ++= PgOutputExtensions.optimizerRules
      classicSession.experimental.extraStrategies ++= PgOutputExtensions.strategies
    }
  }
}
