package org.apache.spark.sql.pgoutput

import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.{SparkSession, classic}

/**
 * Clones a session. This object is in this package because the methods of sessions are
 * `private[sql]`.
 */
object ClonedSession {

  /**
   * Returns a new session with the settings, views and catalogs of another one. Later changes of
   * one session do not affect the other.
   *
   * Spark replaces `${name}` in SQL text by the value of a setting or a variable of the environment,
   * also inside quotes. The new session does not, because names of PostgreSQL can contain it.
   */
  def of(session: SparkSession): SparkSession = {
    val clone = session.asInstanceOf[classic.SparkSession].cloneSession()
    clone.conf.set(SQLConf.VARIABLE_SUBSTITUTE_ENABLED.key, false)
    clone
  }

  /** Runs something whose queries have a session's settings. */
  def within[T](session: SparkSession)(body: => T): T =
    session.asInstanceOf[classic.SparkSession].withActive(body)

  /**
   * Runs something in a new session. All of it has the settings of this session, because Spark takes
   * some of them from the active session of the thread, whatever the session of a query is.
   */
  def run[T](session: SparkSession)(body: SparkSession => T): T = {
    val clone = of(session)
    within(clone)(body(clone))
  }
}
