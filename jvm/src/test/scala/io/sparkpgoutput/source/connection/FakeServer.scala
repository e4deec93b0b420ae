package io.sparkpgoutput.source.connection

import java.io.{ByteArrayOutputStream, DataInputStream, DataOutputStream}
import java.net.{InetAddress, ServerSocket, Socket}
import java.nio.ByteBuffer
import java.util.concurrent.atomic.AtomicInteger

import scala.util.Try

/**
 * A server without SQL: a function answers the statements of a test, each with the process of its session. The server
 * itself answers what every connection asks.
 */
final class FakeServer(answer: PartialFunction[(Int, String), FakeServer.Answer])
    extends AutoCloseable {
  import FakeServer._

  private val socket = new ServerSocket(0, 50, InetAddress.getLoopbackAddress)
  private val pids = new AtomicInteger

  /** After a failover, the address leads to a server on another timeline. */
  @volatile var timeline = 1

  val address: ServerAddress = ServerAddress(
    s"jdbc:postgresql://${InetAddress.getLoopbackAddress.getHostAddress}:${socket.getLocalPort}/shop" +
      "?sslmode=disable&gssEncMode=disable",
    Some("lake"),
    Some("secret")
  )

  inThread(while (true) {
    val client = socket.accept()
    inThread(session(client))
  })

  private def inThread(body: => Unit): Unit = {
    val thread = new Thread(() => Try(body): Unit)
    thread.setDaemon(true)
    thread.start()
  }

  private def session(client: Socket): Unit =
    try {
      val in = new DataInputStream(client.getInputStream)
      val out = new DataOutputStream(client.getOutputStream)
      val pid = pids.incrementAndGet()
      in.readNBytes(in.readInt() - 4)
      send(out, 'R')(_.writeInt(0))
      Settings.foreach { case (name, value) =>
        send(out, 'S') { body =>
          text(body, name)
          text(body, value)
        }
      }
      send(out, 'K') { body =>
        body.writeInt(pid)
        body.writeInt(0)
      }
      send(out, 'Z')(_.writeByte('I'))
      def ask(sql: String) = (answer orElse always)((pid, sql))
      var statements = Map.empty[String, String]
      var bound: Answer = Rows()
      while (true) {
        val tag = in.readByte().toChar
        val body = ByteBuffer.wrap(in.readNBytes(in.readInt() - 4))
        tag match {
          case 'Q' =>
            val found = ask(text(body))
            reply(out, found)
            if (!found.isInstanceOf[Stream]) send(out, 'Z')(_.writeByte('I'))
          case 'P' =>
            statements += text(body) -> text(body)
            send(out, '1')(_ => ())
          case 'B' =>
            text(body): Unit // the portal
            val sql = statements(text(body))
            val values = parameters(body)
            bound = ask(if (values.isEmpty) sql else s"$sql -- ${values.mkString(", ")}")
            send(out, '2')(_ => ())
          case 'D' => describe(out, bound)
          case 'E' => reply(out, bound, describes = false)
          case 'S' => send(out, 'Z')(_.writeByte('I'))
          case _   => ()
        }
      }
    } finally client.close()

  private val always: PartialFunction[(Int, String), Answer] = {
    case (_, sql) if sql.contains("set_config") =>
      Rows(SessionSetup.texts :+ ("count" -> "0"))
    case (_, "SHOW server_version_num")                      => Rows(Seq("version" -> "180000"))
    case (_, sql) if sql.contains("pg_stat_get_wal_senders") => Rows(Seq("pid" -> "1"))
    case (_, "IDENTIFY_SYSTEM") =>
      Rows(Seq("systemid" -> "7", "timeline" -> timeline.toString, "dbname" -> "shop"))
    case (_, sql) if sql.contains("wal_block_size") =>
      Rows(Seq("block_size" -> "8192", "in_recovery" -> "f", "started" -> "2026-01-01"))
    case (_, "SELECT pg_is_in_recovery()")              => Rows(Seq("in_recovery" -> "f"))
    case (_, sql) if sql.contains("wal_sender_timeout") => Rows(Seq("setting" -> "60000"))
    case (_, "SELECT 1")                                => Rows(Seq("one" -> "1"))
  }

  override def close(): Unit = socket.close()
}

object FakeServer {
  sealed trait Answer

  /** Rows with the same columns; at least one. */
  final case class Rows(rows: Seq[(String, String)]*) extends Answer
  final case class Failure(state: String) extends Answer

  /** The messages of a slot. */
  final case class Stream(messages: Array[Byte]*) extends Answer

  /** The server has sent all transactions with a lower commit LSN. */
  def keepalive(lsn: Long): Array[Byte] =
    ByteBuffer.allocate(18).put('k'.toByte).putLong(lsn).array

  private val Settings = Map(
    "server_version" -> "18.0",
    "client_encoding" -> "UTF8",
    "DateStyle" -> "ISO, MDY",
    "TimeZone" -> "UTC",
    "integer_datetimes" -> "on",
    "standard_conforming_strings" -> "on"
  )
  private val TypeText = 25

  private def send(out: DataOutputStream, tag: Char)(write: DataOutputStream => Unit): Unit = {
    val bytes = new ByteArrayOutputStream
    write(new DataOutputStream(bytes))
    out.writeByte(tag.toInt)
    out.writeInt(bytes.size + 4)
    bytes.writeTo(out)
    out.flush()
  }

  private def text(out: DataOutputStream, text: String): Unit = {
    out.write(text.getBytes)
    out.writeByte(0)
  }

  private def text(body: ByteBuffer): String =
    new String(Iterator.continually(body.get()).takeWhile(_ != 0).toArray)

  /** The parameters of a statement: texts, or integers. */
  private def parameters(body: ByteBuffer): Seq[String] = {
    val areIntegers = Seq.fill(body.getShort.toInt)(body.getShort == 1)
    Seq.tabulate(body.getShort.toInt) { index =>
      val value = new Array[Byte](body.getInt)
      body.get(value)
      if (areIntegers.lift(index).contains(true)) BigInt(value).toString else new String(value)
    }
  }

  private def describe(out: DataOutputStream, answer: Answer): Unit = answer match {
    case Rows(rows @ _*) =>
      send(out, 'T') { body =>
        body.writeShort(rows.head.length)
        rows.head.foreach { case (name, _) =>
          text(body, name)
          body.writeInt(0)
          body.writeShort(0)
          body.writeInt(TypeText)
          body.writeShort(-1)
          body.writeInt(-1)
          body.writeShort(0)
        }
      }
    case _ => ()
  }

  private def reply(
      out: DataOutputStream,
      answer: Answer,
      describes: Boolean = true
  ): Unit = answer match {
    case Stream(messages @ _*) =>
      send(out, 'W') { body =>
        body.writeByte(0)
        body.writeShort(0)
      }
      messages.foreach(message => send(out, 'd')(_.write(message)))
    case Failure(state) =>
      send(out, 'E') { body =>
        Seq("SERROR", s"C$state", "Mno", "").foreach(text(body, _))
      }
    case Rows(rows @ _*) =>
      if (describes) describe(out, answer)
      rows.foreach(row =>
        send(out, 'D') { body =>
          body.writeShort(row.length)
          row.foreach { case (_, value) =>
            if (value == null) body.writeInt(-1)
            else {
              body.writeInt(value.getBytes.length)
              body.write(value.getBytes)
            }
          }
        }
      )
      send(out, 'C')(text(_, "SELECT"))
  }
}
