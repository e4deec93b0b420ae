package io.sparkpgoutput.options

import io.sparkpgoutput.protocol.TextEncoding

/** The options that several functions have. */
object SharedOptions {

  /**
   * Whether bad data is an error, or gives NULL. The values are those of `from_json`.
   *
   * @param bad what is bad data
   */
  def mode[T](bad: String)(setFailFast: (T, Boolean) => T): OptionSpec[T] =
    OptionSpec.choice[T, Boolean](
      "mode",
      "FAILFAST",
      s"With FAILFAST $bad is an error; with PERMISSIVE it gives NULL."
    )("FAILFAST" -> true, "PERMISSIVE" -> false)(setFailFast)

  /**
   * The mode of a function that gives NULL for bad data, whatever the mode.
   *
   * @param strict the function for FAILFAST
   */
  def tryMode[T](strict: String): OptionSpec[T] =
    OptionSpec.parsed[T, String](
      "mode",
      s"PERMISSIVE (for FAILFAST, use $strict)",
      "PERMISSIVE",
      "This function is always PERMISSIVE."
    )(Some(_).filter("PERMISSIVE".equalsIgnoreCase(_)))((options, _) => options)

  def encoding[T](set: (T, TextEncoding) => T): OptionSpec[T] =
    OptionSpec.parsed[T, TextEncoding](
      "encoding",
      TextEncoding.names.mkString("", ", ", ", or the name of a Java charset"),
      "UTF8",
      "The server's client_encoding when it wrote the messages."
    )(TextEncoding.of)(set)
}
