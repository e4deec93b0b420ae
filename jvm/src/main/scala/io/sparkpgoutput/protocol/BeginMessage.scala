package io.sparkpgoutput.protocol

/** The fields of a Begin message: Int64 LSN of the commit; Int64 time of the commit; Int32 xid. */
object BeginMessage {
  final val Size = 1 + 8 + 8 + 4

  /** Tells if a message of pgoutput is a Begin message. */
  def is(message: Array[Byte]): Boolean =
    message.length >= Size && message(0) == MessageType.Tag.Begin

  def lsn(message: Array[Byte]): Long = BigEndian.int64(message, 1)

  /** In microseconds since 1970. */
  def timestamp(message: Array[Byte]): Long =
    BigEndian.int64(message, 1 + 8) + PostgresEpoch.Micros

  def xid(message: Array[Byte]): Long = BigEndian.uint32(message, 1 + 8 + 8)
}
