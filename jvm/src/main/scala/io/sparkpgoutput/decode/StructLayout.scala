package io.sparkpgoutput.decode

import org.apache.spark.sql.types.StructType

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

  private val texts: Array[Array[Int]] = struct.fieldNames.map(name =>
    selected.get(name) match {
      case Some((_, Elements(positions))) => positions.toArray.sorted
      case _                              => null
    }
  )

  private val structs: Array[StructLayout] = struct.fields.map { member =>
    val part = selected.get(member.name).fold[FieldSelection](FieldSelection.Nothing)(_._2)
    structOf(member.dataType).map(new StructLayout(_, part)).orNull
  }

  private def slotOf(name: String): Int =
    selected.get(name).fold(Absent) { case (position, _) => firstSlot(size) + 8 * position }

  /** The slot of a member of the struct that begins at `head`; `Absent` if it is not selected. */
  def slot(head: Int, member: Int): Int = {
    val slot = slots(member)
    if (slot < 0) Absent else head + slot
  }

  /** The slot of a tuple's cells as they stand in the message; `Absent` if they are not selected. */
  def cellsSlot(head: Int): Int = if (cells < 0) Absent else head + cells

  /** The member's null bit, of the first 64; none if it is not selected. */
  def nullBit(member: Int): Long = {
    val slot = slots(member)
    if (slot < 0) 0 else 1L << ((slot - firstSlot(size)) >> 3)
  }

  /** The positions of the elements that are selected of a tuple's text; null for all. */
  def elements(member: Int): Array[Int] = texts(member)

  /** The member, a struct or an array of structs. */
  def struct(member: Int): StructLayout = structs(member)
}

object StructLayout {

  /** The slot of a member that is not selected. The writer writes nothing there. */
  final val Absent = -1

  /** The offset of the first slot, which follows the null bits. */
  def firstSlot(members: Int): Int = ((members + 63) >> 6) << 3
}
