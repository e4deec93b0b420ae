package io.sparkpgoutput.options

/**
 * One option of a function or a data source. It is declared once: [[OptionList]] checks what users
 * give by it, and error messages, `DESCRIBE FUNCTION EXTENDED` and the tables of the documentation
 * are made of it.
 *
 * {{{
 *   OptionSpec.parsed[RowOptions, Int]("moneyScale", "0 to 10", "2", "The number of digits ….")(
 *     _.toIntOption.filter(scale => scale >= 0 && scale <= 10)
 *   )((options, scale) => options.copy(moneyScale = scale))
 * }}}
 *
 * @tparam T the class that holds the parsed options
 * @param name
 *   the name, which users write in any case. A name that ends with a placeholder, such as
 *   `type.<oid>`, stands for all names that begin with what is before it.
 * @param values the valid values, as an error message lists them
 * @param default what applies if the option is not given
 * @param description one sentence
 * @param set the options with this one set; `Left` is a sentence about what is wrong with the value
 */
final case class OptionSpec[T](
    name: String,
    values: String,
    default: String,
    description: String
)(val set: (T, OptionEntry) => Either[String, T]) {

  def matches(entry: OptionEntry): Boolean = name.indexOf('<') match {
    case -1  => entry.name.equalsIgnoreCase(name)
    case end => entry.name.regionMatches(true, 0, name, 0, end)
  }

  /** Returns this option for a class that has a `T` as a part. */
  def within[S](get: S => T)(put: (S, T) => S): OptionSpec[S] =
    OptionSpec[S](name, values, default, description)((options, entry) =>
      set(get(options), entry).map(put(options, _))
    )
}

/** The name and the value that a user gives. The value is not null. */
final case class OptionEntry(name: String, value: String) {

  /** The sentence that says which values are valid. */
  def invalid(values: String): String =
    s"'$value' is not valid for the option '$name'. The valid values are: $values."
}

object OptionSpec {

  /** An option that takes one of a few names, in any case. */
  def choice[T, V](name: String, default: String, description: String)(values: (String, V)*)(
      set: (T, V) => T
  ): OptionSpec[T] =
    parsed[T, V](name, values.map(_._1).mkString(", "), default, description)(text =>
      values.collectFirst { case (known, value) if known.equalsIgnoreCase(text) => value }
    )(set)

  /** An option whose value is read; None if that fails. */
  def parsed[T, V](name: String, values: String, default: String, description: String)(
      parse: String => Option[V]
  )(set: (T, V) => T): OptionSpec[T] =
    OptionSpec[T](name, values, default, description)((options, entry) =>
      parse(entry.value).map(set(options, _)).toRight(entry.invalid(values))
    )

  /** An option that takes any text. */
  def text[T](name: String, values: String, default: String, description: String)(
      set: (T, String) => T
  ): OptionSpec[T] =
    parsed[T, String](name, values, default, description)(Some(_))(set)
}
