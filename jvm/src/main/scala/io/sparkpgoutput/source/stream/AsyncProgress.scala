package io.sparkpgoutput.source.stream

import scala.util.Try

import io.sparkpgoutput.source.SourceError

/**
 * Refuses asynchronous progress tracking, in which Spark asks for the next batch before it has written
 * that the one before is done: the server would be told to forget changes too early.
 *
 * Spark does not tell a source of it, but it calls the source in the thread of the query, whose class
 * is an inner class of the query's.
 */
private[stream] object AsyncProgress {
  private val OuterField = "$outer"
  private val ClassName = "AsyncProgressTracking"

  def refuse(): Unit = {
    val thread = Thread.currentThread()
    val query = Try {
      val field = thread.getClass.getDeclaredField(OuterField)
      field.setAccessible(true)
      field.get(thread).getClass.getSimpleName
    }
    if (query.toOption.exists(_.startsWith(ClassName))) throw SourceError.asyncProgress
  }
}
