package io.sparkpgoutput.source.connection

/**
 * The SQLSTATEs that the source and the job look for or give, with PostgreSQL's names.
 *
 * @see [[https://www.postgresql.org/docs/current/errcodes-appendix.html]]
 */
private[sparkpgoutput] object SqlState {
  val ConnectionException = "08000"
  val ConnectionFailure = "08006"
  val ProtocolViolation = "08P01"
  val InvalidParameterValue = "22023"
  val InvalidAuthorization = "28000"
  val InvalidPassword = "28P01"
  val InvalidCatalogName = "3D000"
  val InvalidSchemaName = "3F000"
  val InsufficientPrivilege = "42501"
  val SyntaxError = "42601"
  val UndefinedObject = "42704"
  val UndefinedTable = "42P01"
  val DuplicateObject = "42710"
  val DiskFull = "53100"
  val OutOfMemory = "53200"
  val TooManyConnections = "53300"
  val NotInPrerequisiteState = "55000"
  val ObjectInUse = "55006"
  val LockNotAvailable = "55P03"
  val AdminShutdown = "57P01"
  val CannotConnectNow = "57P03"
  val InternalError = "XX000"
}
