package io.sparkpgoutput.source.connection

/** The SQLSTATEs that this source looks for or gives, with PostgreSQL's names. */
private[source] object SqlState {
  val ConnectionException = "08000"
  val ConnectionFailure = "08006"
  val ProtocolViolation = "08P01"
  val InvalidParameterValue = "22023"
  val InvalidAuthorization = "28000"
  val InvalidPassword = "28P01"
  val InvalidCatalogName = "3D000"
  val InsufficientPrivilege = "42501"
  val UndefinedObject = "42704"
  val DuplicateObject = "42710"
  val TooManyConnections = "53300"
  val NotInPrerequisiteState = "55000"
  val ObjectInUse = "55006"
  val AdminShutdown = "57P01"
  val CannotConnectNow = "57P03"
}
