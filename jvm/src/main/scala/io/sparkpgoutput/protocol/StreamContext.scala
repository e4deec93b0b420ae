package io.sparkpgoutput.protocol

/**
 * Whether a message stands between Stream Start and Stream Stop, where an xid follows the tag of
 * the messages that can carry one. A number, for it is an argument of generated code.
 */
object StreamContext {
  final val UNKNOWN = 0
  final val OUTSIDE = 1
  final val INSIDE = 2

  def of(inStream: Boolean): Int = if (inStream) INSIDE else OUTSIDE
}
