package io.sparkpgoutput.source.connection

import java.net.{InetAddress, Socket, SocketOption}
import javax.net.SocketFactory

import jdk.net.ExtendedSocketOptions.{TCP_KEEPCOUNT, TCP_KEEPIDLE, TCP_KEEPINTERVAL}

/**
 * Sockets that notice within two minutes that the other side is gone, if they have sent nothing since
 * then. By default, Linux needs more than two hours, and until then a read that has begun waits: the
 * driver's `socketTimeout` would also end a session in which nothing happens. If they have sent
 * something, Linux sends it again for about 15 minutes (`net.ipv4.tcp_retries2`).
 */
final class KeepAliveSockets extends SocketFactory {
  private val default = SocketFactory.getDefault

  override def createSocket(): Socket = {
    val socket = default.createSocket()
    KeepAliveSockets.Options.foreach { case (option, value) =>
      if (socket.supportedOptions.contains(option)) socket.setOption(option, value)
    }
    socket
  }

  // The driver calls only the first one. The others are those of the platform.
  override def createSocket(host: String, port: Int): Socket = default.createSocket(host, port)
  override def createSocket(host: InetAddress, port: Int): Socket = default.createSocket(host, port)
  override def createSocket(host: String, port: Int, local: InetAddress, localPort: Int): Socket =
    default.createSocket(host, port, local, localPort)
  override def createSocket(
      host: InetAddress,
      port: Int,
      local: InetAddress,
      localPort: Int
  ): Socket = default.createSocket(host, port, local, localPort)
}

private object KeepAliveSockets {

  /** The seconds of silence, the seconds between two probes, and the probes. */
  private val Options: Map[SocketOption[Integer], Integer] =
    Map(TCP_KEEPIDLE -> 60, TCP_KEEPINTERVAL -> 10, TCP_KEEPCOUNT -> 6)
}
