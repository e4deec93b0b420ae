package io.sparkpgoutput.lake.apply

import java.nio.ByteBuffer

import io.sparkpgoutput.changes.StreamMessages
import io.sparkpgoutput.lake.apply.CutOfServer.Messages
import io.sparkpgoutput.lake.queue.CutMessages

/**
 * The part of a server's messages that the queue of one table has: the definition in force, and the
 * transactions with changes of the table.
 *
 * @param messages all messages of the server: LSN of the commit, ordinal, message
 * @param inForce the definition before the first message, if there is one
 */
final case class CutOfServer(
    oid: Long,
    messages: Messages,
    end: Long,
    inForce: Option[Array[Byte]] = None
) extends CutMessages {
  import CutOfServer._

  private val found: Messages = {
    val transactions = messages.groupBy(_._1).toSeq.sortBy(_._1).map(_._2.filter { message =>
      isAround(message._3) || concerns(message._3)
    })
    inForce.toSeq.map((0L, 0L, _)) ++ transactions.filter(_.exists(found =>
      concerns(found._3)
    )).flatten
  }

  private def concerns(message: Array[Byte]) = message(0).toChar match {
    case 'I' | 'U' | 'D' | 'R' => int(message, 1) == oid
    case 'T' => (0 until int(message, 1).toInt).exists(index => int(message, 6 + 4 * index) == oid)
    case _   => false
  }

  /** The definition in force at the end. */
  def definition: Option[Array[Byte]] = found.map(_._3).findLast(_(0) == 'R')

  override def changes: Long = found.count(message => "IUDT".contains(message._3(0).toChar)).toLong
  override def bytes: Long = found.map(_._3.length.toLong).sum
  override def foreach(take: (Long, Array[Byte]) => Unit): Unit =
    found.foreach { case (_, ordinal, message) => take(ordinal, message) }
}

object CutOfServer {
  type Messages = Seq[(Long, Long, Array[Byte])]

  /** The messages of a transaction, with its Begin and Commit. */
  def transaction(lsn: Long, messages: Seq[Array[Byte]]): Messages =
    (StreamMessages.begin(lsn, lsn) +: messages :+ StreamMessages.commit(lsn)).zipWithIndex.map {
      case (message, ordinal) => (lsn, ordinal.toLong, message)
    }

  private def isAround(message: Array[Byte]) = "BOC".contains(message(0).toChar)
  private def int(message: Array[Byte], at: Int) = ByteBuffer.wrap(message).getInt(at).toLong
}
