package org.apache.spark.sql.pgoutput

import org.apache.spark.sql.{SparkSession, classic}

/** Clones a session. In this package because the methods of sessions are `private[sql]`. */
object ClonedSession {

  /** Returns a session with the settings, views and catalogs of another, which change apart from then. */
  def of(session: SparkSession): SparkSession =
    session.asInstanceOf[classic.SparkSession].cloneSession()

  /** Runs something whose queries have a session's settings. */
  def within[T](session: SparkSession)(body: => T): T =
    session.asInstanceOf[classic.SparkSession].withActive(body)
}
