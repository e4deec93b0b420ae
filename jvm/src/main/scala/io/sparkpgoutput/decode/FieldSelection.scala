package io.sparkpgoutput.decode

import org.apache.spark.sql.types.{ArrayType, BinaryType, DataType, StructField, StructType}

import io.sparkpgoutput.protocol.MessageSchema

/**
 * The part of a value that a query uses. The optimizer finds it, the decoder writes only that part,
 * and the type of what is written derives from it.
 */
sealed abstract class FieldSelection {
  import FieldSelection._

  /** Returns the parts that at least one of both selects. */
  def and(other: FieldSelection): FieldSelection

  /** Returns the part of a member. The query must use this member. */
  def of(member: String): FieldSelection

  /**
   * Returns whether this selects all of a value. Only structs and the texts of tuples have parts.
   */
  def isAll(dataType: DataType): Boolean

  /**
   * Returns the members of a struct that are written, with the part of each. If a query only asks
   * whether the struct is NULL, the struct keeps its first member, because a struct without members
   * cannot be written to a file or sent to Python.
   */
  def members(struct: StructType): Seq[(StructField, FieldSelection)]

  /** The type of what is written. */
  final def prune(dataType: DataType): DataType = dataType match {
    case struct: StructType => StructType(members(struct).map { case (member, part) =>
        member.copy(dataType = part.prune(member.dataType))
      })
    case ArrayType(element: StructType, containsNull) => ArrayType(prune(element), containsNull)
    case other                                        => other
  }

  /** The part of an array, if this is the part of one of its elements. */
  final def ofElement(array: DataType): FieldSelection = array match {
    case ArrayType(_: StructType, _) => this
    case _                           => All
  }

  /**
   * Returns the names of the members that are written, as a plan shows them: for example
   * `relation.name` and `new.text[3]`. If all members of a struct are written, only the name of the
   * struct is shown.
   */
  final def paths(struct: StructType): Seq[String] = members(struct).flatMap {
    case (member, part) if part.isAll(member.dataType) => Seq(member.name)
    case (member, Elements(positions)) =>
      Seq(positions.toSeq.sorted.mkString(s"${member.name}[", ", ", "]"))
    case (member, part) =>
      structOf(member.dataType).toSeq.flatMap(part.paths).map(path => s"${member.name}.$path")
  }
}

object FieldSelection {

  /** All of it. */
  case object All extends FieldSelection {
    override def and(other: FieldSelection): FieldSelection = this
    override def of(member: String): FieldSelection = this
    override def isAll(dataType: DataType): Boolean = true
    override def members(struct: StructType): Seq[(StructField, FieldSelection)] =
      struct.map(_ -> All)
  }

  /** Nothing, not even whether it is NULL. */
  case object Nothing extends FieldSelection {
    override def and(other: FieldSelection): FieldSelection = other
    override def of(member: String): FieldSelection = this
    override def isAll(dataType: DataType): Boolean = false
    override def members(struct: StructType): Seq[(StructField, FieldSelection)] = Nil
  }

  /**
   * Selects these members of a struct, or of each struct in an array, and a part of each member.
   *
   * @param cells
   *   true if a tuple has one more member, `cells`. It holds the number of columns and the cells as
   *   they are in the message. Typed rows are read from it.
   */
  final case class Fields(parts: Map[String, FieldSelection], cells: Boolean = false)
      extends FieldSelection {

    override def and(other: FieldSelection): FieldSelection = other match {
      case Fields(others, otherCells) =>
        val all = others.foldLeft(parts) { case (found, (name, part)) =>
          found.updated(name, found.get(name).fold(part)(_.and(part)))
        }
        Fields(all, cells || otherCells)
      case Nothing => this
      case other   => other.and(this)
    }

    override def of(member: String): FieldSelection = parts.getOrElse(member, Presence)

    override def isAll(dataType: DataType): Boolean = !cells && structOf(dataType).forall(
      _.forall(member => parts.get(member.name).exists(_.isAll(member.dataType)))
    )

    override def members(struct: StructType): Seq[(StructField, FieldSelection)] = {
      val named = struct.flatMap(member => parts.get(member.name).map(member -> _))
      val found = if (cells) named :+ (StructField(CellsName, BinaryType) -> All) else named
      if (found.isEmpty) struct.take(1).map(_ -> Presence) else found
    }
  }

  /**
   * Selects some elements of the texts of a tuple, and the number of elements. The other elements
   * may be NULL.
   */
  final case class Elements(positions: Set[Int]) extends FieldSelection {
    override def and(other: FieldSelection): FieldSelection = other match {
      case Elements(others)   => Elements(positions ++ others)
      case Presence | Nothing => this
      case _                  => All
    }
    override def of(member: String): FieldSelection = All
    override def isAll(dataType: DataType): Boolean = false
    override def members(struct: StructType): Seq[(StructField, FieldSelection)] =
      All.members(struct)
  }

  /** Selects only whether the value is NULL. */
  val Presence: Fields = Fields(Map.empty)

  /** The cells of a tuple as they are in the message. */
  val Cells: Fields = Fields(Map.empty, cells = true)

  final val CellsName = "cells"

  def member(name: String, part: FieldSelection): FieldSelection = Fields(Map(name -> part))

  /** All of these members. */
  def members(names: String*): FieldSelection = Fields(names.map(_ -> All).toMap)

  /** All of these fields of a message, which are ordinals in [[MessageSchema]]. */
  def messageFields(ordinals: Int*): FieldSelection =
    members(ordinals.map(MessageSchema.schema(_).name): _*)

  /** The struct that has the members: the type itself, or the type of an array's elements. */
  def structOf(dataType: DataType): Option[StructType] = dataType match {
    case struct: StructType               => Some(struct)
    case ArrayType(struct: StructType, _) => Some(struct)
    case _                                => None
  }
}
