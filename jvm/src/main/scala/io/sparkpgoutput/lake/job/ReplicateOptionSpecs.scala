package io.sparkpgoutput.lake.job

import java.time.Duration

import io.sparkpgoutput.lake.catalog.HashSalt
import io.sparkpgoutput.options.OptionSpec.parsed
import io.sparkpgoutput.options.{OptionEntry, OptionSpec, OptionValues}
import io.sparkpgoutput.source.PublicationNames

/** The kinds of options that [[ReplicateOptions]] has: how each kind is read, and what its values are called. */
private[job] object ReplicateOptionSpecs {

  type Spec = OptionSpec[ReplicateOptions]

  /** Sets the field of an option. */
  type SetField[A] = (ReplicateOptions, A) => ReplicateOptions

  /** Adds the value of an option for a table or a column, whose name follows a point. */
  type AddEntry[A] = (ReplicateOptions, String, A) => ReplicateOptions

  private val Percent = "([1-9][0-9]?)%".r

  def number(name: String, default: Int, description: String, values: Range = 1 to 100)(
      set: SetField[Int]
  ): Spec = {
    val shown = s"${values.head} to ${values.last}"
    parsed(name, shown, default.toString, description)(_.toIntOption.filter(values.contains))(set)
  }

  def duration(name: String, default: String, description: String)(set: SetField[Duration]): Spec =
    parsed(name, "a time such as 500ms, 5s or 10min", default, description)(text =>
      OptionValues.time(text).filter(_.isZero || text.exists(_.isLetter))
    )(set)

  def size(name: String, default: String, description: String)(set: SetField[Long]): Spec =
    parsed(name, "a size such as 512m or 2g", default, description)(OptionValues.size)(set)

  def memory(text: String): Option[Long] = text match {
    case Percent(percent) => Some(ofHeap(percent.toInt))
    case size             => OptionValues.size(size)
  }

  def ofHeap(percent: Int): Long = Runtime.getRuntime.maxMemory / 100 * percent

  /** An option for each table or column. */
  def prefixed(name: String, values: String, default: String, description: String)(
      add: AddEntry[String]
  ): Spec = prefixedParsed(name, values, default, description)(Some(_))(add)

  def columns(name: String, default: String, description: String)(
      add: AddEntry[Seq[String]]
  ): Spec = OptionSpec(name, PublicationNames.Values, default, description)((options, entry) =>
    for {
      table <- suffix(entry)
      names <- PublicationNames.parse(entry.value).toRight(entry.invalid(PublicationNames.Values))
      both = options.hiding.tables.get(table).flatMap(_.names.find(names.contains))
      changed <- both.toLeft(add(options, table, names)).left.map(column =>
        s"The options exclude and hash the column '$column' of '$table'. Leave it out of one of them."
      )
    } yield changed
  )

  def salt(name: String, values: String, description: String)(
      read: String => Either[String, HashSalt]
  ): Spec = OptionSpec(name, values, "required for hashColumns", description)((options, entry) =>
    if (options.hiding.salt.nonEmpty)
      Left("The options have a 'hashSaltFile' and a 'hashSaltVariable'. Leave one out.")
    else
      read(entry.value)
        .map(salt => options.copy(hiding = options.hiding.copy(salt = Some(salt))))
        .left.map(why => s"The option '$name' is '${entry.value}', and has no salt: $why.")
  )

  /** An option for single tables, with the values of the option for all tables. */
  def ofTable(option: String, values: Seq[String], description: String)(
      add: AddEntry[String]
  ): Spec = {
    val default = s"the option $option applies"
    prefixedParsed(s"$option.<table>", values.mkString(", "), default, description)(text =>
      values.find(_.equalsIgnoreCase(text))
    )(add)
  }

  /** An option as [[prefixed]], whose value `read` reads. `read` returns None for an invalid value. */
  def prefixedParsed[A](name: String, values: String, default: String, description: String)(
      read: String => Option[A]
  )(add: AddEntry[A]): Spec = OptionSpec(name, values, default, description)((options, entry) =>
    suffix(entry).flatMap(table =>
      read(entry.value).map(add(options, table, _)).toRight(entry.invalid(values))
    )
  )

  /** Returns what follows the point in the name of an option. */
  def suffix(entry: OptionEntry): Either[String, String] =
    Some(entry.name.dropWhile(_ != '.').drop(1)).filter(_.nonEmpty)
      .toRight(s"The option '${entry.name}' lacks a name after the point.")
}
