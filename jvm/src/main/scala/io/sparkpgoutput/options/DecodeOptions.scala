package io.sparkpgoutput.options

import io.sparkpgoutput.protocol.TextEncoding

/** The options of the functions that decode messages. */
final case class DecodeOptions(failFast: Boolean = true, encoding: TextEncoding = TextEncoding.Utf8)

object DecodeOptions {
  private val encoding =
    SharedOptions.encoding[DecodeOptions]((options, encoding) => options.copy(encoding = encoding))

  /** The options of `pgoutput_decode`. */
  val decode: OptionList[DecodeOptions] = new OptionList(
    DecodeOptions(),
    Seq(
      SharedOptions.mode[DecodeOptions]("a malformed message")((options, failFast) =>
        options.copy(failFast = failFast)
      ),
      encoding
    )
  )

  /** The options of `try_pgoutput_decode`. */
  val tryDecode: OptionList[DecodeOptions] = new OptionList(
    DecodeOptions(failFast = false),
    Seq(SharedOptions.tryMode("pgoutput_decode"), encoding)
  )
}
