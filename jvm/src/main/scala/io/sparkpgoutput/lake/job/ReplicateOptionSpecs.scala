package io.sparkpgoutput.lake.job

import java.time.Duration

import io.sparkpgoutput.lake.catalog.HashSalt
import io.sparkpgoutput.options.{OptionEntry, OptionSpec, OptionValues}
import io.sparkpgoutput.source.PublicationNames

/** The kinds of options that [[ReplicateOptions]] has: how each kind is read, and what its values are called. */
private[job] object ReplicateOptionSpecs {

  private val Percent = "([1-9][0-9]?)%".r

  def text(name: String, values: String, default: String, description: String)(
      set: (ReplicateOptions, String) => ReplicateOptions
  ): OptionSpec[ReplicateOptions] =
    OptionSpec.text[ReplicateOptions](name, values, default, description)(set)

  def flag(name: String, description: String)(
      set: (ReplicateOptions, Boolean) => ReplicateOptions
  ): OptionSpec[ReplicateOptions] =
    OptionSpec.flag[ReplicateOptions](name, description)(set)

  def number(name: String, default: Int, description: String, values: Range = 1 to 100)(
      set: (ReplicateOptions, Int) => ReplicateOptions
  ): OptionSpec[ReplicateOptions] = OptionSpec.parsed[ReplicateOptions, Int](
    name,
    s"${values.head} to ${values.last}",
    default.toString,
    description
  )(_.toIntOption.filter(values.contains))(set)

  def duration(name: String, default: String, description: String)(
      set: (ReplicateOptions, Duration) => ReplicateOptions
  ): OptionSpec[ReplicateOptions] = OptionSpec.parsed[ReplicateOptions, Duration](
    name,
    "a time such as 500ms, 5s or 10min",
    default,
    description
  )(text => OptionValues.time(text).filter(_.isZero || text.exists(_.isLetter)))(set)

  def size(name: String, default: String, description: String)(
      set: (ReplicateOptions, Long) => ReplicateOptions
  ): OptionSpec[ReplicateOptions] = OptionSpec.parsed[ReplicateOptions, Long](
    name,
    "a size such as 512m or 2g",
    default,
    description
  )(OptionValues.size)(set)

  def memory(text: String): Option[Long] = text match {
    case Percent(percent) => Some(ofHeap(percent.toInt))
    case size             => OptionValues.size(size)
  }

  def ofHeap(percent: Int): Long = Runtime.getRuntime.maxMemory / 100 * percent

  /** An option for each table or column, whose name follows a point. */
  def prefixed(name: String, values: String, default: String, description: String)(
      set: (ReplicateOptions, String, String) => ReplicateOptions
  ): OptionSpec[ReplicateOptions] = prefixedParsed(name, values, default, description)(Some(_))(set)

  def columns(name: String, default: String, description: String)(
      set: (ReplicateOptions, String, Seq[String]) => ReplicateOptions
  ): OptionSpec[ReplicateOptions] =
    OptionSpec[ReplicateOptions](name, PublicationNames.Values, default, description)(
      (options, entry) =>
        for {
          table <- suffix(entry)
          names <- PublicationNames.parse(entry.value)
            .toRight(entry.invalid(PublicationNames.Values))
          both = options.hiding.tables.get(table).flatMap(_.names.find(names.contains))
          found <- both.toLeft(set(options, table, names)).left.map(column =>
            s"The options exclude and hash the column '$column' of '$table'. Leave it out of one of them."
          )
        } yield found
    )

  def salt(name: String, values: String, description: String)(
      read: String => Either[String, HashSalt]
  ): OptionSpec[ReplicateOptions] = OptionSpec[ReplicateOptions](
    name,
    values,
    "required for hashColumns",
    description
  )((options, entry) =>
    if (options.hiding.salt.nonEmpty)
      Left("The options have a 'hashSaltFile' and a 'hashSaltVariable'. Leave one out.")
    else
      read(entry.value)
        .map(salt => options.copy(hiding = options.hiding.copy(salt = Some(salt))))
        .left.map(why => s"The option '$name' is '${entry.value}', and has no salt: $why.")
  )

  /** An option of single tables, which has the values of another one for all tables. */
  def ofTable(option: String, values: Seq[String], description: String)(
      set: (ReplicateOptions, String, String) => ReplicateOptions
  ): OptionSpec[ReplicateOptions] =
    prefixedParsed(
      s"$option.<table>",
      values.mkString(", "),
      s"the option $option applies",
      description
    )(text => values.find(_.equalsIgnoreCase(text)))(set)

  /** An option as [[prefixed]], whose value is read; None if that fails. */
  def prefixedParsed[A](name: String, values: String, default: String, description: String)(
      read: String => Option[A]
  )(set: (ReplicateOptions, String, A) => ReplicateOptions): OptionSpec[ReplicateOptions] =
    OptionSpec[ReplicateOptions](name, values, default, description)((options, entry) =>
      suffix(entry).flatMap(table =>
        read(entry.value).map(set(options, table, _)).toRight(entry.invalid(values))
      )
    )

  /** Returns what follows the point in the name of an option. */
  def suffix(entry: OptionEntry): Either[String, String] =
    Some(entry.name.dropWhile(_ != '.').drop(1)).filter(_.nonEmpty)
      .toRight(s"The option '${entry.name}' lacks a name after the point.")
}
