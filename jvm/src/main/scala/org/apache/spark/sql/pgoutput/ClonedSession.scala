package org.apache.spark.sql.pgoutput

import org.apache.spark.sql.{SparkSession, classic}

/**
 * Clones a session. This object is in this package because the methods of sessions are
 * `private[sql]`.
 */
object ClonedSession {

  /**
   * Returns a new session with the settings, views and catalogs of another one. Later changes of
   * one session do not affect the other.
   */
  def of(session: SparkSession): SparkSession =
    session.asInstanceOf[classic.SparkSession].cloneSession()

  /** Runs something whose queries have a session's settings. */
  def within[T](session: SparkSession)(body: => T): T =
    session.asInstanceOf[classic.SparkSession].withActive(body)
}
