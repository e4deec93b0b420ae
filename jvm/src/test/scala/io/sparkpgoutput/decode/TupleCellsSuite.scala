package io.sparkpgoutput.decode

import java.nio.charset.StandardCharsets.UTF_8

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection
import org.apache.spark.sql.catalyst.util.GenericArrayData
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.memory.MemoryAllocator
import org.apache.spark.unsafe.types.UTF8String

import org.scalacheck.Gen

import io.sparkpgoutput.PropertySuite
import io.sparkpgoutput.errors.Errors.raised
import io.sparkpgoutput.protocol.{
  DecodedTuple,
  EncodedTuple,
  Fields,
  Message,
  MessageSchema,
  MessageType,
  Messages,
  TextEncoding,
  TupleCells,
  TupleSchema
}

class TupleCellsSuite extends PropertySuite {
  private val decoder = new MessageDecoder(TextEncoding.Utf8)
  private val changes = Gen
    .oneOf("INSERT", "UPDATE", "DELETE")
    .flatMap(name => new Messages().ofType(MessageType.all.find(_.name == name).get))
  private val tuples = Seq(MessageSchema.KEY, MessageSchema.OLD, MessageSchema.NEW)
  private val toUnsafe = UnsafeProjection.create(TupleSchema.schema)

  /** Kind and value of the cells at these positions. */
  private def read(cells: TupleCells, positions: Seq[Int]): Seq[(Char, String)] =
    positions.map { position =>
      val kind = cells.goTo(position).toChar
      val hasValue = kind == 't' || kind == 'b'
      (kind, if (hasValue) Fields.hex(cells.bytes.slice(cells.from, cells.to)) else null)
    }

  private def expected(tuple: Fields.Fields): Seq[(Char, String)] =
    tuple("kinds").asInstanceOf[String].zipWithIndex.map {
      case ('t', i) => ('t', Fields.hex(tuple("text").asInstanceOf[Seq[String]](i).getBytes(UTF_8)))
      case ('b', i) => ('b', tuple("binary").asInstanceOf[Seq[String]](i))
      case (kind, _) => (kind, null)
    }

  private def started(tuple: InternalRow): DecodedTuple = {
    val cells = new DecodedTuple
    cells.start(tuple)
    cells
  }

  private val message = new EncodedTuple
  private val ofBytes = new EncodedTuple

  /** The bytes of one tuple of a message. */
  private def bytes(change: Message, field: Int): Array[Byte] =
    new MessageDecoder(TextEncoding.Utf8, Selections.ofTuple(field, "cells"))
      .decode(change.bytes, change.context).getStruct(0, 1).getBinary(0)

  test("the cells of a message and of its row are those that were sent, all or some") {
    forAll(changes, Gen.long) { (change, seed) =>
      tuples.foreach { field =>
        val row = decoder.decode(change.bytes, change.context)
        change.fields.get(MessageSchema.schema(field).name) match {
          case None => assert(!decoder.cells(field, message))
          case Some(tuple) =>
            val all = expected(tuple.asInstanceOf[Fields.Fields])
            val some = all.indices.filter(i => ((seed >> (i % 64)) & 1) == 1)
            val unsafe = row.getStruct(field, TupleSchema.schema.length)
            val generic = Rows.all(unsafe, TupleSchema.schema)
            Seq(all.indices, some).foreach { positions =>
              assert(decoder.cells(field, message))
              ofBytes.start(bytes(change, field))
              Seq(message, ofBytes, started(unsafe), started(generic)).foreach { cells =>
                assert(cells.columns == all.size)
                assert(read(cells, positions) == positions.map(all))
              }
            }
        }
      }
    }
  }

  private def tuple(kinds: String, text: Seq[String], binary: Seq[Array[Byte]]): InternalRow =
    InternalRow(
      UTF8String.fromString(kinds),
      if (text == null) null
      else new GenericArrayData(text.map(UTF8String.fromString).toArray[Any]),
      if (binary == null) null else new GenericArrayData(binary.toArray[Any])
    )

  test("text outside of a byte array is read") {
    val text = "naïve".getBytes(UTF_8)
    val memory = MemoryAllocator.UNSAFE.allocate(text.length.toLong)
    try {
      Platform.copyMemory(
        text,
        Platform.BYTE_ARRAY_OFFSET.toLong,
        null,
        memory.getBaseOffset,
        text.length.toLong
      )
      val offHeap = UTF8String.fromAddress(null, memory.getBaseOffset, text.length)
      val cells =
        started(InternalRow(
          UTF8String.fromString("t"),
          new GenericArrayData(Array[Any](offHeap)),
          null
        ))
      assert(read(cells, Seq(0)) == Seq(('t', Fields.hex(text))))
    } finally MemoryAllocator.UNSAFE.free(memory)
  }

  test("a tuple without columns has no cells") {
    assert(started(tuple("", Nil, null)).columns == 0)
    assert(started(tuple("", Nil, Nil)).columns == 0)
  }

  test("tuples that no decode returns are refused, and nothing beyond them is read") {
    val none: Seq[Array[Byte]] = null
    Seq(
      tuple(null, Seq("a"), none),
      tuple("tt", Seq("a"), none),
      tuple("t", Seq("a", "b"), none),
      tuple("nb", Seq(null, null), Seq(Array[Byte](1)))
    ).foreach { broken =>
      Seq(broken, toUnsafe(broken)).foreach { row =>
        val error = raised("PGOUTPUT_SCHEMA_MISMATCH")(started(row))
        assert(error.getMessage.contains("have different lengths"))
      }
    }
    Seq(
      tuple("nt", Seq("a", null), none),
      tuple("nt", null, none),
      tuple("nb", Seq(null, null), none),
      tuple("nb", Seq(null, null), Seq(Array[Byte](1), null)),
      tuple("nx", Seq("a", "b"), none)
    ).foreach { broken =>
      Seq(broken, toUnsafe(broken)).foreach { row =>
        val cells = started(row)
        assert(cells.goTo(0) == 'n')
        val error = raised("PGOUTPUT_SCHEMA_MISMATCH")(cells.goTo(1))
        assert(error.getMessage.contains("column 2 has no such value"))
      }
    }
  }
}
