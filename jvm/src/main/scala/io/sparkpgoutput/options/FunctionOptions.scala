package io.sparkpgoutput.options

import java.util.Locale

import org.apache.spark.sql.catalyst.util.{ArrayData, MapData}
import org.apache.spark.sql.types.{DataType, MapType, NullType, StringType}
import org.apache.spark.unsafe.types.UTF8String

/** The constant map of options that functions take, names in any case. */
object FunctionOptions {
  val OptionsType: MapType = MapType(StringType, StringType)

  /** Strings to strings, or NULL; `map()` without entries has neither keys nor values. */
  def isOptions(dataType: DataType): Boolean = dataType match {
    case MapType(key, value, _) => Seq(key, value).forall(isText)
    case other                  => other == NullType
  }

  private def isText(dataType: DataType) = dataType match {
    case _: StringType | NullType => true
    case _                        => false
  }

  /** The entries of the map, in order. */
  def entries(options: MapData): Seq[(String, String)] =
    if (options == null) Nil else texts(options.keyArray()).zip(texts(options.valueArray()))

  private def texts(array: ArrayData): Seq[String] =
    array.toSeq[UTF8String](StringType).map(text => if (text == null) null else text.toString)

  /**
   * Reads the options one after the other; Left says what is wrong with them.
   *
   * @param set
   *   what an option, its name in lower case, makes of those before
   */
  def parse[T](options: Seq[(String, String)], none: T)(
      set: (T, String, String) => Either[String, T]
  ): Either[String, T] =
    options
      .foldLeft[Either[String, (T, Set[String])]](Right((none, Set.empty))) {
        case (Right((parsed, seen)), (name, value)) =>
          val known = name.toLowerCase(Locale.ROOT)
          if (seen(known)) Left(s"The option '$known' is given twice")
          else set(parsed, known, value).map((_, seen + known))
        case (error, _) => error
      }
      .map(_._1)

  def invalid(name: String, value: String, valid: Seq[String]): String =
    s"'$value' is not valid for the option '$name'; valid are ${valid.mkString(", ")}"

  def unknown(name: String, names: Seq[String]): String =
    s"There is no option '$name'; the options are ${names.map(n => s"'$n'").mkString(", ")}"
}
