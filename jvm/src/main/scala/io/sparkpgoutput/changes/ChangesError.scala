package io.sparkpgoutput.changes

import io.sparkpgoutput.errors.{
  CommitWentBackException,
  IncompleteTransactionException,
  InvalidValueException,
  MalformedMessageException,
  PgOutputException,
  UnknownRelationException
}
import io.sparkpgoutput.protocol.Lsn
import io.sparkpgoutput.types.InvalidValue

/** The errors of a stream of messages, each with the way out. */
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
      s"position $position: $what$of, but the transaction's first message is not there; begin " +
        "earlier in the stream, at the least first_position of pgoutput_open, or give the option " +
        "'after' the greatest _commit_version that you have; with the option incomplete 'skip' it " +
        "is left out."
    )
  }

  def wentBack(lsn: Long, xid: Option[Long], position: Long): PgOutputException = {
    val which = xid.map(id => s" of xid $id").mkString
    new CommitWentBackException(
      s"position $position: commit LSN went back: another timeline or slot? The commit$which at " +
        s"${Lsn.format(lsn)} is not above those before it and repeats none of them; tell the " +
        "streams apart with the option 'source'."
    )
  }

  def unknownRelation(oid: Long, position: Long): PgOutputException =
    new UnknownRelationException(
      s"position $position: no Relation message for oid $oid; begin earlier in the stream, or name " +
        "a view with earlier messages in the option 'relations'."
    )

  def malformed(text: String, position: Long): PgOutputException =
    new MalformedMessageException(
      s"position $position: $text; a message left out could be a commit: find those that do not " +
        "decode with pgoutput_error first."
    )

  /** A value that does not fit its type, where that is an error. */
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
