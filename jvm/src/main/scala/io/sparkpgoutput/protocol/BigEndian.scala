package io.sparkpgoutput.protocol

import java.lang.invoke.{MethodHandles, VarHandle}
import java.nio.ByteOrder

/** Reads integers as PostgreSQL sends them. The methods check the array's bounds only. */
object BigEndian {
  private val Int16: VarHandle =
    MethodHandles.byteArrayViewVarHandle(classOf[Array[Short]], ByteOrder.BIG_ENDIAN)
  private val Int32: VarHandle =
    MethodHandles.byteArrayViewVarHandle(classOf[Array[Int]], ByteOrder.BIG_ENDIAN)
  private val Int64: VarHandle =
    MethodHandles.byteArrayViewVarHandle(classOf[Array[Long]], ByteOrder.BIG_ENDIAN)

  def int16(bytes: Array[Byte], at: Int): Short = Int16.get(bytes, at)
  def int32(bytes: Array[Byte], at: Int): Int = Int32.get(bytes, at)
  def uint32(bytes: Array[Byte], at: Int): Long = int32(bytes, at) & 0xffffffffL
  def int64(bytes: Array[Byte], at: Int): Long = Int64.get(bytes, at)
}
