package io.sparkpgoutput.types

/** The option that says what an infinite date, timestamp or interval gives. */
sealed abstract class InfinityMode(val name: String)

object InfinityMode {

  /** An infinite value of a key is an error: another value could be the key of another row. */
  case object ErrorOfKey extends InfinityMode("error of a key")
  case object Error extends InfinityMode("error")
  case object Null extends InfinityMode("null")

  /** The first or the last value that Spark prints: the years 1 to 9999. */
  case object Clamp extends InfinityMode("clamp")

  /** What a user can choose. */
  val all: Seq[InfinityMode] = Seq(Error, Null, Clamp)
}
