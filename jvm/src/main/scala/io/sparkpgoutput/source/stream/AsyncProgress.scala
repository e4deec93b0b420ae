package io.sparkpgoutput.source.stream

import java.util.UUID

import scala.util.Try

import org.apache.spark.sql.SparkSession

import io.sparkpgoutput.source.SourceError

/**
 * Refuses asynchronous progress tracking, in which Spark asks for the next batch before it has written
 * that the one before is done: the server would be told to forget changes too early.
 *
 * A source is not told of it. The class of the query is, and Spark has it in another package in each
 * version, so it is found by its name.
 */
private[stream] object AsyncProgress {
  private val QueryId = "sql.streaming.queryId"
  private val ClassName = "AsyncProgressTracking"

  def refuse(): Unit = {
    val session = SparkSession.active
    val query = for {
      id <- Option(session.sparkContext.getLocalProperty(QueryId))
      wrapper <- Option(session.streams.get(UUID.fromString(id)))
      execution <- Try(wrapper.getClass.getMethod("streamingQuery").invoke(wrapper)).toOption
    } yield execution.getClass.getSimpleName
    if (query.exists(_.startsWith(ClassName))) throw SourceError.asyncProgress
  }
}
