package io.sparkpgoutput.types.numbers

import java.math.{BigDecimal => JavaDecimal, MathContext, RoundingMode}
import java.nio.ByteBuffer

import org.apache.spark.sql.types._

import org.scalacheck.Gen

import io.sparkpgoutput.PropertySuite
import io.sparkpgoutput.types.{ConversionOptions, ConversionTests}

class PgFloatSuite extends PropertySuite with ConversionTests {
  import PgFloat._

  private val doubles = Gen
    .oneOf(
      Gen.long,
      Gen.choose(-1074, 1023).map(power => Math.scalb(1.0, power)).map(_.doubleToBits),
      Gen.choose(0L, 1000L), // denormal
      Gen.choose(-1000000L, 1000000L).map(number => (number / 1000.0).doubleToBits)
    )
    .map(java.lang.Double.longBitsToDouble)
    .suchThat(value => math.abs(value) < Double.MaxValue)

  private val floats = Gen
    .oneOf(
      Gen.long.map(_.toInt),
      Gen.choose(-149, 127).map(power => java.lang.Float.floatToIntBits(Math.scalb(1f, power))),
      Gen.choose(0, 1000)
    )
    .map(java.lang.Float.intBitsToFloat)
    .suchThat(value => math.abs(value) < Float.MaxValue)

  implicit private class Bits(value: Double) {
    def doubleToBits: Long = java.lang.Double.doubleToRawLongBits(value)
  }

  private def sent(value: Double) = ByteBuffer.allocate(8).putDouble(value).array
  private def sent(value: Float) = ByteBuffer.allocate(4).putFloat(value).array
  private def print(value: Double) = fromBinary(Float8, StringType, sent(value)).toString
  private def print(value: Float) = fromBinary(Float4, StringType, sent(value)).toString

  /** The nearest decimal numbers with one digit less, below and above. */
  private def shorter(text: String): Seq[JavaDecimal] = {
    val number = new JavaDecimal(text).stripTrailingZeros
    if (number.precision == 1) Seq()
    else Seq(RoundingMode.DOWN, RoundingMode.UP).map { mode =>
      number.round(new MathContext(number.precision - 1, mode))
    }
  }

  /** Returns whether the number is halfway between the value and one of its neighbours. */
  private def isHalfway(number: JavaDecimal, value: Double, neighbours: Double*): Boolean =
    neighbours.exists { neighbour =>
      val sum = new JavaDecimal(value).add(new JavaDecimal(neighbour))
      sum.compareTo(number.multiply(JavaDecimal.valueOf(2))) == 0
    }

  test("a printed number is the shortest that is read as the same number") {
    forAll(doubles, minSuccessful(7000)) { value =>
      val text = print(value)
      assert(Numerics.same(fromText(Float8, DoubleType, text), value))
      assert(Numerics.same(fromBinary(Float8, DoubleType, sent(value)), value))
      shorter(text).foreach { number =>
        val halfway = isHalfway(number, value, Math.nextUp(value), Math.nextDown(value))
        assert(halfway || number.doubleValue != value, text)
      }
    }
    forAll(floats, minSuccessful(7000)) { value =>
      val text = print(value)
      assert(Numerics.same(fromText(Float4, FloatType, text), value))
      assert(Numerics.same(fromText(Float4, DoubleType, text), value.toDouble))
      assert(Numerics.same(fromBinary(Float4, FloatType, sent(value)), value))
      assert(Numerics.same(fromBinary(Float4, DoubleType, sent(value)), value.toDouble))
      shorter(text).foreach { number =>
        val neighbours = Seq(Math.nextUp(value), Math.nextDown(value)).map(_.toDouble)
        assert(
          isHalfway(number, value.toDouble, neighbours: _*) || number.floatValue != value,
          text
        )
      }
    }
  }

  test("text is read as the nearest number, and as the even one if it is halfway") {
    val exactly = new MathContext(0)
    forAll(doubles, Gen.choose(-1, 1), minSuccessful(5000)) { (value, side) =>
      val next = Math.nextUp(value)
      if (!next.isInfinite) {
        val half = new JavaDecimal(value)
          .add(new JavaDecimal(next), exactly)
          .divide(JavaDecimal.valueOf(2), exactly)
        val text = half.add(JavaDecimal.valueOf(side.toLong, 1200)).toString
        assert(fromText(Float8, DoubleType, text) == text.toDouble, text)
      }
    }
    forAll(floats, Gen.choose(-1, 1), minSuccessful(5000)) { (value, side) =>
      val next = Math.nextUp(value)
      if (!next.isInfinite) {
        val half = new JavaDecimal((value.toDouble + next.toDouble) / 2) // exact
        val text = half.add(JavaDecimal.valueOf(side.toLong, 200)).toString
        assert(fromText(Float4, FloatType, text) == text.toFloat, text)
      }
    }
  }

  test("text with any exponent is read as the nearest number") {
    val texts = for {
      digits <- Numerics.digits(22)
      exponent <- Gen.choose(-365, 330)
    } yield (digits.take(1) + "." + digits.drop(1) + "e" + exponent)
    forAll(texts, minSuccessful(7000)) { text =>
      if (text.toDouble.isInfinite) {
        assert(problem(fromText(Float8, DoubleType, text)) == "is not a valid float8")
      } else assert(fromText(Float8, DoubleType, text) == text.toDouble)
      if (!text.toFloat.isInfinite) assert(fromText(Float4, FloatType, text) == text.toFloat)
    }
  }

  test("NaN, the infinities and -0 are read and printed") {
    Seq("NaN", "Infinity", "-Infinity", "-0", "0").foreach { text =>
      val value = text.toDouble
      assert(Numerics.same(fromText(Float8, DoubleType, text), value))
      assert(Numerics.same(fromText(Float4, FloatType, text), value.toFloat))
      assert(print(value) == text)
      assert(print(value.toFloat) == text)
    }
  }

  test("all NaNs are the same value") {
    val float8 = fromBinary(Float8, DoubleType, Array[Byte](-1, -8, 0, 0, 0, 0, 0, 1))
    val float4 = fromBinary(Float4, FloatType, Array[Byte](-1, -64, 0, 1))
    assert(
      java.lang.Double.doubleToRawLongBits(float8.asInstanceOf[Double]) == 0x7ff8000000000000L
    )
    assert(java.lang.Float.floatToRawIntBits(float4.asInstanceOf[Float]) == 0x7fc00000)
  }

  test("a float8 is not read as FLOAT, and bytes of another size are refused") {
    assert(Float8.to(FloatType, ConversionOptions()).isEmpty)
    assert(problem(fromBinary(Float8, DoubleType, sent(1f))).contains("has 4 bytes"))
    assert(problem(fromText(Float4, FloatType, "1.5x")) == "is not a valid float4")
  }
}
