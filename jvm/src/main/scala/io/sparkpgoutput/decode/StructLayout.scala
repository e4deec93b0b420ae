package io.sparkpgoutput.decode

import org.apache.spark.sql.types.{ArrayType, DataType, StructType}

import io.sparkpgoutput.protocol.TupleSchema

/**
 * Where the members of a struct stand in rows that have only those of them that are required, so
 * that a message's layout can be written down for the whole struct and serve for any part of it.
 *
 * @param full
 *   the struct with all its members
 * @param required
 *   the same with some of them, in the same order; structs and arrays of structs in it likewise
 */
final class StructLayout(full: StructType, required: StructType) {
  import StructLayout._

  /** The number of members that are required. */
  val size: Int = required.length

  private val slots: Array[Int] =
    full.fieldNames.map { name =>
      val position = required.fieldNames.indexOf(name)
      if (position < 0) Absent else firstSlot(size) + 8 * position
    }

  private val wanted: Array[Array[Int]] = full.fields.map { member =>
    required.find(_.name == member.name).flatMap(TupleSchema.elements).map(_.toArray).orNull
  }

  private val structs: Array[StructLayout] = full.fields.map { member =>
    structOf(member.dataType).map { nested =>
      val kept = required.find(_.name == member.name).flatMap(found => structOf(found.dataType))
      new StructLayout(nested, kept.getOrElse(new StructType))
    }.orNull
  }

  /**
   * The slot of a member of the struct that begins at `head`; `Absent` where it is not required.
   */
  def slot(head: Int, member: Int): Int = {
    val slot = slots(member)
    if (slot < 0) Absent else head + slot
  }

  /** The member's null bit, of the first 64; none where it is not required. */
  def nullBit(member: Int): Long = {
    val slot = slots(member)
    if (slot < 0) 0 else 1L << ((slot - firstSlot(size)) >> 3)
  }

  /** The positions of the elements that are required of a tuple's text; null for all. */
  def elements(member: Int): Array[Int] = wanted(member)

  /** The member, a struct or an array of structs. */
  def struct(member: Int): StructLayout = structs(member)
}

object StructLayout {

  /** What is written to it is not wanted. */
  final val Absent = -1

  /** Where the slots begin, after the null bits. */
  def firstSlot(members: Int): Int = ((members + 63) >> 6) << 3

  private def structOf(dataType: DataType): Option[StructType] = dataType match {
    case struct: StructType               => Some(struct)
    case ArrayType(struct: StructType, _) => Some(struct)
    case _                                => None
  }
}
