package org.apache.spark.sql.pgoutput

import org.apache.spark.sql.{SparkSession, SparkSessionExtensions, classic}

/**
 * Registers the functions of extensions in a session that is running already. This object is in this
 * package because the function registry of a session is `private[sql]`.
 */
object SessionRegistration {
  def registerFunctions(session: SparkSession, extensions: SparkSessionExtensions): Unit = {
    val state = session.asInstanceOf[classic.SparkSession].sessionState
    extensions.registerFunctions(state.functionRegistry)
    extensions.registerTableFunctions(state.tableFunctionRegistry): Unit
  }
}
