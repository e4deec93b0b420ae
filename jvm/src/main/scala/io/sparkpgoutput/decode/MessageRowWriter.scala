package io.sparkpgoutput.decode

import java.lang.invoke.{MethodHandles, VarHandle}
import java.nio.ByteOrder
import java.util.Arrays

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.types.StructType
import org.apache.spark.unsafe.array.ByteArrayMethods.{
  MAX_ROUNDED_ARRAY_LENGTH,
  roundNumberOfBytesToNearestWord
}

import StructLayout.{Absent, firstSlot}

/**
 * Writes the row of a message in Spark's own binary format, front to back. The next message's row
 * overwrites it.
 *
 * The row, its structs and its arrays have the same layout: a head with null bits and one 8-byte slot
 * a member, then the members of variable size. A member of variable size is appended, and its offset
 * from the head and its size go to the slot. The methods take the slot, which is `Absent` if the
 * member is not selected, and the position of the head that it belongs to.
 *
 * @see `UnsafeRow`, `UnsafeArrayData`
 */
final class MessageRowWriter(struct: StructLayout) {
  import MessageRowWriter._

  private val row = new UnsafeRow(struct.size)
  private val headSize = structHead(struct.size)
  private val allNull = if (struct.size == 0) 0L else -1L >>> (64 - struct.size)

  private val noFields = new Array[Byte](headSize)
  private var buffer = new Array[Byte](FirstSize)
  private var end = 0
  private var nulls = 0L

  /** Begins a row, all of its fields NULL. */
  def start(): Unit = {
    if (buffer.length > KeptSize) buffer = new Array[Byte](FirstSize)
    System.arraycopy(noFields, 0, buffer, 0, headSize)
    nulls = allNull
    end = headSize
  }

  /** The row. It is valid until `start` is called again. */
  def finish(): UnsafeRow = {
    if (headSize > 0) Word.set(buffer, 0, nulls)
    // A reference is stored only if it changes, because the garbage collector records each store.
    if (row.getBaseObject eq buffer) row.setTotalSize(end) else row.pointTo(buffer, end)
    row
  }

  // The fields of the row itself.

  def setLong(field: Int, value: Long): Unit = {
    putLong(struct.slot(0, field), value)
    setNotNull(field)
  }

  def setBoolean(field: Int, value: Boolean): Unit = {
    putBoolean(struct.slot(0, field), value)
    setNotNull(field)
  }

  def setBytes(field: Int, bytes: Array[Byte], from: Int, size: Int): Unit = {
    putBytes(0, struct.slot(0, field), bytes, from, size)
    setNotNull(field)
  }

  /** Makes a field not NULL: its value is what its slot has or points to. */
  def setNotNull(field: Int): Unit = nulls &= ~struct.nullBit(field)

  /** Sets a field to the struct or array at `head`, which ends here. */
  def setNested(field: Int, head: Int): Unit = {
    closeNested(0, struct.slot(0, field), head)
    setNotNull(field)
  }

  // Structs and arrays in it, all members not NULL at first.

  /** Begins a struct; returns the position of its head. */
  def openStruct(struct: StructLayout): Int = {
    val head = append(structHead(struct.size).toLong)
    zero(head, end)
    head
  }

  /**
   * Begins an array of variable-size or 8-byte elements and returns the position of its head. The caller
   * sets each element.
   */
  def openArray(slot: Int, elements: Int): Int =
    if (slot < 0) Absent
    else {
      val nullBits = firstSlot(elements)
      val head = append(8L + nullBits + 8L * elements)
      putLong(head, elements.toLong)
      zero(head + 8, head + 8 + nullBits)
      head
    }

  /** Begins an array whose elements are all NULL at first. */
  def openNullArray(slot: Int, elements: Int): Int = {
    val head = openArray(slot, elements)
    if (head >= 0) {
      zero(elementSlot(head, elements, 0), end)
      var element = 0
      while (element < elements) {
        val bits = math.min(64, elements - element)
        putLong(nullBits(head, element), -1L >>> (64 - bits))
        element += 64
      }
    }
    head
  }

  /** The slot of the first element of the array at `head`; the others follow, 8 bytes each. */
  def elementSlot(head: Int, elements: Int, element: Int): Int =
    if (head < 0) Absent else head + 8 + firstSlot(elements) + 8 * element

  def setNullMember(head: Int, struct: StructLayout, member: Int): Unit =
    setNullBits(head, struct.nullBit(member))

  def setNullElement(head: Int, elements: Int, element: Int): Unit =
    if (head >= 0) {
      putLong(elementSlot(head, elements, element), 0L)
      setNullBits(nullBits(head, element), 1L << (element & 63))
    }

  def setNotNullElement(head: Int, element: Int): Unit = if (head >= 0) {
    val word = nullBits(head, element)
    putLong(word, (Word.get(buffer, word): Long) & ~(1L << (element & 63)))
  }

  /** The word with the null bit of an element of the array at `head`. */
  private def nullBits(head: Int, element: Int): Int = head + 8 + (element >> 6) * 8

  private def setNullBits(word: Int, bits: Long): Unit =
    if (bits != 0) putLong(word, (Word.get(buffer, word): Long) | bits)

  def putLong(slot: Int, value: Long): Unit = if (slot >= 0) Word.set(buffer, slot, value)
  def putInt(slot: Int, value: Int): Unit = if (slot >= 0) Int32.set(buffer, slot, value)
  def putBoolean(slot: Int, value: Boolean): Unit = putByte(slot, 0, if (value) 1 else 0)

  /** Appends bytes; `slot` then points to them. */
  def putBytes(head: Int, slot: Int, bytes: Array[Byte], from: Int, size: Int): Unit =
    end = write(end, head, slot, bytes, from, size)

  /** The position where bytes are appended. A caller that writes many values may keep it. */
  def position: Int = end
  def moveTo(position: Int): Unit = end = position

  /** Writes bytes at a position; `slot` then points to them. Returns the position after them. */
  def write(position: Int, head: Int, slot: Int, bytes: Array[Byte], from: Int, size: Int): Int =
    if (slot < 0) position
    else {
      val padded = roundNumberOfBytesToNearestWord(size)
      reserve(position, padded.toLong)
      val target = buffer
      Word.set(target, slot, reference(head, position, size))
      if (padded > 0) Word.set(target, position + padded - 8, 0L)
      System.arraycopy(bytes, from, target, position, size)
      position + padded
    }

  /** Appends room for bytes that are set one by one; `slot` then points to it. */
  def openBytes(head: Int, slot: Int, size: Int): Int =
    if (slot < 0) Absent
    else {
      val start = append(roundNumberOfBytesToNearestWord(size).toLong)
      putLong(slot, reference(head, start, size))
      zero(math.max(start, end - 8), end)
      start
    }

  def putByte(bytes: Int, index: Int, value: Int): Unit =
    if (bytes >= 0) buffer(bytes + index) = value.toByte

  /** Ends the struct or array at `nested`; `slot` then points to it. */
  def closeNested(head: Int, slot: Int, nested: Int): Unit =
    putLong(slot, reference(head, nested, end - nested))

  /** Appends bytes that the caller sets, a multiple of 8; returns where they begin. */
  private def append(size: Long): Int = {
    val start = end
    reserve(start, size)
    end += size.toInt
    start
  }

  private def zero(from: Int, to: Int): Unit = {
    var at = from
    while (at < to) {
      Word.set(buffer, at, 0L)
      at += 8
    }
  }

  private def reserve(position: Int, size: Long): Unit =
    if (size > buffer.length - position) grow(position + size)

  private def grow(needed: Long): Unit = {
    if (needed > MAX_ROUNDED_ARRAY_LENGTH) {
      throw new UnsupportedOperationException(
        s"A decoded message needs a row of at least $needed bytes, more than Spark's rows can have"
      )
    }
    val wanted = math.min(math.max(2L * buffer.length, needed), MAX_ROUNDED_ARRAY_LENGTH.toLong)
    buffer = Arrays.copyOf(buffer, wanted.toInt)
  }
}

private object MessageRowWriter {
  private val FirstSize = 4096

  /** A larger buffer is not kept after its row. */
  private val KeptSize = 1 << 24

  /** Eight bytes in the processor's order. Unlike `Platform`, it checks the array's bounds. */
  private val Word: VarHandle =
    MethodHandles.byteArrayViewVarHandle(classOf[Array[Long]], ByteOrder.nativeOrder)

  private val Int32: VarHandle =
    MethodHandles.byteArrayViewVarHandle(classOf[Array[Int]], ByteOrder.nativeOrder)

  /** The slot of a member of variable size: its offset and its size. */
  private def reference(head: Int, start: Int, size: Int): Long =
    (start - head).toLong << 32 | size

  private def structHead(members: Int): Int = firstSlot(members) + 8 * members
}

/**
 * The places of a struct's members in rows that have only the selected ones. So the layout of a
 * message is written down once, for the whole struct, and serves for any part of it.
 *
 * @param struct the struct with all its members
 */
final class StructLayout(struct: StructType, selection: FieldSelection) {
  import FieldSelection.{CellsName, Elements, structOf}
  import StructLayout._

  private val selected: Map[String, (Int, FieldSelection)] =
    selection.members(struct).zipWithIndex.map { case ((member, part), position) =>
      member.name -> (position, part)
    }.toMap

  /** The number of members that are selected. */
  val size: Int = selected.size

  private val slots: Array[Int] = struct.fieldNames.map(slotOf)

  private val cells: Int = slotOf(CellsName)

  /** For each member, the positions of the elements that are selected of a tuple's text; null for all. */
  val elements: Array[Array[Int]] = struct.fieldNames.map(name =>
    selected.get(name) match {
      case Some((_, Elements(positions))) => positions.toArray.sorted
      case _                              => null
    }
  )

  private val structs: Array[StructLayout] = struct.fields.map { member =>
    val part = selected.get(member.name).fold[FieldSelection](FieldSelection.Unused)(_._2)
    structOf(member.dataType).map(new StructLayout(_, part)).orNull
  }

  private def slotOf(name: String): Int =
    selected.get(name).fold(Absent) { case (position, _) => firstSlot(size) + 8 * position }

  /** The slot of a member of the struct that begins at `head`; `Absent` if it is not selected. */
  def slot(head: Int, member: Int): Int = {
    val slot = slots(member)
    if (slot < 0) Absent else head + slot
  }

  /** The slot of a tuple's cells as they are in the message; `Absent` if they are not selected. */
  def cellsSlot(head: Int): Int = if (cells < 0) Absent else head + cells

  /** The null bit of a member, which is among the first 64 members; 0 if it is not selected. */
  def nullBit(member: Int): Long = {
    val slot = slots(member)
    if (slot < 0) 0 else 1L << ((slot - firstSlot(size)) >> 3)
  }

  /** The member, a struct or an array of structs. */
  def struct(member: Int): StructLayout = structs(member)
}

object StructLayout {

  /** The slot of a member that is not selected. The writer writes nothing there. */
  final val Absent = -1

  /** The offset of the first slot, which follows the null bits. */
  def firstSlot(members: Int): Int = ((members + 63) >> 6) << 3
}
