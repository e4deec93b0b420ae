package io.sparkpgoutput.types.numbers

import java.io.{ByteArrayOutputStream, DataOutputStream}
import java.math.{BigDecimal => JavaDecimal, BigInteger}

import org.scalacheck.Gen

/** Numbers of many sizes, and their binary values as `numeric_send` writes them. */
object Numerics {
  def digits(most: Int): Gen[String] = for {
    size <- Gen.choose(1, most)
    digits <-
      Gen.listOfN(size, Gen.frequency(3 -> Gen.numChar, 1 -> Gen.const('0'), 1 -> Gen.const('9')))
  } yield digits.mkString

  def numerics(most: Int): Gen[JavaDecimal] = for {
    unscaled <- digits(most)
    scale <- Gen.choose(0, most)
    negative <- Gen.oneOf(true, false)
  } yield {
    val number = new JavaDecimal(new BigInteger(unscaled), scale)
    if (negative) number.negate else number
  }

  def send(number: JavaDecimal): Array[Byte] = {
    val groups = (number.scale + 3) / 4 // after the point
    val all = number.unscaledValue.abs.multiply(BigInteger.TEN.pow(4 * groups - number.scale))
    val text = all.toString
    val padded = "0" * ((4 - text.length % 4) % 4) + text
    val digits = padded.grouped(4).map(_.toInt).toSeq
    val sent = digits.reverse.dropWhile(_ == 0).reverse
    val out = new ByteArrayOutputStream
    val data = new DataOutputStream(out)
    data.writeShort(sent.size)
    data.writeShort(if (sent.isEmpty) 0 else digits.size - groups - 1)
    data.writeShort(if (number.signum < 0) 0x4000 else 0)
    data.writeShort(number.scale)
    sent.foreach(digit => data.writeShort(digit))
    out.toByteArray
  }

  /** Returns whether two numbers are the same. NaN is the same as itself, and 0 is not the same as -0. */
  def same(a: Any, b: Any): Boolean =
    java.util.Objects.equals(a.asInstanceOf[AnyRef], b.asInstanceOf[AnyRef])
}
