package io.sparkpgoutput.changes

import io.sparkpgoutput.errors._
import io.sparkpgoutput.protocol.Lsn
import io.sparkpgoutput.types.InvalidValue

/** The errors of a stream of messages. Each says where the stream is wrong, and what to do. */
object ChangesError {

  def incomplete(
      what: String,
      position: Long,
      xid: Option[Long],
      gid: Option[String]
  ): PgOutputException = {
    val which = (xid.map(id => s"xid $id") ++ gid.map(id => s"gid '$id'")).mkString(", ")
    val of = if (which.isEmpty) "" else s" ($which)"
    new IncompleteTransactionException(
      s"position $position: $what$of, but the transaction's first message is missing. Read the " +
        "stream from an earlier position: from the least first_position that pgoutput_open returned " +
        "for the messages before. If you have read this transaction already, set the option 'after' " +
        "to the greatest _commit_version that you have. If the first message is lost for good, the " +
        "option incomplete 'skip' leaves the transaction out, and its changes are lost."
    )
  }

  def notWhole(what: String, position: Long): PgOutputException =
    new IncompleteTransactionException(
      s"message $position: $what. Read the slot without streaming and without two-phase commit, from " +
        "the beginning of a transaction."
    )

  def wentBack(lsn: Long, xid: Option[Long], position: Long): PgOutputException = {
    val which = xid.map(id => s" of xid $id").mkString
    new CommitWentBackException(
      s"position $position: the commit$which has the LSN ${Lsn.format(lsn)}, which is lower than " +
        "that of an earlier commit, and the commit was not sent before. If the messages come from " +
        "several slots, tell the slots apart with the option 'source'. If the server failed over to " +
        "another timeline, read the messages from there on as a stream of their own."
    )
  }

  def unknownRelation(oid: Long, position: Long): PgOutputException =
    new UnknownRelationException(
      s"position $position: there is no Relation message for the table with oid $oid. Read the " +
        "stream from an earlier position, or name a view of earlier messages in the option 'relations'."
    )

  def malformed(text: String, position: Long): PgOutputException =
    new MalformedMessageException(
      s"position $position: $text. A message that is left out could be a commit. Find the messages " +
        "that cannot be decoded: WHERE pgoutput_error(data) IS NOT NULL."
    )

  def nullMessage(position: Long): PgOutputException =
    new MalformedMessageException(
      s"position $position: the message is NULL. If NULL stands for no message, as a Kafka tombstone " +
        "does, read the messages WHERE data IS NOT NULL."
    )

  def nullPosition: PgOutputException = new MessageOrderException(
    "The position of a message is NULL, so the message cannot be put in order. Leave out such rows, " +
      "or give each message a position."
  )

  def duplicatePosition(position: Long): PgOutputException = new MessageOrderException(
    s"position $position: two messages have it. The column that orders the messages must be unique " +
      "within a source, such as an offset or a row number; LSNs repeat. If two reads of one slot are " +
      "combined, put the later read behind the earlier one, for example with the order " +
      "read * 1000000000 + seq. A read is not a source: only different slots are."
  )

  def outOfOrder(position: Long, last: Long): PgOutputException = new MessageOrderException(
    s"position $position is not above the last position of its source, $last. A stream is read in " +
      "order. Give each source a value of its own in the column that the option 'source' names, or " +
      "start with a new checkpoint."
  )

  def positionsBeganAgain(position: Long): PgOutputException = new MessageOrderException(
    s"position $position: the view of the option 'relations' has another message at this position, " +
      "so the positions began again. If a slot is peeked again, read all of its messages, with the " +
      "option 'after' and without 'relations'. If messages are archived, let the positions of each " +
      "read go on after those of the read before."
  )

  def sharedCommit(
      lsn: Long,
      xid: Long,
      table: String,
      sources: Seq[String]
  ): PgOutputException = new MessageOrderException(
    s"the sources ${sources.take(2).mkString(" and ")} both have the commit ${Lsn.format(lsn)} of xid $xid, " +
      s"with changes of table $table. A second read of a slot is not a source: its changes would be " +
      "returned twice. Give all reads of a slot the same source, and put a later read behind the " +
      "earlier ones, for example with the order read * 1000000000 + seq."
  )

  def inputChanged: PgOutputException = new InputChangedException(
    "the input returned different messages when it was read again, as a replication slot does. Write " +
      "the messages to a table, or persist them, and read from there."
  )

  /** A value that does not fit its type, if that is an error. */
  def invalid(what: String, table: TableName, position: Long): PgOutputException =
    new InvalidValueException(
      s"position $position: table $table, $what; the option mode 'PERMISSIVE' gives NULL instead."
    )

  def invalid(
      problem: InvalidValue,
      column: String,
      table: TableName,
      position: Long
  ): PgOutputException = {
    val remedy = Option(problem.remedy).map(text => s"; $text").mkString
    invalid(s"column '$column': the value ${problem.problem}$remedy", table, position)
  }
}
