package io.sparkpgoutput.protocol

import org.apache.spark.sql.catalyst.expressions.BoundReference
import org.apache.spark.sql.types.{ArrayType, DataType, StructType}

import org.scalacheck.Gen

/**
 * Schemas that a query may require: any part of the schema of messages, with any part of its
 * structs.
 */
object RequiredSchemas {

  val any: Gen[StructType] = Gen.frequency(
    1 -> Gen.const(new StructType),
    1 -> Gen.const(MessageSchema.schema),
    3 -> part(nestedOnly),
    5 -> part(MessageSchema.schema)
  )

  private def nestedOnly = StructType(MessageSchema.schema.filter(_.dataType match {
    case _: StructType => true
    case _             => false
  }))

  /** Of many members or of few, and of each struct in it likewise. */
  private def part(struct: StructType): Gen[StructType] = for {
    share <- Gen.oneOf(0.1, 0.5, 0.9)
    kept <- Gen.listOfN(struct.length, Gen.prob(share))
    left = struct.fields.toSeq.zip(kept).collect { case (member, true) => member }
    types <- Gen.sequence[Seq[DataType], DataType](left.map(member => partOf(member.dataType)))
  } yield StructType(
    left.zip(types).map { case (member, dataType) => member.copy(dataType = dataType) }
  )

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
