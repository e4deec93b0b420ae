package io.sparkpgoutput.source.connection

import jdk.net.ExtendedSocketOptions.{TCP_KEEPCOUNT, TCP_KEEPIDLE, TCP_KEEPINTERVAL}
import org.scalatest.funsuite.AnyFunSuite

class KeepAliveSocketsSuite extends AnyFunSuite {
  test("a socket asks after a minute of silence whether the other side is there") {
    val socket = new KeepAliveSockets().createSocket()
    try {
      assume(socket.supportedOptions.contains(TCP_KEEPIDLE), "Windows before version 10 cannot")
      val found = Seq(TCP_KEEPIDLE, TCP_KEEPINTERVAL, TCP_KEEPCOUNT).map(socket.getOption(_).toInt)
      assert(found == Seq(60, 10, 6))
    } finally socket.close()
  }
}
