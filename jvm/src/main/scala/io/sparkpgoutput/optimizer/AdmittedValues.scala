package io.sparkpgoutput.optimizer

import org.apache.spark.sql.catalyst.expressions._

/** The values that a filter leaves of a column or field. */
object AdmittedValues extends PredicateHelper {

  /**
   * Those with which the condition can be true; None where it can with any. Found in the conditions
   * that are evaluated before any that might fail for another row.
   *
   * @param isField
   *   whether an expression is the column or field
   */
  def of(condition: Expression)(isField: Expression => Boolean): Option[Set[Any]] = both(
    splitConjunctivePredicates(condition)
      .takeWhile(SimpleConditions.contains)
      .map(values(_, isField))
  )

  /** What is in all of the sets that there are. */
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
