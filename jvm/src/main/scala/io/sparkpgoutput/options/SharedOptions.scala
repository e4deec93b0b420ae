package io.sparkpgoutput.options

import io.sparkpgoutput.protocol.TextEncoding

/** The options that several functions have. */
object SharedOptions {

  /**
   * The option that says whether bad data is an error or gives NULL. It has the values of `from_json`.
   *
   * @param bad what is bad data
   */
  def mode[T](bad: String)(setFailFast: (T, Boolean) => T): OptionSpec[T] =
    OptionSpec.choice[T, Boolean](
      "mode",
      "FAILFAST",
      s"With FAILFAST, $bad is an error. With PERMISSIVE, it gives NULL."
    )("FAILFAST" -> true, "PERMISSIVE" -> false)(setFailFast)

  /**
   * The option `mode` of a function that always gives NULL for bad data.
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
      "The client_encoding of the server when it wrote the messages."
    )(TextEncoding.of)(set)

  /** PostgreSQL's locales have up to 10 digits after the point (`cash_in`). */
  def moneyScale[T](set: (T, Int) => T): OptionSpec[T] = OptionSpec.parsed[T, Int](
    "moneyScale",
    "0 to 10",
    "2",
    "The number of digits that a value of the type money has after the decimal point."
  )(_.toIntOption.filter(scale => scale >= 0 && scale <= 10))(set)
}
