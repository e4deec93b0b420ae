package io.sparkpgoutput.sql

import org.apache.spark.sql.catalyst.expressions.{Cast, Expression, RuntimeReplaceable}
import org.apache.spark.sql.catalyst.util.{ArrayData, MapData}
import org.apache.spark.sql.types.{MapType, StringType}
import org.apache.spark.unsafe.types.UTF8String

/** Arguments whose values are the same for all rows, and are needed during the analysis. */
object ConstantArgument {

  /**
   * The argument as an expression that can be evaluated. The functions in it that the optimizer
   * replaces, among them those of this library, cannot.
   */
  def evaluable(argument: Expression): Expression =
    argument.transformUp { case call: RuntimeReplaceable => call.replacement }

  /** The value of an argument; None if it is not the same for all rows. */
  def value(argument: Expression): Option[Any] = {
    val constant = evaluable(argument)
    Option.when(constant.foldable)(constant.eval())
  }

  /**
   * The entries of a constant map of options, in order; none for NULL. Values of other types, such
   * as a number, are taken as text. None if the argument is not a constant map.
   */
  def entries(options: Expression): Option[Seq[(String, String)]] = {
    val texts = Cast(options, MapType(StringType, StringType), Some("UTC"))
    Option.when(texts.resolved)(texts).flatMap(value).map {
      case map: MapData => strings(map.keyArray()).zip(strings(map.valueArray()))
      case _            => Nil
    }
  }

  private def strings(array: ArrayData): Seq[String] =
    array.toSeq[UTF8String](StringType).map(text => if (text == null) null else text.toString)
}
