package org.apache.spark.sql.pgoutput

import org.apache.spark.sql.{SparkSession, SparkSessionExtensions, classic}

import io.sparkpgoutput.PgOutputExtensions

/**
 * Registers the functions in a session that is running already. In this package because the function
 * registry of a session is `private[sql]`.
 */
object SessionRegistration {

  /** Does nothing where the session has the functions. */
  def register(session: SparkSession): Unit = {
    val registry = session.asInstanceOf[classic.SparkSession].sessionState.functionRegistry
    if (
      !PgOutputExtensions.functions.forall { case (name, _, _) => registry.functionExists(name) }
    ) {
      val extensions = new SparkSessionExtensions
      new PgOutputExtensions().apply(extensions)
      extensions.registerFunctions(registry)
    }
  }
}
