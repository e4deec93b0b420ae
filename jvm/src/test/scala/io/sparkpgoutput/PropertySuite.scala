package io.sparkpgoutput

import org.scalacheck.Shrink
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

/** A suite of properties, each tried on more values than ScalaTest's ten. */
abstract class PropertySuite extends AnyFunSuite with ScalaCheckPropertyChecks {
  implicit override val generatorDrivenConfig: PropertyCheckConfiguration =
    PropertyCheckConfiguration(minSuccessful = 200)

  /**
   * A value that ScalaTest has made smaller is not one that the generator makes, for example half a message.
   */
  implicit protected def noShrinking[T]: Shrink[T] = Shrink.shrinkAny
}
