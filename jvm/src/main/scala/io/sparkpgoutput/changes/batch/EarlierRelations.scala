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
 * @param state
 *   the state before the first message of the read
 * @param repeated
 *   the Relation and Type messages that are not earlier ones: their positions are in the read, which
 *   must have the same messages there
 */
final case class EarlierRelations(state: AssemblerState, repeated: Map[Long, Array[Byte]])

object EarlierRelations {
  val none: EarlierRelations = EarlierRelations(AssemblerState(), Map.empty)

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
    val found = rows.mapPartitions(new Part(sourceType, encoding, starts).read(_)).collect()
    found.groupMap(_._1)(_._2).map { case (source, parts) =>
      val last = new LastSchemaMessages(encoding)
      parts.foreach(_.last.foreach(last.add))
      source -> EarlierRelations(last.state, parts.flatMap(_.repeated).toMap)
    }
  }

  final private case class Found(last: Seq[SchemaMessage], repeated: Seq[(Long, Array[Byte])])

  /** The earlier messages of one partition. */
  final private class Part(
      sourceType: Option[DataType],
      encoding: TextEncoding,
      starts: Map[Any, Long]
  ) {
    private val last = mutable.HashMap.empty[Any, LastSchemaMessages]
    private val repeated = mutable.HashMap.empty[Any, mutable.ArrayBuffer[(Long, Array[Byte])]]

    def read(rows: Iterator[InternalRow]): Iterator[(Any, Found)] = {
      rows.foreach(add)
      (last.keySet ++ repeated.keySet).iterator.map { source =>
        val messages = last.get(source).fold(Seq.empty[SchemaMessage])(_.all.toSeq)
        source -> Found(
          messages,
          repeated.get(source).fold(Seq.empty[(Long, Array[Byte])])(_.toSeq)
        )
      }
    }

    private def add(row: InternalRow): Unit = {
      val position = MessageColumns.position(row)
      val message = MessageColumns.message(row, position)
      if (SchemaMessage.is(message)) {
        val source = InternalRow.copyValue(MessageColumns.source(row, sourceType))
        if (starts.get(source).forall(position < _)) {
          last.getOrElseUpdate(source, new LastSchemaMessages(encoding)).add(position, message)
        } else {
          repeated.getOrElseUpdate(source, mutable.ArrayBuffer.empty) += position -> message
        }
      }
    }
  }
}
