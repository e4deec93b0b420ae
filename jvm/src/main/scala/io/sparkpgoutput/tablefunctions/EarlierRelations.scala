package io.sparkpgoutput.tablefunctions

import scala.collection.mutable

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.types.DataType
import org.apache.spark.unsafe.types.UTF8String

import io.sparkpgoutput.changes._
import io.sparkpgoutput.protocol.{MessageSchema, StreamContext}

/** The relations and types that are known from messages before those that are read. */
private[tablefunctions] object EarlierRelations {

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
      rules: FollowRules,
      ends: Map[Any, Long] = Map.empty
  ): Map[Any, FollowerState] = rows
    .mapPartitions { messages =>
      val fields = new ControlFields(rules.encoding)
      val found = mutable.HashMap.empty[Any, FollowerState]
      messages.foreach(row => add(row, sourceType, fields, ends, found))
      found.iterator
    }
    .collect()
    .groupMapReduce(_._1)(_._2)(merge)

  private def add(
      row: InternalRow,
      sourceType: Option[DataType],
      fields: ControlFields,
      ends: Map[Any, Long],
      found: mutable.HashMap[Any, FollowerState]
  ): Unit = {
    val position = MessageStreams.position(row)
    val message = MessageStreams.message(row, position)
    val source = MessageStreams.sourceOf(row, sourceType) match {
      case text: UTF8String => text.clone()
      case other            => other
    }
    val tag = message.headOption.fold(0)(_.toInt)
    if ((tag == 'R' || tag == 'Y') && ends.get(source).forall(position < _)) {
      val decoded = fields.read(position, message, StreamContext.UNKNOWN)
      val inStream = !decoded.isNullAt(MessageSchema.XID)
      val sent = SentMessage(fields.definedOid(message, decoded), position, message, inStream)
      val state =
        if (tag == 'Y') FollowerState(types = Seq(sent)) else FollowerState(relations = Seq(sent))
      found.updateWith(source)(before => Some(before.fold(state)(merge(_, state))))
    }
  }

  private def merge(one: FollowerState, other: FollowerState): FollowerState = FollowerState(
    relations = later(one.relations, other.relations),
    types = later(one.types, other.types)
  )

  private def later(one: Seq[SentMessage], other: Seq[SentMessage]): Seq[SentMessage] =
    (one ++ other).groupMapReduce(_.oid)(identity)((a, b) => if (a.position > b.position) a else b)
      .values.toSeq
}
