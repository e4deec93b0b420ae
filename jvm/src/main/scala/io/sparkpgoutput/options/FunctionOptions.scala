package io.sparkpgoutput.options

import org.apache.spark.sql.catalyst.util.{ArrayData, MapData}
import org.apache.spark.sql.types.{DataType, MapType, NullType, StringType}
import org.apache.spark.unsafe.types.UTF8String

/** The constant map of options that functions take. */
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
}
