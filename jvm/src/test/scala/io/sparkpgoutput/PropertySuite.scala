package io.sparkpgoutput

import org.scalacheck.Shrink
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

/** A suite of properties. It tries each of them with 200 values, and not with ScalaTest's ten. */
abstract class PropertySuite extends AnyFunSuite with ScalaCheckPropertyChecks {
  implicit override val generatorDrivenConfig: PropertyCheckConfiguration =
    PropertyCheckConfiguration(minSuccessful = 200)

  /** Keeps ScalaTest from making values smaller, because no generator makes half a message, for example. */
  implicit protected def noShrinking[T]: Shrink[T] = Shrink.shrinkAny
}
