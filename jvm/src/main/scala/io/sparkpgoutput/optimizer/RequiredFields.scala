package io.sparkpgoutput.optimizer

import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.types.{ArrayType, DataType, StructField, StructType}

import io.sparkpgoutput.protocol.TupleSchema

/** The part of a value that a query uses. */
sealed abstract class RequiredFields {
  def and(other: RequiredFields): RequiredFields

  /** The part of one of its members. */
  def of(member: String): RequiredFields

  /** What is used of an array, where this is used of one of its elements. */
  final def ofElement(array: Expression): RequiredFields = array.dataType match {
    case ArrayType(_: StructType, _) => this
    case _                           => RequiredFields.Whole
  }

  /** The same of a row of this type, of which only whole members can be left out. */
  def ofTypedRow(row: StructType): RequiredFields

  /** What is left of the value's type. */
  def prune(dataType: DataType): DataType

  /** What is left of a member that has the value. */
  def prune(member: StructField): StructField =
    member.copy(dataType = prune(member.dataType))
}

object RequiredFields {

  /** All of it. */
  case object Whole extends RequiredFields {
    override def and(other: RequiredFields): RequiredFields = this
    override def of(member: String): RequiredFields = this
    override def ofTypedRow(row: StructType): RequiredFields = this
    override def prune(dataType: DataType): DataType = dataType
  }

  /** Of a struct, or of each struct in an array, these members and this part of each. */
  final case class Members(parts: Map[String, RequiredFields]) extends RequiredFields {
    override def and(other: RequiredFields): RequiredFields = other match {
      case Members(others) =>
        Members(others.foldLeft(parts) { case (all, (name, part)) =>
          all.updated(name, all.get(name).fold(part)(_.and(part)))
        })
      case whole => whole.and(this)
    }

    override def of(member: String): RequiredFields = parts(member)

    override def ofTypedRow(row: StructType): RequiredFields = {
      val names = if (parts.isEmpty) row.fieldNames.take(1).toSet else parts.keySet
      Members(names.map(_ -> Whole).toMap)
    }

    override def prune(dataType: DataType): DataType = dataType match {
      case struct: StructType if struct.nonEmpty =>
        val all = if (struct == TupleSchema.schema) TupleSchema.complete else struct
        val left = all.fields.collect {
          case member if parts.contains(member.name) => parts(member.name).prune(member)
        }
        // A struct of nothing could not be written to a file or sent to Python: one member stays.
        val first = struct.head
        if (left.nonEmpty) StructType(left)
        else StructType(Seq(first.copy(dataType = Presence.prune(first.dataType))))
      case ArrayType(element: StructType, containsNull) => ArrayType(prune(element), containsNull)
      case other                                        => other
    }
  }

  /** Of a tuple's array, the elements with these positions, and its length. */
  final case class Elements(positions: Set[Int]) extends RequiredFields {
    override def and(other: RequiredFields): RequiredFields = other match {
      case Elements(others) => Elements(positions ++ others)
      case Presence         => this
      case _                => Whole
    }

    override def of(member: String): RequiredFields = Whole
    override def ofTypedRow(row: StructType): RequiredFields = Whole
    override def prune(dataType: DataType): DataType = dataType
    override def prune(member: StructField): StructField =
      TupleSchema.withElements(member, positions)
  }

  /** Nothing but whether it is NULL. */
  val Presence: Members = Members(Map.empty)

  def member(name: String, part: RequiredFields): RequiredFields = Members(Map(name -> part))

  /** Of a tuple, its bytes as they stand in the message. */
  val CellsName: String = TupleSchema.complete(TupleSchema.CELLS).name
  val Cells: RequiredFields = member(CellsName, Whole)
}
