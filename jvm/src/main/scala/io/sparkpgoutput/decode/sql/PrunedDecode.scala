package io.sparkpgoutput.decode.sql

import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.types.{ArrayType, DataType, StructField, StructType}

import io.sparkpgoutput.decode.MessageFilter
import io.sparkpgoutput.protocol.{MessageSchema, TupleSchema}

/**
 * What the optimizer makes of a decode: the same function of the same arguments, with the fields and
 * the messages that the query uses. Users cannot call it.
 *
 * @param prettyName
 *   the name of the function that it was
 * @param shared
 *   whether more than one operator uses its row. Spark 4.0 and 4.1 would copy it into a filter above
 *   it, and so decode twice; what is not deterministic is left where it stands.
 */
case class PrunedDecode(
    data: Expression,
    inStream: Expression,
    options: Expression,
    override val prettyName: String,
    failFast: Boolean,
    override val required: StructType,
    override val filter: MessageFilter,
    shared: Boolean
) extends DecodeFunction {

  override lazy val deterministic: Boolean = !shared && children.forall(_.deterministic)

  /** For example `pgoutput_decode(data#1)[type, new.text] of INSERT, UPDATE`. */
  override def toString: String = {
    val whole = MessageSchema.schema
    val fields =
      if (required == whole) "" else PrunedDecode.paths(required, whole).mkString("[", ", ", "]")
    val types = filter.types.map(_.toSeq.sorted.mkString(" of ", ", ", ""))
    val relations = filter.relationIds.map(_.toSeq.sorted.mkString(" with relation_id ", ", ", ""))
    super.toString + fields + types.mkString + relations.mkString
  }

  override protected def withNewChildrenInternal(
      data: Expression,
      inStream: Expression,
      options: Expression
  ): Expression = copy(data, inStream, options)
}

object PrunedDecode {
  def of(decode: DecodeFunction): PrunedDecode = decode match {
    case pruned: PrunedDecode => pruned
    case whole =>
      PrunedDecode(
        whole.data,
        whole.inStream,
        whole.options,
        whole.prettyName,
        whole.failFast,
        whole.required,
        whole.filter,
        shared = false
      )
  }

  /** The members that are there; of a struct that is whole only its own name. */
  private def paths(part: DataType, whole: DataType): Seq[String] = (part, whole) match {
    case (part: StructType, whole: StructType) =>
      part.toSeq.flatMap { member =>
        whole.find(_.name == member.name).map(_.dataType).filter(_ != member.dataType) match {
          case Some(all) => paths(member.dataType, all).map(path => s"${member.name}.$path")
          case None      => Seq(member.name + elements(member))
        }
      }
    case (ArrayType(part, _), ArrayType(whole, _)) => paths(part, whole)
    case _                                         => Nil
  }

  private def elements(member: StructField): String =
    TupleSchema.elements(member).fold("")(_.mkString("[", ", ", "]"))
}
