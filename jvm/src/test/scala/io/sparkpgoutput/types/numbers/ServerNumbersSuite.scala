package io.sparkpgoutput.types.numbers

import java.nio.charset.StandardCharsets
import java.util.HexFormat

import scala.io.Source
import scala.util.Using

import org.apache.spark.sql.types._

import org.scalacheck.Gen

import io.sparkpgoutput.PropertySuite
import io.sparkpgoutput.types.registry.BuiltInTypes
import io.sparkpgoutput.types.{ConversionOptions, ConversionTests, PgType}

/**
 * Values as PostgreSQL 18 sends them, binary and as text. `types/numbers.tsv` is made by
 * `psql -qAtX -F $'\t' -f types/numbers.sql`.
 */
class ServerNumbersSuite extends PropertySuite with ConversionTests {
  private case class Value(pgType: PgType, binary: Array[Byte], text: String, escaped: Boolean) {
    override def toString = s"$pgType $text"
  }

  private val values: Seq[Value] =
    Using.resource(Source.fromResource("types/numbers.tsv")(StandardCharsets.UTF_8)) { source =>
      source
        .getLines()
        .map { line =>
          val Array(name, hex, text) = line.split("\t", -1)
          val pgType =
            BuiltInTypes.all.map(_.pgType).find(_.name == name.stripSuffix("_escape")).get
          Value(pgType, HexFormat.of.parseHex(hex), text, name.endsWith("_escape"))
        }
        .toSeq
    }

  private val targets = Seq(
    BooleanType,
    ByteType,
    ShortType,
    IntegerType,
    LongType,
    FloatType,
    DoubleType,
    DecimalType(5, 2),
    DecimalType(18, 0),
    DecimalType(18, 18),
    DecimalType(19, 2),
    DecimalType(20, 0),
    DecimalType(38, 0),
    DecimalType(38, 10),
    DecimalType(38, 38),
    BinaryType
  )

  test("binary values are printed as the server prints them") {
    assert(values.size > 600)
    values.filterNot(_.escaped).foreach { value =>
      val printed = fromBinary(value.pgType, StringType, value.binary).toString
      // The locale of money is not known, so the plain number is printed.
      val expected =
        if (value.pgType == PgMoney) value.text.replaceAll("[$,]", "") else value.text
      assert(printed == expected, value)
    }
  }

  test("text and binary give the same value, or the same problem") {
    for {
      value <- values
      target <- targets if value.pgType.to(target, ConversionOptions()).isDefined
    } {
      val read = attempt(fromText(value.pgType, target, value.text))
      val same = (attempt(fromBinary(value.pgType, target, value.binary)), read) match {
        case (Right(binary), Right(text)) => Numerics.same(binary, text)
        case (binary, text)               => binary == text
      }
      assert(same, s"$value, $target")
    }
  }

  test("numerics are equal to Java's BigDecimal, or do not fit") {
    for {
      value <- values if value.pgType == PgNumeric && value.text.last.isDigit
      target <- targets.collect { case decimal: DecimalType => decimal }
    } {
      val exact = new java.math.BigDecimal(value.text)
      val fits = exact.stripTrailingZeros.scale <= target.scale &&
        exact.setScale(target.scale max exact.scale).abs.compareTo(
          java.math.BigDecimal.TEN.pow(target.precision - target.scale)
        ) < 0
      attempt(fromText(PgNumeric, target, value.text)) match {
        case Right(read: Decimal) =>
          assert(fits && read.toJavaBigDecimal.compareTo(exact) == 0, value)
        case Right(other)  => fail(s"$value: $other")
        case Left(problem) => assert(!fits && problem.contains("use "), value)
      }
    }
  }

  test("numerics and floats become the numbers nearest to their text") {
    values.filter(_.text.lastOption.exists(_.isDigit)).foreach { value =>
      value.pgType match {
        case PgNumeric | PgFloat.Float8 =>
          assert(
            attempt(fromText(value.pgType, DoubleType, value.text)) match {
              case Right(read) => Numerics.same(read, value.text.toDouble)
              case Left(_)     => value.text.toDouble.isInfinite
            },
            value
          )
        case _ =>
      }
      value.pgType match {
        case PgNumeric | PgFloat.Float4 =>
          assert(
            attempt(fromText(value.pgType, FloatType, value.text)) match {
              case Right(read) => Numerics.same(read, value.text.toFloat)
              case Left(_)     => value.text.toFloat.isInfinite
            },
            value
          )
        case _ =>
      }
    }
  }

  test("any bytes are read or refused") {
    val mutated = for {
      value <- Gen.oneOf(values)
      bytes = if (value.text.isEmpty) value.binary else value.binary ++ value.text.getBytes
      cut <- Gen.choose(0, bytes.length)
      at <- Gen.choose(0, math.max(0, cut - 1))
      byte <- Gen.oneOf(Gen.choose(-128, 127), Gen.oneOf(0, 1, 127, -1, -128))
      from <- Gen.oneOf(0, math.min(value.binary.length, cut))
    } yield {
      val mutant = bytes.take(cut)
      if (cut > 0) mutant(at) = byte.toByte
      (value.pgType, mutant.drop(from))
    }
    forAll(mutated, minSuccessful(5000)) { case (pgType, bytes) =>
      (StringType +: targets).filter(pgType.to(_, ConversionOptions()).isDefined).foreach {
        target =>
          attempt(fromBinary(pgType, target, bytes))
          if (target != StringType) {
            attempt(fromText(pgType, target, new String(bytes, StandardCharsets.ISO_8859_1)))
          }
      }
    }
  }
}
