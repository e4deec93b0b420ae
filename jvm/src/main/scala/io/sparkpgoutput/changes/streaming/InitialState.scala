package io.sparkpgoutput.changes.streaming

import scala.collection.mutable

import org.apache.spark.sql.functions.{collect_list, struct}
import org.apache.spark.sql.{DataFrame, Encoders, Row}

import io.sparkpgoutput.changes.transactions.{AssemblerState, LastSchemaMessages}
import io.sparkpgoutput.changes.{ChangesError, MessageColumns}
import io.sparkpgoutput.protocol.TextEncoding

import MessageColumns.{Message, Position, Source}

/**
 * The initial state of a streaming query: the relations and types of each source that are known
 * from earlier messages. Spark reads it in the first micro-batch of a new checkpoint.
 */
object InitialState {

  /**
   * Returns one row for each source, with the last Relation message of each table and the last Type
   * message of each type.
   *
   * @param messages the earlier messages, with the columns of [[MessageColumns]]
   */
  def of(messages: DataFrame, encoding: TextEncoding): DataFrame = {
    val last = messages.mapPartitions(lastOf(_, encoding))(Encoders.row(messages.schema))
    last
      .groupBy(last.col(MessageColumns.names(Source)))
      .agg(collect_list(struct(MessageColumns.names.take(Source).map(last.col): _*)))
  }

  /** Returns the state that a row of [[of]] stands for. */
  def state(row: Row, encoding: TextEncoding): AssemblerState = {
    val found = new LastSchemaMessages(encoding)
    row.getSeq[Row](1).foreach(add(found, _))
    found.state
  }

  private def lastOf(messages: Iterator[Row], encoding: TextEncoding): Iterator[Row] = {
    val bySource = mutable.HashMap.empty[Any, LastSchemaMessages]
    messages.foreach { row =>
      add(bySource.getOrElseUpdate(row.get(Source), new LastSchemaMessages(encoding)), row)
    }
    for {
      (source, found) <- bySource.iterator
      sent <- found.all
    } yield Row(sent.position, sent.message, source)
  }

  private def add(found: LastSchemaMessages, row: Row): Unit = {
    if (row.isNullAt(Position)) throw ChangesError.nullPosition
    val position = row.getLong(Position)
    if (row.isNullAt(Message)) throw ChangesError.nullMessage(position)
    found.add(position, row.getAs[Array[Byte]](Message))
  }
}
