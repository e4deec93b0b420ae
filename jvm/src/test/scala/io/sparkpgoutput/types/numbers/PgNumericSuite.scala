package io.sparkpgoutput.types.numbers

import java.math.{BigDecimal => JavaDecimal}

import org.apache.spark.sql.types._

import org.scalacheck.Gen

import io.sparkpgoutput.PropertySuite
import io.sparkpgoutput.types.ConversionTests

class PgNumericSuite extends PropertySuite with ConversionTests {
  private val decimals = for {
    precision <- Gen.choose(1, 38)
    scale <- Gen.choose(0, precision)
  } yield DecimalType(precision, scale)

  private def modifier(precision: Int, scale: Int) = ((precision << 16) | (scale & 0x7ff)) + 4

  test("a number is read exactly as a DECIMAL, or is refused") {
    forAll(Numerics.numerics(24), decimals, minSuccessful(5000)) { (number, target) =>
      val unscaled = number.stripTrailingZeros.setScale(target.scale max number.scale).unscaledValue
      val fits = number.stripTrailingZeros.scale <= target.scale &&
        number.setScale(target.scale).unscaledValue.abs.toString.length <= target.precision
      def text = fromText(PgNumeric, target, number.toPlainString)
      def binary = fromBinary(PgNumeric, target, Numerics.send(number))
      if (fits) {
        assert(text.asInstanceOf[Decimal].toJavaBigDecimal == number.setScale(target.scale))
        assert(binary == text)
      } else {
        val refused = problem(text)
        assert(problem(binary) == refused, unscaled)
        "DECIMAL\\((\\d+),(\\d+)\\) or".r.findFirstMatchIn(refused).foreach { remedy =>
          val wider = DecimalType(remedy.group(1).toInt, remedy.group(2).toInt)
          val read = fromText(PgNumeric, wider, number.toPlainString).asInstanceOf[Decimal]
          assert(read.toJavaBigDecimal.compareTo(number) == 0)
        }
      }
    }
  }

  test("a number becomes the nearest DOUBLE or FLOAT") {
    forAll(Numerics.numerics(45), minSuccessful(5000)) { number =>
      val binary = Numerics.send(number)
      val text = number.toPlainString
      assert(fromText(PgNumeric, DoubleType, text) == text.toDouble)
      assert(fromBinary(PgNumeric, DoubleType, binary) == text.toDouble)
      if (text.toFloat.isInfinite) {
        assert(problem(fromText(PgNumeric, FloatType, text)).contains("use DOUBLE"))
      } else {
        assert(fromText(PgNumeric, FloatType, text) == text.toFloat)
        assert(fromBinary(PgNumeric, FloatType, binary) == text.toFloat)
      }
    }
  }

  test("a whole number that fits is read exactly, and other numbers are refused") {
    val near = for {
      power <- Gen.oneOf(7, 8, 15, 16, 31, 32, 63, 64)
      distance <- Gen.choose(-2L, 2L)
      scale <- Gen.choose(0, 25)
      negative <- Gen.oneOf(true, false)
    } yield {
      val number = JavaDecimal.valueOf(2).pow(power).add(JavaDecimal.valueOf(distance))
      (if (negative) number.negate else number).setScale(scale)
    }
    forAll(Gen.oneOf(near, Numerics.numerics(10)), minSuccessful(2000)) { number =>
      Seq[(DataType, JavaDecimal => Long)](
        ByteType -> (_.byteValueExact.toLong),
        ShortType -> (_.shortValueExact.toLong),
        IntegerType -> (_.intValueExact.toLong),
        LongType -> (_.longValueExact)
      ).foreach { case (target, exact) =>
        def text = fromText(PgNumeric, target, number.toPlainString)
        def binary = fromBinary(PgNumeric, target, Numerics.send(number))
        try {
          val expected = exact(number)
          assert(text.asInstanceOf[Number].longValue == expected)
          assert(binary == text)
        } catch {
          case _: ArithmeticException =>
            assert(problem(text).contains("; use "))
            assert(problem(binary) == problem(text))
        }
      }
    }
  }

  test("a binary value prints with all digits after the point") {
    forAll(Numerics.numerics(60)) { number =>
      val printed = fromBinary(PgNumeric, StringType, Numerics.send(number)).toString
      assert(printed == number.toPlainString)
    }
  }

  test("a value that does not fit is refused, with a type that takes it") {
    def refused(target: DataType, text: String) = problem(fromText(PgNumeric, target, text))
    val decimal = DecimalType(5, 2)
    assert(refused(decimal, "1.239") ==
      "has more than 2 digits after the point; use DECIMAL(6,3) or STRING")
    assert(refused(decimal, "1234") ==
      "is out of range for DECIMAL(5,2); use DECIMAL(6,2) or STRING")
    assert(refused(decimal, "1e40") == "is out of range for DECIMAL(5,2); use STRING")
    assert(refused(decimal, "NaN") == "is not a finite number; use DOUBLE or STRING")
    assert(refused(IntegerType, "-Infinity") == "is not a finite number; use DOUBLE or STRING")
    assert(refused(IntegerType, "1.5") == "is not a whole number; use DECIMAL(2,1) or STRING")
    assert(refused(IntegerType, "2147483648") == "is out of range for INT; use BIGINT")
    assert(refused(LongType, "9223372036854775808") ==
      "is out of range for BIGINT; use DECIMAL(20,0) or STRING")
    assert(refused(FloatType, "1e39") == "is out of range for FLOAT; use DOUBLE or STRING")
    assert(refused(DoubleType, "1e309") == "is out of range for DOUBLE; use STRING")
  }

  test("the longest numbers are read") {
    val digits = "7" * 131072 + "." + "3" * 16383
    assert(problem(fromText(PgNumeric, DecimalType(38, 10), digits)).endsWith("use STRING"))
    assert(problem(fromText(PgNumeric, LongType, digits)).endsWith("use STRING"))
    assert(problem(fromText(PgNumeric, DoubleType, digits)).endsWith("use STRING"))
    val zeros = "0." + "0" * 16382 + "1"
    assert(problem(fromText(PgNumeric, DecimalType(38, 10), zeros)).endsWith("use STRING"))
    assert(fromText(PgNumeric, DoubleType, zeros) == 0.0)
    val half = "9007199254740993." + "0" * 16382 // halfway, except for the last digit
    assert(fromText(PgNumeric, DoubleType, half + "0") == 9007199254740992.0)
    assert(fromText(PgNumeric, DoubleType, half + "1") == 9007199254740994.0)
    val sent = Numerics.send(new JavaDecimal(half + "1"))
    assert(fromBinary(PgNumeric, DoubleType, sent) == 9007199254740994.0)
  }

  test("exponents are read") {
    assert(fromText(PgNumeric, DecimalType(5, 2), "1.5e2").toString == "150.00")
    assert(fromText(PgNumeric, DecimalType(5, 2), "150E-2").toString == "1.50")
    assert(fromText(PgNumeric, LongType, "0e999999") == 0L)
    assert(fromText(PgNumeric, DecimalType(5, 2), "0e999999").toString == "0.00")
    assert(fromText(PgNumeric, DecimalType(38, 0), "12345678901234567890123e+3").toString ==
      "12345678901234567890123000")
  }

  test("text that is not a number is refused") {
    val texts = Seq(
      "",
      "-",
      ".",
      "-.",
      "+1",
      "1 ",
      " 1",
      "1,5",
      "1.2.3",
      "--1",
      "1e",
      "1e+",
      "e1",
      "1e1.5",
      "1e9999999999",
      "nan",
      "-NaN",
      "Inf",
      "infinity",
      "0x1",
      "1_000",
      "12345678901234567890x"
    )
    for (text <- texts; target <- Seq(DecimalType(5, 2), DoubleType, LongType))
      assert(problem(fromText(PgNumeric, target, text)) == "is not a valid numeric", text)
  }

  test("binary values that numeric_send does not make are refused") {
    Seq(
      "00" * 7, // too short for a header
      "0002000000000000" + "0001", // fewer digits than it says
      "ffff000000000000",
      "0001000000000000" + "2710", // a digit of 10000
      "0001000000000000" + "ffff",
      "0001000012340000" + "0001", // not a valid sign
      "0001000000004000" + "0001", // too many digits after the point
      "0001ffff00000001" + "04d2", // digits behind those that are printed
      "0002000000000000" + "00010001",
      "0006000300000002" + "000100010001000100010001" // behind the significand
    ).foreach { hex =>
      val binary = java.util.HexFormat.of.parseHex(hex)
      Seq(StringType, DoubleType, LongType, DecimalType(38, 10)).foreach { target =>
        assert(problem(fromBinary(PgNumeric, target, binary)) == "is not a valid numeric", hex)
      }
    }
  }

  test("the type modifier gives precision and scale") {
    assert(PgNumeric.sparkType(modifier(10, 2)) == DecimalType(10, 2))
    assert(PgNumeric.sparkType(modifier(3, 5)) == DecimalType(5, 5))
    assert(PgNumeric.sparkType(modifier(3, -2)) == DecimalType(5, 0))
    assert(PgNumeric.sparkType(modifier(38, 38)) == DecimalType(38, 38))
    assert(PgNumeric.sparkType(modifier(39, 2)) == StringType)
    assert(PgNumeric.sparkType(modifier(1000, -1000)) == StringType)
    assert(PgNumeric.sparkType(modifier(38, -1)) == StringType)
    assert(PgNumeric.sparkType(-1) == StringType)
  }
}
