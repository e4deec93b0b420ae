package io.sparkpgoutput.options

import java.util.Locale

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.json.JsonMapper

/**
 * All options of a function or a data source, in the order in which they are described.
 *
 * @tparam T the class that holds the parsed options
 * @param defaults the options if none is given
 */
final class OptionList[T](val defaults: T, val specs: Seq[OptionSpec[T]]) {

  /** Reads the options, with names in any case. `Left` says what is wrong with the first bad one. */
  def parse(entries: Seq[(String, String)]): Either[String, T] = {
    val names = entries.map { case (name, _) =>
      // After the point, there can be the name of a table or a column, which differs from one in another case.
      val (option, of) = name.span(_ != '.')
      option.toLowerCase(Locale.ROOT) + of
    }
    names.diff(names.distinct).headOption match {
      case Some(name) => Left(s"The option '$name' is given twice.")
      case None =>
        entries.foldLeft[Either[String, T]](Right(defaults)) { case (options, (name, value)) =>
          options.flatMap(set(_, OptionEntry(name, value)))
        }
    }
  }

  private def set(options: T, entry: OptionEntry): Either[String, T] =
    specs.find(_.matches(entry)) match {
      case None => Left(unknown(entry.name))
      case Some(spec) if entry.value == null =>
        Left(s"The option '${entry.name}' is NULL. The valid values are: ${spec.values}.")
      case Some(spec) => spec.set(options, entry)
    }

  private def unknown(name: String): String =
    s"There is no option '$name'. The options are ${specs.map(s => s"'${s.name}'").mkString(", ")}."

  /** The options, one a line, for `DESCRIBE FUNCTION EXTENDED`. */
  def describe: String = specs
    .map(spec => s"${spec.name} (default: ${spec.default}) - ${spec.description}${valid(spec)}")
    .mkString("          ", "\n          ", "")

  private def valid(spec: OptionSpec[T]) = s" The valid values are: ${spec.values}."

  /** The options as a table, for the documentation. */
  def markdown: String =
    (Seq("Option", "Values", "Default", "Meaning") +: Seq.fill(4)("---") +: specs.map { spec =>
      Seq(s"`${spec.name}`", spec.values, spec.default, spec.description)
    }).map(_.map(_.replace("|", "\\|")).mkString("| ", " | ", " |\n")).mkString

  /** The names and the valid values as JSON, for Python. */
  def json: String = JsonMapper.builder().build().writeValueAsString(
    specs.map(spec => Map("name" -> spec.name, "values" -> spec.values).asJava).asJava
  )
}

/**
 * One option of a function or a data source. It is declared once: [[OptionList]] uses the declaration to
 * check what users give, and to write error messages, `DESCRIBE FUNCTION EXTENDED` and the tables of the
 * documentation.
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
 *   `type.<oid>`, means all names that begin with the text before the placeholder.
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

  /** An option that is true or false. The default is false. */
  def flag[T](name: String, description: String)(set: (T, Boolean) => T): OptionSpec[T] =
    choice[T, Boolean](name, "false", description)("true" -> true, "false" -> false)(set)

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
