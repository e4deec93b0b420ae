package io.sparkpgoutput.source.connection

import java.sql.SQLException

import org.postgresql.util.{PSQLException, ServerErrorMessage}

import io.sparkpgoutput.errors.ErrorCauses
import io.sparkpgoutput.source.{SourceError, SourceException, SqlIdentifier}

/**
 * The errors of connections. The driver's exceptions are not their causes, because their texts can
 * quote the URL's parameters, which can have secrets.
 */
private[sparkpgoutput] object ConnectionError {
  private val ConnectionException = "08000"
  private val ProtocolViolation = "08P01"
  private val InsufficientPrivilege = "42501"
  private val NotInPrerequisiteState = "55000"

  /** The functions of the server that ask for the attribute REPLICATION, in any of its versions. */
  private val asksForReplication = Set("InitPostgres", "check_permissions", "CheckSlotPermissions")

  private val asksForLogicalWal = Set("CheckLogicalDecodingRequirements")

  def url: SourceException = SourceError.option(
    s"The option url must have the form ${ServerAddress.Prefix}//host:port/database?parameters. The port " +
      "and the parameters can be left out, and commas separate several hosts. The options user and " +
      "password, or the parameters of these names, say who connects."
  )

  def setting(name: String, value: String, found: String): SourceException = new SourceException(
    "PGOUTPUT_CONNECTION",
    "08000",
    s"The server does not take the value '$value' for the setting $name: it has '$found' afterwards. " +
      "Values would be read wrongly. Connect to PostgreSQL itself, not to a proxy."
  )

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
        Some(noReplicationRight(address, text))
      case ProtocolViolation if text.contains("startup parameter") => Some(pooler(address, text))
      case NotInPrerequisiteState if asksForLogicalWal(routine)    => Some(walLevel(address, text))
      case _                                                       => None
    }
  }

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

  private def noReplicationRight(address: ServerAddress, said: String) = {
    val role = address.user.fold("…")(SqlIdentifier(_))
    new SourceException(
      "PGOUTPUT_NO_REPLICATION_RIGHT",
      "42501",
      s"The role cannot read a replication slot of ${address.shown}. The server says: $said Run as an " +
        s"administrator: ALTER ROLE $role REPLICATION. On Amazon RDS, run: GRANT rds_replication TO $role."
    )
  }

  private def pooler(address: ServerAddress, said: String) = new SourceException(
    "PGOUTPUT_POOLER",
    "08004",
    s"${address.shown} does not take replication connections, so it is a connection pooler or a proxy: " +
      s"$said Name the server itself in the URL."
  )

  private def walLevel(address: ServerAddress, said: String) = new SourceException(
    "PGOUTPUT_WAL_LEVEL",
    "55000",
    s"The server at ${address.shown} does not write all that logical replication needs: $said Set " +
      "wal_level to logical, and start the server again. Only changes after that can be read."
  )

  private def failed(address: ServerAddress, said: String, state: String) = {
    val what = if (isOfStatement(state)) "A statement of this source at" else "The connection to"
    new SourceException(
      "PGOUTPUT_CONNECTION",
      state,
      s"$what ${address.shown} failed. $said ${advice(state)}".trim
    )
  }

  /** Classes of SQLSTATEs that a server gives for a statement and not for a connection. */
  private def isOfStatement(state: String) =
    Set("0A", "42", "54", "55", "58", "XX").exists(state.startsWith)

  private def advice(state: String): String = state match {
    case "28P01" => "Check the options user and password."
    case "28000" => "Check the role, and the lines of pg_hba.conf for it."
    case "3D000" => "Check the name of the database in the URL."
    case "53300" =>
      "A query needs one connection for replication and two others. Check max_connections, " +
        "max_wal_senders and the role's connection limit."
    case "22023" => "Correct the parameter in the URL."
    case "57P03" => "Start the query again when the server accepts connections."
    case statement if isOfStatement(statement) =>
      "Correct what the server names, and start again."
    case _ => "No change is lost. Start the query or the job again."
  }

  private def sentences(answer: ServerErrorMessage): String =
    Seq(
      answer.getMessage,
      answer.getDetail,
      answer.getHint
    ).flatMap(Option(_)).map(sentence).mkString(" ")

  /** The driver's text, and the text of the cause if that says more, such as the name of an unknown host. */
  private def chain(error: Throwable): String =
    ErrorCauses.of(error).flatMap { error =>
      Option(error.getMessage).map(text => error -> text)
    }.foldLeft("") { case (text, (error, more)) =>
      if (text.contains(more)) text
      else if (text.isEmpty) sentence(more)
      else s"$text ${sentence(s"${error.getClass.getSimpleName}: $more")}"
    }

  private def sentence(text: String) = if (text.endsWith(".")) text else s"$text."
}
