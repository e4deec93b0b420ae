package io.sparkpgoutput.lake.apply

/** The changes of a table that one commit takes: whole transactions, one after the other. */
trait CutMessages {

  /** The end LSN of the last commit, which becomes the mark of the table. */
  def end: Long

  /** How many changes there are. */
  def changes: Long

  /** The size of the messages. */
  def bytes: Long

  /** Returns whether no message is on disk. */
  def isInMemory: Boolean

  /**
   * Gives the messages in order: the definition in force (Type messages and a Relation message), then for
   * each transaction Begin, Origin if there is one, changes, and definitions between them. It can be
   * called several times.
   *
   * @param take takes the position of a message in its transaction, and the message
   */
  def foreach(take: (Long, Array[Byte]) => Unit): Unit
}
