package io.sparkpgoutput.source.connection

import java.sql.SQLException

import org.postgresql.util.{PSQLException, ServerErrorMessage}

import io.sparkpgoutput.errors.{ErrorCauses, ErrorText, SourceException}
import io.sparkpgoutput.source.SqlIdentifier

/**
 * The errors of connections. The driver's exceptions are not their causes, because their texts can
 * quote the URL's parameters, which can have secrets.
 */
private[sparkpgoutput] object ConnectionError {
  import SqlState._

  /** The functions of the server that ask for the attribute REPLICATION, in any of its versions. */
  private val asksForReplication = Set("InitPostgres", "check_permissions", "CheckSlotPermissions")

  def noWalsender(address: ServerAddress): SourceException =
    pooler(address, "An ordinary connection was made instead of one for replication.")

  /** Runs something that talks to the server, and rewords its failure as [[of]] does. */
  def explaining[T](address: ServerAddress)(run: => T): T =
    try run
    catch { case error: SQLException => throw of(error, address) }

  /** Rewords an error of the driver or of the server. */
  def of(error: SQLException, address: ServerAddress): SourceException =
    ofSetup(error, address).getOrElse(failed(address, said(error, address), state(error)))

  /** The error if the server is not set up for this source. */
  def ofSetup(error: SQLException, address: ServerAddress): Option[SourceException] = {
    val text = said(error, address)
    val routine = answer(error).flatMap(answer => Option(answer.getRoutine)).getOrElse("")
    state(error) match {
      case InsufficientPrivilege if asksForReplication(routine) =>
        Some(new SourceException(
          "PGOUTPUT_NO_REPLICATION_RIGHT",
          "server" -> address.shown,
          "said" -> text,
          "role" -> address.user.fold("…")(SqlIdentifier(_))
        ))
      case ProtocolViolation if text.contains("startup parameter") => Some(pooler(address, text))
      case NotInPrerequisiteState if routine == "CheckLogicalDecodingRequirements" =>
        Some(new SourceException("PGOUTPUT_WAL_LEVEL", "server" -> address.shown, "said" -> text))
      case _ => None
    }
  }

  /**
   * The error if the server does not make a slot. If the statement or its session was ended, or the server lacks memory
   * or room on its disk, the slot is not why.
   */
  def ofCreation(error: SQLException, address: ServerAddress, slot: String): SourceException =
    if (Ended.exists(state(error).startsWith)) of(error, address)
    else ofSetup(error, address).getOrElse(
      new SourceException("PGOUTPUT_SLOT_NOT_CREATED", "slot" -> slot, "said" -> onOneLine(error))
    )

  /** Begins of SQLSTATEs of connections, of transactions that lose, of statements that somebody ends, and of disks. */
  private val Ended = Set("08", "40", DiskFull, OutOfMemory, "57", "58")

  /**
   * Explains an error of the server while it sends changes. PostgreSQL 14 to 17 look up the
   * publications as of each change. To make a publication again does not help.
   */
  def whileReading(error: Throwable): Throwable = error match {
    case missing: SQLException if missing.getSQLState == UndefinedObject =>
      new SourceException(
        "PGOUTPUT_PUBLICATION_NOT_FOUND.WHILE_READING",
        "said" -> onOneLine(missing)
      )
    case invalid: SQLException if isOfValue(invalid) =>
      new SourceException(
        "PGOUTPUT_CONNECTION.CHANGE_NOT_SENT",
        invalid.getSQLState,
        Seq("said" -> onOneLine(invalid))
      )
    case other => other
  }

  /** Returns whether an error is in the text of a value, or in a row filter. */
  private def isOfValue(error: SQLException) =
    state(error).startsWith("22") && state(error) != InvalidParameterValue

  /** The server's text and its hint. */
  private def onOneLine(error: SQLException) = error.getMessage.replaceAll("\\s*\n\\s*", " ")

  /** Returns whether the connection broke, or somebody or a crash of the server has ended the session. */
  def isLost(error: SQLException): Boolean =
    Option(error.getSQLState).exists(state => state.startsWith("08") || state.startsWith("57P"))

  private def answer(error: SQLException): Option[ServerErrorMessage] = error match {
    case error: PSQLException => Option(error.getServerErrorMessage)
    case _                    => None
  }

  private def state(error: SQLException) = Option(error.getSQLState).getOrElse(ConnectionException)

  private def said(error: SQLException, address: ServerAddress) =
    DriverParameters.hidden(address, answer(error).fold(chain(error))(sentences))

  private def pooler(address: ServerAddress, said: String) =
    new SourceException("PGOUTPUT_POOLER", "server" -> address.shown, "said" -> said)

  private def failed(address: ServerAddress, said: String, state: String) = new SourceException(
    "PGOUTPUT_CONNECTION.FAILED",
    state,
    Seq(
      "what" ->
        (if (isOfStatement(state)) "A statement of this source at" else "The connection to"),
      "server" -> address.shown,
      "said" -> said,
      "advice" -> (if (said.contains(NoPassword)) GivePassword else advice(state))
    )
  )

  /** Classes of SQLSTATEs that a server gives for a statement and not for a connection. */
  private def isOfStatement(state: String) =
    Set("0A", "42", "54", "55", "58", "XX").exists(state.startsWith)

  /** What the driver says if the server asks for a password, and nothing gives it one. */
  final private val NoPassword = "no password was provided"
  final private val GivePassword =
    "Give the password in the option password or in the file ~/.pgpass. A job and its commands also take the " +
      "variable PGPASSWORD."

  private def advice(state: String): String = state match {
    case InvalidPassword      => "Check the user and the password."
    case InvalidAuthorization => "Check the role, and the lines of pg_hba.conf for it."
    case InvalidCatalogName   => "Check the name of the database in the URL."
    case TooManyConnections =>
      "A query needs two connections for replication and two others. Check max_connections, " +
        "max_wal_senders and the role's connection limit."
    case InvalidParameterValue => "Correct the parameter in the URL."
    case CannotConnectNow =>
      "If the query or the job has ended, start it again when the server accepts connections."
    case statement if isOfStatement(statement) =>
      "Correct what the server names, and start again."
    case _ => "No change is lost. If the query or the job has ended, start it again."
  }

  private def sentences(answer: ServerErrorMessage): String =
    Seq(answer.getMessage, answer.getDetail, answer.getHint)
      .flatMap(Option(_))
      .map(ErrorText.sentence)
      .mkString(" ")

  /** The driver's text, and the text of the cause if that says more, such as the name of an unknown host. */
  private def chain(error: Throwable): String =
    ErrorCauses.of(error).filter(_.getMessage != null).foldLeft("") { (text, error) =>
      val more = error.getMessage
      if (text.contains(more)) text
      else if (text.isEmpty) ErrorText.sentence(more)
      else s"$text ${ErrorText.sentence(s"${error.getClass.getSimpleName}: $more")}"
    }
}
