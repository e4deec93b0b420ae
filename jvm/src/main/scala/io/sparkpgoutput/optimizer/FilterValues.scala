package io.sparkpgoutput.optimizer

import org.apache.spark.sql.catalyst.expressions._

/** The values that a filter lets through in a column or field. */
object FilterValues extends PredicateHelper {

  /**
   * The values with which the condition can be true; None if it can be true with any. They are found
   * only in the conditions that Spark evaluates before any that might fail for another row.
   *
   * @param isField whether an expression is the column or field
   */
  def of(condition: Expression)(isField: Expression => Boolean): Option[Set[Any]] = both(
    splitConjunctivePredicates(condition)
      .takeWhile(InfallibleConditions.contains)
      .map(values(_, isField))
  )

  /** The values that are in all of the sets. */
  def both[T](sets: Seq[Option[Set[T]]]): Option[Set[T]] = sets.flatten.reduceOption(_ & _)

  private def values(condition: Expression, isField: Expression => Boolean): Option[Set[Any]] =
    condition match {
      case EqualTo(e, Literal(value, _)) if isField(e) => Some(Set(value) - null)
      case EqualTo(Literal(value, _), e) if isField(e) => Some(Set(value) - null)
      case EqualNullSafe(e, Literal(value, _)) if isField(e) && value != null => Some(Set(value))
      case EqualNullSafe(Literal(value, _), e) if isField(e) && value != null => Some(Set(value))
      case In(e, list) if isField(e) && list.forall(_.isInstanceOf[Literal]) =>
        Some(list.map(_.asInstanceOf[Literal].value).toSet - null)
      case InSet(e, set) if isField(e) => Some(set - null)
      case And(a, b)                   => both(Seq(a, b).map(values(_, isField)))
      case Or(a, b) =>
        values(a, isField).zip(values(b, isField)).map { case (a, b) => a ++ b }
      case _ => None
    }
}
