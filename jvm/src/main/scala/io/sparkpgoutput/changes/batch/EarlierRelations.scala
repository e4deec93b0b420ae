package io.sparkpgoutput.changes.batch

import scala.collection.mutable

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.types.DataType

import io.sparkpgoutput.changes.MessageColumns
import io.sparkpgoutput.changes.transactions.{
  AssemblerOptions,
  AssemblerState,
  ControlMessageDecoder,
  SchemaMessage
}
import io.sparkpgoutput.protocol.StreamContext

/** The relations and types that are known from messages before those that are read. */
object EarlierRelations {

  /**
   * Finds the last message about each relation and type of each source; others are passed over.
   * Whether they stood in a stream block is not known, but mostly their bytes tell.
   *
   * @param ends
   *   by source the position before which messages are earlier ones, where it is known
   */
  def find(
      rows: RDD[InternalRow],
      sourceType: Option[DataType],
      options: AssemblerOptions,
      ends: Map[Any, Long] = Map.empty
  ): Map[Any, AssemblerState] = rows
    .mapPartitions { messages =>
      val fields = new ControlMessageDecoder(options.encoding)
      val found = mutable.HashMap.empty[Key, SchemaMessage]
      messages.foreach(row => add(row, sourceType, fields, ends, found))
      found.iterator
    }
    .collect()
    .groupMapReduce(_._1)(_._2)(later)
    .groupBy { case (Key(source, _, _), _) => source }
    .view
    .mapValues { found =>
      def sent(tag: Byte) = found.collect { case (Key(_, `tag`, _), message) => message }.toSeq
      AssemblerState(relations = sent('R'), types = sent('Y'))
    }
    .toMap

  /** What a message is about: `tag` is R for a relation, Y for a type. */
  final private case class Key(source: Any, tag: Byte, oid: Long)

  private def add(
      row: InternalRow,
      sourceType: Option[DataType],
      fields: ControlMessageDecoder,
      ends: Map[Any, Long],
      found: mutable.HashMap[Key, SchemaMessage]
  ): Unit = {
    val position = MessageColumns.position(row)
    val message = MessageColumns.message(row, position)
    val isDefinition = message.nonEmpty && (message(0) == 'R' || message(0) == 'Y')
    if (isDefinition) {
      val source = InternalRow.copyValue(MessageColumns.source(row, sourceType))
      if (ends.get(source).forall(position < _)) {
        val sent = fields.definition(position, message, StreamContext.UNKNOWN)
        found.updateWith(Key(source, message(0), sent.oid)) { before =>
          Some(before.fold(sent)(later(_, sent)))
        }
      }
    }
  }

  private def later(one: SchemaMessage, other: SchemaMessage): SchemaMessage =
    if (one.position > other.position) one else other
}
