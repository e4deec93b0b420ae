package io.sparkpgoutput.source.output

import org.apache.spark.sql.types.StructType

import io.sparkpgoutput.changes.rows.ChangeFormat

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

    override def rows(): SlotRows = new ChangeRows(format)
  }

  /**
   * The messages of pgoutput.
   *
   * @param fields the ordinals of the fields of [[MessageFields]] that rows have, in order
   */
  final case class Messages(fields: Seq[Int] = MessageFields.schema.indices) extends SlotOutput {
    override def schema: StructType = StructType(fields.map(MessageFields.schema(_)))

    override def select(columns: Set[String]): SlotOutput =
      Messages(fields.filter(index => columns(MessageFields.schema(index).name)))

    override def rows(): SlotRows = new MessageRows(fields)
  }
}
