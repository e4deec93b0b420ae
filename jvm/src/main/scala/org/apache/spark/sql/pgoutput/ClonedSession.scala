package org.apache.spark.sql.pgoutput

import org.apache.spark.sql.{SparkSession, classic}

/** Clones a session. In this package because `cloneSession` is `private[sql]`. */
object ClonedSession {

  /** Returns a session with the settings, views and catalogs of another, which change apart from then. */
  def of(session: SparkSession): SparkSession =
    session.asInstanceOf[classic.SparkSession].cloneSession()
}
