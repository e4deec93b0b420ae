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
  final def and(other: FieldSelection): FieldSelection = (this, other) match {
    case (Unused, selected)                 => selected
    case (selected, Unused)                 => selected
    case (Presence, elements: Elements)     => elements
    case (elements: Elements, Presence)     => elements
    case (Elements(some), Elements(others)) => Elements(some ++ others)
    case (Members(parts, cells), Members(others, otherCells)) =>
      val all = others.foldLeft(parts) { case (found, (name, part)) =>
        found.updated(name, found.get(name).fold(part)(_.and(part)))
      }
      Members(all, cells || otherCells)
    case _ => All
  }

  /** Returns the part of a member. The query must use this member. */
  final def of(member: String): FieldSelection = this match {
    case Members(parts, _) => parts.getOrElse(member, Presence)
    case Elements(_)       => All
    case same              => same
  }

  /**
   * Returns whether this selects all of a value. Only structs and the texts of tuples have parts.
   */
  final def isAll(dataType: DataType): Boolean = this match {
    case All => true
    case Members(parts, cells) =>
      !cells && structOf(dataType).forall(
        _.forall(member => parts.get(member.name).exists(_.isAll(member.dataType)))
      )
    case _ => false
  }

  /**
   * Returns the members of a struct that are written, with the part of each. If a query only asks
   * whether the struct is NULL, the struct keeps its first member, because a struct without members
   * cannot be written to a file or sent to Python.
   */
  final def members(struct: StructType): Seq[(StructField, FieldSelection)] = this match {
    case Unused => Nil
    case Members(parts, cells) =>
      val named = struct.flatMap(member => parts.get(member.name).map(member -> _))
      val found = if (cells) named :+ (StructField(CellsName, BinaryType) -> All) else named
      if (found.isEmpty) struct.take(1).map(_ -> Presence) else found
    case _ => struct.map(_ -> All)
  }

  /** The type of what is written. */
  final def prune(dataType: DataType): DataType = dataType match {
    case struct: StructType => StructType(members(struct).map { case (member, part) =>
        member.copy(dataType = part.prune(member.dataType))
      })
    case ArrayType(element: StructType, containsNull) => ArrayType(prune(element), containsNull)
    case other                                        => other
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
  case object All extends FieldSelection

  /** Nothing of it, not even whether it is NULL. */
  case object Unused extends FieldSelection

  /**
   * Selects these members of a struct, or of each struct in an array, and a part of each member.
   *
   * @param cells
   *   true if a tuple has one more member, `cells`. It holds the number of columns and the cells as
   *   they are in the message. Typed rows are read from it.
   */
  final case class Members(parts: Map[String, FieldSelection], cells: Boolean = false)
      extends FieldSelection

  /**
   * Selects some elements of the texts of a tuple, and the number of elements. The other elements
   * may be NULL.
   */
  final case class Elements(positions: Set[Int]) extends FieldSelection

  /** Selects only whether the value is NULL. */
  val Presence: Members = Members(Map.empty)

  /** The cells of a tuple as they are in the message. */
  val Cells: Members = Members(Map.empty, cells = true)

  final val CellsName = "cells"

  def member(name: String, part: FieldSelection): FieldSelection = Members(Map(name -> part))

  /** All of these members. */
  def members(names: String*): FieldSelection = Members(names.map(_ -> All).toMap)

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
