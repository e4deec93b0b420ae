package io.sparkpgoutput.changes

/** A message and its position in a stream. */
final case class Positioned(position: Long, bytes: Array[Byte])

object Positioned {
  def all(messages: Seq[Array[Byte]]): Seq[Positioned] =
    messages.zipWithIndex.map { case (bytes, position) => Positioned(position.toLong, bytes) }
}
