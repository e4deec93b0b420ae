package io.sparkpgoutput.source.output

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.types.{BinaryType, LongType, StructType}

import io.sparkpgoutput.changes.batch.WholeTransactionReader
import io.sparkpgoutput.changes.rows.ChangeFormat
import io.sparkpgoutput.protocol.StructSchema

/** The rows that the source returns: the changes of tables, or the messages. */
sealed abstract class SlotOutput extends Serializable {

  /** The columns of the rows. */
  def schema: StructType

  /** Returns an output with these columns only, in its own order. */
  def select(columns: Set[String]): SlotOutput

  /** Starts to make rows of the messages of a session. */
  def rows(): SlotRows
}

object SlotOutput {

  /** The columns of a table's changes. */
  final case class Changes(format: ChangeFormat) extends SlotOutput {
    override def schema: StructType = format.rowType

    override def select(columns: Set[String]): SlotOutput = Changes(format.select(columns))

    override def rows(): SlotRows = {
      val reader = new WholeTransactionReader(format)
      reader.message(_)
    }
  }

  /**
   * The messages of pgoutput.
   *
   * @param fields the ordinals of the fields of [[MessageFields]] that rows have, in order
   */
  final case class RawMessages(fields: Seq[Int] = MessageFields.schema.indices) extends SlotOutput {
    override def schema: StructType = StructType(fields.map(MessageFields.schema(_)))

    override def select(columns: Set[String]): SlotOutput =
      RawMessages(fields.filter(index => columns(MessageFields.schema(index).name)))

    override def rows(): SlotRows = new MessageRows(fields)
  }
}

/** Makes rows of the messages of a session, one message after the other. Not thread-safe. */
trait SlotRows {

  /** A batch begins. */
  def startBatch(): Unit = ()

  /** Takes the next message and returns its rows. Take all rows before the next message. */
  def message(message: Array[Byte]): Iterator[InternalRow]
}

/** The columns of messages. */
object MessageFields extends StructSchema {
  val LSN: Int = field("lsn", LongType, "The LSN of the commit of the transaction")
  val ORDINAL: Int =
    field("ordinal", LongType, "The position of the message in its transaction. BEGIN is 0")
  val XID: Int = field("xid", LongType, "The id of the transaction")
  val DATA: Int = field("data", BinaryType, "The message, for pgoutput_decode")
}
