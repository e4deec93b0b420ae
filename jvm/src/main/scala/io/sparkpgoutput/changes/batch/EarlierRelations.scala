package io.sparkpgoutput.changes.batch

import scala.collection.mutable

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.types.DataType

import io.sparkpgoutput.changes.MessageColumns
import io.sparkpgoutput.changes.transactions.{AssemblerState, LastSchemaMessages, SchemaMessage}
import io.sparkpgoutput.protocol.TextEncoding

/**
 * The relations and types of a source that are known from earlier messages.
 *
 * @param state the state before the first message of the read
 * @param repeated
 *   the Relation and Type messages whose positions are not before the read. The read must have the same
 *   messages at these positions.
 */
final case class EarlierRelations(
    state: AssemblerState = AssemblerState(),
    repeated: Map[Long, Array[Byte]] = Map.empty
)

object EarlierRelations {

  /**
   * Finds the last Relation message of each table and the last Type message of each type.
   *
   * @param starts
   *   the position of the first message of each source in the read; what comes before it is earlier
   */
  def find(
      rows: RDD[InternalRow],
      sourceType: Option[DataType],
      encoding: TextEncoding,
      starts: Map[Any, Long]
  ): Map[Any, EarlierRelations] = {
    val found = rows.mapPartitions(read(_, sourceType, encoding, starts)).collect()
    found.toSeq.groupBy(_.source).map { case (source, parts) =>
      val last = new LastSchemaMessages(encoding)
      parts.foreach(_.last.foreach(last.add))
      source -> EarlierRelations(last.state, parts.flatMap(_.repeated).toMap)
    }
  }

  /** The messages of one source in one partition. */
  final private case class Found(
      source: Any,
      last: Seq[SchemaMessage],
      repeated: Seq[(Long, Array[Byte])]
  )

  private def read(
      rows: Iterator[InternalRow],
      sourceType: Option[DataType],
      encoding: TextEncoding,
      starts: Map[Any, Long]
  ): Iterator[Found] = {
    val bySource =
      mutable.HashMap.empty[Any, (LastSchemaMessages, mutable.ArrayBuffer[(Long, Array[Byte])])]
    rows.foreach { row =>
      val position = MessageColumns.position(row)
      val message = MessageColumns.message(row, position)
      if (SchemaMessage.is(message)) {
        val source = InternalRow.copyValue(MessageColumns.source(row, sourceType))
        val (last, repeated) = bySource
          .getOrElseUpdate(source, (new LastSchemaMessages(encoding), mutable.ArrayBuffer.empty))
        if (starts.get(source).forall(position < _)) last.add(position, message)
        else repeated += position -> message
      }
    }
    bySource.iterator.map { case (source, (last, repeated)) =>
      Found(source, last.all.toSeq, repeated.toSeq)
    }
  }
}
