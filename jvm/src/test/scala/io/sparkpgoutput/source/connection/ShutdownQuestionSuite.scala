package io.sparkpgoutput.source.connection

import java.io.DataInputStream
import java.net.{InetAddress, ServerSocket}

import scala.util.Try

import org.postgresql.util.HostSpec
import org.scalatest.funsuite.AnyFunSuite

class ShutdownQuestionSuite extends AnyFunSuite {
  private val host = InetAddress.getLoopbackAddress.getHostAddress

  /** Runs something with the port of a server that refuses each connection with an error. */
  private def refusing[T](state: String)(run: Int => T): T = {
    val socket = new ServerSocket(0, 50, InetAddress.getLoopbackAddress)
    val thread = new Thread(() => Try(while (true) refuse(socket, state)): Unit)
    thread.setDaemon(true)
    thread.start()
    try run(socket.getLocalPort)
    finally socket.close()
  }

  private def refuse(socket: ServerSocket, state: String): Unit = {
    val client = socket.accept()
    try {
      val in = new DataInputStream(client.getInputStream)
      in.readNBytes(in.readInt() - 4)
      val fields = s"SFATAL\u0000C$state\u0000Mno\u0000\u0000".getBytes
      client.getOutputStream.write(
        "E\u0000\u0000\u0000".getBytes ++ ((fields.length + 4).toByte +: fields)
      )
    } finally client.close()
  }

  private def address(ports: Int*) = ServerAddress(
    ports.map(port => s"$host:$port").mkString("jdbc:postgresql://", ",", "/shop") +
      "?sslmode=disable&gssEncMode=disable&targetServerType=primary&loadBalanceHosts=true",
    Some("lake"),
    Some("secret")
  )

  test("of several servers, the one that the session is connected to is asked") {
    refusing("57P03") { stopping =>
      refusing("53300") { other =>
        def isStopping(port: Int) = Connections.isShuttingDown(
          address(stopping, other),
          new HostSpec(host, port),
          "test"
        )
        assert(isStopping(stopping))
        assert(!isStopping(other))
      }
    }
  }

  test("the address of one host keeps the other parameters") {
    val found = DriverParameters.of(address(1, 2).only(new HostSpec("[::1]", 3)))
    assert(found("sslmode") == "disable")
    assert(found("targetServerType") == "any")
    assert((found("PGHOST"), found("PGPORT")) == ("[::1]" -> "3"))
  }
}
