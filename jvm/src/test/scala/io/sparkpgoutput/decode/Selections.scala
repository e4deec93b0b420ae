package io.sparkpgoutput.decode

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.types.StructType

import org.scalacheck.Gen

import io.sparkpgoutput.decode.FieldSelection.{All, Cells, Elements, Members, structOf}
import io.sparkpgoutput.protocol.{MessageSchema, TupleSchema}

/**
 * Parts of a message that a query may use: any of its fields, any members of its structs, and any
 * elements of tuples' texts.
 */
object Selections {

  val any: Gen[FieldSelection] = Gen.frequency(
    1 -> Gen.const(FieldSelection.Unused),
    1 -> Gen.const(FieldSelection.Presence),
    1 -> Gen.const(All),
    3 -> part(StructType(MessageSchema.schema.filter(f => structOf(f.dataType).isDefined))),
    5 -> part(MessageSchema.schema)
  )

  /** These members of a tuple, and nothing else of the message. */
  def ofTuple(field: Int, members: String*): FieldSelection = {
    val (cells, others) = members.partition(_ == FieldSelection.CellsName)
    val tuple = FieldSelection.members(others: _*)
    FieldSelection.member(
      MessageSchema.schema(field).name,
      if (cells.isEmpty) tuple else tuple.and(Cells)
    )
  }

  /** Many members or few, also of each struct inside. */
  private def part(struct: StructType): Gen[FieldSelection] = for {
    share <- Gen.oneOf(0.1, 0.5, 0.9)
    kept <- Gen.listOfN(struct.length, Gen.prob(share))
    members = struct.fields.toSeq.zip(kept).collect { case (member, true) => member }
    parts <- Gen.sequence[Seq[FieldSelection], FieldSelection](members.map { member =>
      if (member == TupleSchema.schema(TupleSchema.TEXT)) texts
      else structOf(member.dataType).fold[Gen[FieldSelection]](Gen.const(All))(part)
    })
  } yield Members(members.map(_.name).zip(parts).toMap)

  private def texts: Gen[FieldSelection] =
    Gen.oneOf(Gen.const(All), Gen.containerOf[Set, Int](Gen.choose(0, 70)).map(Elements))

  /** The part of a message's row. */
  def part(row: InternalRow, selection: FieldSelection): InternalRow =
    Rows.part(row, MessageSchema.schema, selection)
}
