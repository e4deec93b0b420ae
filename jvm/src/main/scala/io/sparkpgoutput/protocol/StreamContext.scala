package io.sparkpgoutput.protocol

/**
 * The place of a message: between Stream Start and Stream Stop, or outside. Inside, an xid follows the
 * tag of the messages that can carry one. It is a number, because generated code passes it on.
 */
object StreamContext {
  final val UNKNOWN = 0
  final val OUTSIDE = 1
  final val INSIDE = 2

  def of(inStream: Boolean): Int = if (inStream) INSIDE else OUTSIDE
}
