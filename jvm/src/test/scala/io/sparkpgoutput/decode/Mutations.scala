package io.sparkpgoutput.decode

import org.scalacheck.Gen

import io.sparkpgoutput.protocol.{Fields, Message}

/** Messages that were damaged. */
object Mutations {

  /** A message with one to three errors. */
  def of(messages: Gen[Message]): Gen[Array[Byte]] = for {
    message <- messages
    times <- Gen.choose(1, 3)
    mutated <- (1 to times).foldLeft(Gen.const(message.bytes))((bytes, _) => bytes.flatMap(once))
  } yield mutated

  /** Values that are critical for counts, lengths, ids and LSNs, and letters with a meaning. */
  private val fragments: Gen[Array[Byte]] = Gen
    .oneOf("00", "01", "ff", "4e", "4b", "4f", "6e", "75", "74", "62", "ffff", "00000000")
    .map(Fields.unhex)
  private val sizes: Gen[Array[Byte]] = Gen
    .oneOf("7fffffff", "80000000", "fffffffb", "ffffffff", "ffffffffffffffff")
    .map(Fields.unhex)

  private def once(message: Array[Byte]): Gen[Array[Byte]] = for {
    at <- Gen.choose(0, message.length)
    end <- Gen.choose(at, message.length)
    fragment <- Gen.oneOf(fragments, sizes)
    mutated <- Gen.oneOf(
      message.take(at),
      message.take(at) ++ message.drop(end),
      message.take(at) ++ fragment ++ message.drop(at),
      message.take(at) ++ fragment ++ message.drop(at + fragment.length),
      message.take(end) ++ message.drop(at)
    )
  } yield mutated
}
