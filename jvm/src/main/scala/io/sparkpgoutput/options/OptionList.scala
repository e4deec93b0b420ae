package io.sparkpgoutput.options

import java.util.Locale

/**
 * All options of a function or a data source, in the order in which they are described.
 *
 * @tparam T the class that holds the parsed options
 * @param defaults the options if none is given
 */
final class OptionList[T](val defaults: T, val specs: Seq[OptionSpec[T]]) {

  /** Reads the options, with names in any case. `Left` says what is wrong with the first bad one. */
  def parse(entries: Seq[(String, String)]): Either[String, T] =
    repeated(entries.map(_._1)) match {
      case Some(name) => Left(s"The option '$name' is given twice.")
      case None =>
        entries.foldLeft[Either[String, T]](Right(defaults)) { case (options, (name, value)) =>
          options.flatMap(set(_, OptionEntry(name, value)))
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

  private def repeated(names: Seq[String]): Option[String] = {
    val keys = names.map(_.toLowerCase(Locale.ROOT))
    keys.diff(keys.distinct).headOption
  }

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
}
