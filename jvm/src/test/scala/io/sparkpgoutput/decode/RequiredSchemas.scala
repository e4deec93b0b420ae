package io.sparkpgoutput.decode

import org.apache.spark.sql.catalyst.expressions.BoundReference
import org.apache.spark.sql.types.{ArrayType, DataType, StructField, StructType}

import org.scalacheck.Gen

import io.sparkpgoutput.protocol.{MessageSchema, TupleSchema}

/**
 * Schemas that a query may require: any part of the schema of messages, with any part of its
 * structs, and of tuples' texts any elements.
 */
object RequiredSchemas {

  val any: Gen[StructType] = Gen.frequency(
    1 -> Gen.const(new StructType),
    1 -> Gen.const(MessageSchema.schema),
    3 -> part(nestedOnly),
    5 -> part(MessageSchema.schema)
  )

  /** Of a tuple these members, and nothing else of the message. */
  def ofTuple(field: Int, members: String*): StructType = {
    val tuple = StructType(members.map(TupleSchema.complete(_)))
    StructType(Seq(MessageSchema.schema(field).copy(dataType = tuple)))
  }

  private def nestedOnly = StructType(MessageSchema.schema.filter(_.dataType match {
    case _: StructType => true
    case _             => false
  }))

  /** Of many members or of few, and of each struct in it likewise. */
  private def part(struct: StructType): Gen[StructType] = for {
    share <- Gen.oneOf(0.1, 0.5, 0.9)
    kept <- Gen.listOfN(struct.length, Gen.prob(share))
    left = struct.fields.toSeq.zip(kept).collect { case (member, true) => member }
    parts <- Gen.sequence[Seq[StructField], StructField](left.map(partOf))
  } yield StructType(parts)

  private def partOf(member: StructField): Gen[StructField] =
    if (member == TupleSchema.schema(TupleSchema.TEXT)) {
      val some =
        Gen.containerOf[Set, Int](Gen.choose(0, 70)).map(TupleSchema.withElements(member, _))
      Gen.oneOf(Gen.const(member), some)
    } else partOf(member.dataType).map(left => member.copy(dataType = left))

  private def partOf(dataType: DataType): Gen[DataType] = dataType match {
    case struct: StructType => part(struct)
    case ArrayType(element: StructType, containsNull) =>
      part(element).map(ArrayType(_, containsNull))
    case other => Gen.const(other)
  }

  /** The fields of a row with this schema, for a projection of all of them. */
  def references(schema: StructType): Seq[BoundReference] =
    schema.zipWithIndex.map { case (field, ordinal) =>
      BoundReference(ordinal, field.dataType, nullable = true)
    }
}
