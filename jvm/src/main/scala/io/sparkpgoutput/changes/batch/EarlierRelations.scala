package io.sparkpgoutput.changes.batch

import scala.collection.mutable

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.types.DataType

import io.sparkpgoutput.changes.MessageColumns
import io.sparkpgoutput.changes.transactions._
import io.sparkpgoutput.protocol.{StreamContext, TextEncoding}

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
    found.toSeq.groupBy(_._1).map { case (source, parts) =>
      val known = new KnownRelations
      parts.foreach { case (_, last, _) => last.foreach(known.addIfLast) }
      source ->
        EarlierRelations(AssemblerState(definitions = known.all), parts.flatMap(_._3).toMap)
    }
  }

  /**
   * Returns, for each source in a partition, the last definitions before the read, and the messages that are
   * not before it.
   */
  private def read(
      rows: Iterator[InternalRow],
      sourceType: Option[DataType],
      encoding: TextEncoding,
      starts: Map[Any, Long]
  ): Iterator[(Any, Seq[SchemaMessage], Seq[(Long, Array[Byte])])] = {
    val decoder = new ControlMessageDecoder(encoding)
    val bySource =
      mutable.HashMap.empty[Any, (KnownRelations, mutable.ArrayBuffer[(Long, Array[Byte])])]
    rows.foreach { row =>
      val position = MessageColumns.position(row)
      val message = MessageColumns.message(row, position)
      if (SchemaMessage.is(message)) {
        val source = InternalRow.copyValue(MessageColumns.source(row, sourceType))
        val (known, repeated) =
          bySource.getOrElseUpdate(source, (new KnownRelations, mutable.ArrayBuffer.empty))
        // The message may be part of a stream block. The decoder infers that from its bytes.
        if (starts.get(source).forall(position < _))
          known.addIfLast(decoder.definition(position, message, StreamContext.UNKNOWN))
        else repeated += position -> message
      }
    }
    bySource.iterator.map { case (source, (known, repeated)) =>
      (source, known.all, repeated.toSeq)
    }
  }
}
