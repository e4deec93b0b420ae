package io.sparkpgoutput.source.connection

import java.io.IOException
import java.nio.ByteBuffer
import java.sql.{Connection, ResultSet, SQLException}
import java.time.temporal.ChronoUnit
import java.time.{Duration, Instant}
import java.util.Arrays
import java.util.concurrent.{ConcurrentHashMap, TimeUnit}

import scala.util.{Try, Using}

import org.postgresql.copy.{CopyDual, CopyOut}
import org.postgresql.core.TransactionState
import org.postgresql.jdbc.PgConnection
import org.postgresql.util.HostSpec

import io.sparkpgoutput.protocol.{BigEndian, Lsn, PostgresEpoch, XLogDataHeader}

/** A connection to a server. It runs SQL, one statement at a time. Not thread-safe. */
class ServerConnection(protected val connection: Connection) extends AutoCloseable {

  /** The connection with what only PostgreSQL's driver has. */
  final protected def driver: PgConnection = connection.unwrap(classOf[PgConnection])

  /** Runs a query and reads all of its rows. */
  def query[T](sql: String, parameters: Any*)(read: ResultSet => T): Seq[T] =
    Using.resource(connection.prepareStatement(sql)) { statement =>
      parameters.zipWithIndex.foreach { case (value, index) =>
        statement.setObject(index + 1, value)
      }
      Using.resource(statement.executeQuery())(rows =>
        Iterator.continually(rows).takeWhile(_.next()).map(read).toSeq
      )
    }

  /** Runs a statement. */
  def execute(sql: String): Unit =
    Using.resource(connection.createStatement())(statement => statement.execute(sql): Unit)

  /** Runs a statement. If the server does not answer in time, this fails, and the connection is lost. */
  def execute(sql: String, limit: Duration): Unit = {
    connection.setNetworkTimeout(_.run(), limit.toMillis.toInt)
    execute(sql)
    connection.setNetworkTimeout(_.run(), 0)
  }

  /** Runs queries that see the same snapshot of the server, also of its catalog. */
  def inSnapshot[T](queries: => T): T = {
    execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    try queries
    finally Try(execute("ROLLBACK")): Unit
  }

  /**
   * Runs a query that can fail with an SQLSTATE. The transaction that is open, if there is one, goes on.
   *
   * @return None if it fails so
   */
  def unless[T](states: Set[String])(query: => T): Option[T] = {
    val isOpen = driver.getQueryExecutor.getTransactionState == TransactionState.OPEN
    if (isOpen) execute("SAVEPOINT before_query")
    try Some(query)
    catch {
      case error: SQLException if states(error.getSQLState) =>
        if (isOpen) execute("ROLLBACK TO SAVEPOINT before_query")
        None
    }
  }

  /** Starts to read the rows of a COPY … TO STDOUT. Until its end, the connection runs nothing else. */
  def copyOut(sql: String): CopyOut = driver.getCopyAPI.copyOut(sql)

  /** The major version of the server, such as 18. */
  lazy val majorVersion: Int = query("SHOW server_version_num")(_.getInt(1)).head / 10000

  /** The value of a setting that is a number, in its own unit. */
  def setting(name: String): Long =
    query("SELECT setting::bigint FROM pg_settings WHERE name = ?", name)(_.getLong(1)).head

  /** Ends the session that is a process of the server. */
  def terminate(pid: Int): Unit = query("SELECT pg_terminate_backend(?)", pid)(_ => ()): Unit

  /** The host of the address that the connection leads to. */
  def host: HostSpec = driver.getQueryExecutor.getHostSpec

  /** The server's process of this connection. */
  def pid: Int = driver.getBackendPID

  /** Asks the server to cancel the statement that runs now. Any thread can call it. */
  def cancel(): Unit = driver.cancelQuery()

  /** Ends the connection without waiting for the server. */
  def abort(): Unit = connection.abort(_.run())

  /** Runs something that needs the connection, and ends the connection if it fails. */
  def orAbort[T](run: => T): T =
    try run
    catch { case error: Throwable => abort(); throw error }

  override def close(): Unit = connection.close()
}

/**
 * A connection that speaks the replication protocol, and SQL too.
 *
 * @see PostgreSQL documentation, "Streaming Replication Protocol"
 */
final class ReplicationConnection(connection: Connection) extends ServerConnection(connection) {
  private val LongestMessage = Duration.ofMinutes(10)

  /** Returns whether the server has a walsender for it. A pooler can leave out the request for one. */
  private[connection] def isWalsender: Boolean =
    // Each role sees the processes here. In pg_stat_activity, a role that SET ROLE has given sees nothing of its own.
    query("SELECT FROM pg_stat_get_wal_senders() WHERE pid = pg_backend_pid()")(_ => ()).nonEmpty

  /**
   * Lets the server wait longer for an answer of this session. A client cannot answer while it receives a message. If
   * that takes longer than `wal_sender_timeout`, the server ends the session (`walsender.c`, WalSndWriteData), and the
   * next session gets the same message. Since PostgreSQL 12, each role can set the limit of its own session
   * (`wal_sender_timeout` is PGC_USERSET in `guc_tables.c`). If the server or a pooler refuses that, the limit stays as
   * it is. The limit 0 means that there is none.
   *
   * The price is that the server also waits longer for a client that is gone, and keeps the slot for so long.
   */
  def waitForLongMessages(): Unit = Try(query(
    "SELECT set_config(name, greatest(setting::bigint, ?)::text, false) FROM pg_settings " +
      "WHERE name = 'wal_sender_timeout' AND setting <> '0'",
    LongestMessage.toMillis
  )(_ => ())): Unit

  /** Starts to read WAL as it is. From then on the connection runs no other statement. */
  def startPhysical(lsn: Long): CopyDual =
    driver.getCopyAPI.copyDual(s"START_REPLICATION PHYSICAL ${Lsn.format(lsn)}")

  /**
   * Starts to read a slot. From then on the connection runs no other statement. It has no time limits:
   * the server decodes each transaction in one of its own, to which `transaction_timeout` would apply
   * (`reorderbuffer.c`, ReorderBufferProcessTXN).
   *
   * It is pgjdbc's `CopyDual` and not its `PGReplicationStream`, because the latter repeats the
   * confirmed LSN in each status update, which makes a fast shutdown of the server wait for ever.
   *
   * @param options the options of pgoutput
   */
  def start(slot: String, lsn: Long, options: Seq[(String, String)]): CopyDual = {
    val written = options.map { case (name, value) => s"$name '${value.replace("'", "''")}'" }
    // In quotes, because the name of a slot can begin with a digit.
    driver.getCopyAPI.copyDual(
      s"""START_REPLICATION SLOT "$slot" LOGICAL ${Lsn.format(lsn)} (${written.mkString(", ")})"""
    )
  }
}

/**
 * The messages inside CopyData of the streaming replication protocol.
 *
 * @see PostgreSQL documentation, "Streaming Replication Protocol"
 */
object ReplicationProtocol {
  final val XLogData = 'w'
  final val Keepalive = 'k'
  final private val StatusUpdate = 'r'
  val LongestStatusInterval: Long = TimeUnit.SECONDS.toNanos(10)

  /**
   * The time between two status updates in nanoseconds. The server ends a session whose client has
   * been silent for `wal_sender_timeout`.
   */
  def statusInterval(server: ServerConnection): Long = {
    val timeout = server.setting("wal_sender_timeout")
    if (timeout == 0) LongestStatusInterval
    else TimeUnit.MILLISECONDS.toNanos(timeout / 4).min(LongestStatusInterval)
  }

  /** XLogData: its header; the data. */
  def walData(message: Array[Byte]): Array[Byte] =
    Arrays.copyOfRange(message, XLogDataHeader.Size, message.length)

  /** Keepalive: the tag; Int64 end of the WAL that was decoded; Int64 clock; Byte1 reply wanted. */
  def keepaliveLsn(message: Array[Byte]): Long = BigEndian.int64(message, 1)
  def wantsReply(message: Array[Byte]): Boolean = message(1 + 2 * 8) != 0

  /**
   * Standby status update: the tag; Int64 written, flushed and applied LSN; Int64 clock; Byte1 reply
   * wanted.
   *
   * @param flushed 0 means "not known": the server ignores it
   */
  def statusUpdate(written: Long, flushed: Long, applied: Long, askReply: Boolean): Array[Byte] =
    ByteBuffer
      .allocate(1 + 4 * 8 + 1)
      .put(StatusUpdate.toByte)
      .putLong(written)
      .putLong(flushed)
      .putLong(applied)
      .putLong(ChronoUnit.MICROS.between(Instant.EPOCH, Instant.now) - PostgresEpoch.Micros)
      .put((if (askReply) 1 else 0).toByte)
      .array
}

/**
 * The connections of Spark's driver to a server. The ordinary connection stays open, and is opened again if it
 * is lost. Threads use it one after the other.
 */
final class ServerClient(address: ServerAddress, applicationName: String) extends AutoCloseable {
  @volatile private var connection: Option[ServerConnection] = None
  @volatile private var isClosed = false
  private var openedConnections = 0
  @volatile private var lockTimeout = Option.empty[Duration]
  private val others = ConcurrentHashMap.newKeySet[ServerConnection]

  /** The number of ordinary connections so far. A new one can lead to another server. */
  def connections: Int = synchronized(openedConnections)

  /** Runs a query, a second time on a new connection if the old one is lost. */
  def query[T](run: ServerConnection => T): T = synchronized(ConnectionError.explaining(address) {
    try run(connection.getOrElse(open()))
    catch {
      case error: SQLException
          if connection.isDefined && ConnectionError.isLost(error) && !isClosed =>
        disconnect()
        run(open())
    }
  })

  /**
   * Lets each later query fail that waits longer than this for the lock of a table. Other threads wait for the query.
   */
  def limitLockWaits(timeout: Duration): Unit = synchronized {
    lockTimeout = Some(timeout)
    query(limit)
  }

  private def limit(connection: ServerConnection): Unit =
    lockTimeout.foreach(timeout => connection.execute(s"SET lock_timeout = ${timeout.toMillis}"))

  /** Runs a query that can take long on a connection of its own, so that no other query waits for it. */
  def alone[T](run: ServerConnection => T): T = ConnectionError.explaining(address) {
    Using.resource(Connections.open(address, applicationName)) { connection =>
      others.add(connection)
      try {
        if (isClosed) throw closed // close() can have come before the connection
        limit(connection)
        run(connection)
      } finally others.remove(connection): Unit
    }
  }

  /** Runs commands on a replication connection of their own. */
  def replication[T](run: ReplicationConnection => T): T =
    ConnectionError.explaining(address) {
      Using.resource(Connections.openReplication(address, applicationName))(run)
    }

  private def open() = {
    val made = Connections.open(address, applicationName)
    connection = Some(made)
    openedConnections += 1
    if (isClosed) { // close() can have come before the connection
      made.abort()
      throw closed
    }
    limit(made)
    made
  }

  private def closed = new IOException("The client of the server is closed.")

  /** Ends the connection. The next query opens another one. */
  def disconnect(): Unit = synchronized {
    connection.foreach(_.abort())
    connection = None
  }

  /** Ends the connections, and the queries of other threads that run on them. */
  override def close(): Unit = {
    isClosed = true
    others.forEach(_.abort())
    connection.foreach(_.abort()) // without the lock, which the query has
  }
}
