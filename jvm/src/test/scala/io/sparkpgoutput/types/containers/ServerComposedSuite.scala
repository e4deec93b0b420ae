package io.sparkpgoutput.types.containers

import java.nio.ByteBuffer
import java.nio.charset.StandardCharsets

import org.apache.spark.sql.types._
import org.apache.spark.types.variant.Variant
import org.apache.spark.unsafe.types.VariantVal

import org.scalacheck.Gen

import io.sparkpgoutput.PropertySuite
import io.sparkpgoutput.types.ConversionTests

/** Arrays, composite types, ranges and multiranges that a server sent, and damaged ones. */
class ServerComposedSuite extends PropertySuite with ConversionTests {
  import ComposedCells.{Cell, all}

  private def binary(cell: Cell, target: DataType): Any =
    fromBinary(cell.pgType, target, cell.binary)

  private def text(cell: Cell, target: DataType): Any =
    fromText(cell.pgType, target, cell.text)

  test("binary values print as the server prints them") {
    assert(all.size > 300)
    all.foreach(cell => assert(binary(cell, StringType).toString == cell.text, cell))
  }

  test("text and binary give the same value") {
    for { cell <- all; target <- cell.targets } {
      val found = attempt(text(cell, target))
      assert(attempt(binary(cell, target)) == found, s"$cell as ${target.sql}")
      assert(found.isRight, s"$cell as ${target.sql}")
    }
  }

  test("a VARIANT has the elements in their dimensions") {
    def count(variant: Variant, depth: Int): Int =
      if (depth == 0) 1
      else
        (0 until variant.arraySize).map(at => count(variant.getElementAtIndex(at), depth - 1)).sum

    all.filter(_.pgType.isInstanceOf[PgArray]).foreach { cell =>
      val value = binary(cell, VariantType).asInstanceOf[VariantVal]
      val sent = ByteBuffer.wrap(cell.binary)
      val dimensions = sent.getInt(0)
      val elements = (0 until dimensions).map(at => sent.getInt(12 + 8 * at)).product
      assert(
        count(new Variant(value.getValue, value.getMetadata), math.max(dimensions, 1)) ==
          (if (dimensions == 0) 0 else elements),
        cell
      )
    }
  }

  test("another number of dimensions is refused, with the type that takes it") {
    all.filter(_.pgType.isInstanceOf[PgArray]).foreach { cell =>
      val deeper = ArrayType(cell.target)
      if (ByteBuffer.wrap(cell.binary).getInt(0) == 0) {
        assert(attempt(text(cell, deeper)) == attempt(binary(cell, deeper)))
      } else {
        val problems = Seq(
          problem(text(cell, deeper)),
          problem(binary(cell, deeper))
        )
        problems.foreach(found => assert(found.endsWith(s"; use ${cell.target.sql}"), cell))
      }
    }
  }

  private val damaged = for {
    cell <- Gen.oneOf(all)
    isText <- Gen.oneOf(true, false)
    bytes = if (isText) cell.text.getBytes(StandardCharsets.UTF_8) else cell.binary
    keep <- Gen.frequency(1 -> Gen.choose(0, bytes.length), 4 -> Gen.const(bytes.length))
    at <- Gen.choose(0, keep)
    skip <- Gen.oneOf(0, 1, 4)
    others <- Gen.oneOf(
      Gen.oneOf("{}[](),;\"\\ =:NnE0".toSeq).map(character => Array(character.toByte)),
      Gen.choose(-128, 127).map(byte => Array(byte.toByte)),
      Gen
        .oneOf(Int.MaxValue, Int.MinValue, -1, 0, 1, 2, 7, 0x10000, 0x20000000)
        .map(ByteBuffer.allocate(4).putInt(_).array),
      Gen.const(Array.emptyByteArray)
    )
  } yield {
    val kept = bytes.take(keep)
    (cell, isText, kept.take(at) ++ others ++ kept.drop(at + skip))
  }

  test("any bytes are read or refused") {
    forAll(damaged, minSuccessful(8000)) { case (cell, isText, bytes) =>
      cell.targets.foreach { target =>
        if (!isText) attempt(fromBinary(cell.pgType, target, bytes))
        else {
          val text = new String(bytes, StandardCharsets.UTF_8)
          attempt(fromText(cell.pgType, target, text))
        }
      }
    }
  }

  test("a damaged binary value that prints is read as the printed value") {
    forAll(damaged.filterNot(_._2), minSuccessful(4000)) { case (cell, _, bytes) =>
      for {
        printed <- attempt(fromBinary(cell.pgType, StringType, bytes))
        fromBytes <- attempt(fromBinary(cell.pgType, cell.target, bytes))
        same <- attempt(fromText(cell.pgType, cell.target, printed.toString))
      } assert(fromBytes == same, s"$cell: $printed")
    }
  }
}
