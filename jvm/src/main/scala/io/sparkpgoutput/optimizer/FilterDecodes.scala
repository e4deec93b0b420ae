package io.sparkpgoutput.optimizer

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{Filter, LogicalPlan, Project}
import org.apache.spark.unsafe.types.UTF8String

import io.sparkpgoutput.expressions.{DecodeFunction, PrunedDecode}
import io.sparkpgoutput.protocol.{MessageFilter, MessageSchema}

/**
 * Lets a decode below a filter leave out the messages that the filter drops by their type or table:
 * their rows become NULL, for which the same conditions are not true either. And marks what is
 * decoded for a filter and for the operators above it, lest Spark copy the decode into the filter.
 */
private[optimizer] object FilterDecodes extends PredicateHelper {
  def apply(plan: LogicalPlan): LogicalPlan = plan.transformUp {
    case Filter(condition, Project(list, child)) if list.exists(decoded(_, condition)) =>
      val columns = AttributeSet(list.filter(decoded(_, condition)).map(_.toAttribute))
      val marked = list.map {
        case column if columns.contains(column.toAttribute) => mark(column, condition)
        case other                                          => other
      }
      Filter(condition, Project(marked, child))
  }

  /** Whether it decodes something that the condition asks for. */
  private def decoded(column: NamedExpression, condition: Expression): Boolean =
    column.exists(_.isInstanceOf[DecodeFunction]) &&
      condition.references.contains(column.toAttribute)

  private def mark(column: NamedExpression, condition: Expression): NamedExpression = {
    val kept = column match {
      case Alias(decode: DecodeFunction, _) =>
        and(decode.filter, keptBy(condition, column.toAttribute))
      case _ => MessageFilter.all
    }
    column.transform { case decode: DecodeFunction =>
      PrunedDecode.of(decode).copy(filter = kept, shared = true)
    }.asInstanceOf[NamedExpression]
  }

  /** By the conditions that are evaluated before any that might fail for a row that is not NULL. */
  private def keptBy(condition: Expression, column: Attribute): MessageFilter = {
    val first = splitConjunctivePredicates(condition).takeWhile(SimpleConditions.contains)
    def found(field: Int) = both(first.map(values(_, column, field)))
    MessageFilter(
      found(MessageSchema.TYPE).map(_.map(_.asInstanceOf[UTF8String].toString)),
      found(MessageSchema.RELATION_ID).map(_.map(_.asInstanceOf[Long]))
    )
  }

  private def and(a: MessageFilter, b: MessageFilter): MessageFilter =
    MessageFilter(both(Seq(a.types, b.types)), both(Seq(a.relationIds, b.relationIds)))

  /** What is in all of the sets that there are. */
  private def both[T](sets: Seq[Option[Set[T]]]): Option[Set[T]] = sets.flatten.reduceOption(_ & _)

  /** The values that a column's field can have where a condition is true; None where any. */
  private def values(condition: Expression, column: Attribute, field: Int): Option[Set[Any]] = {
    val name = MessageSchema.schema(field).name
    def isField(expression: Expression): Boolean = expression match {
      case get @ GetStructField(child, ordinal, _) =>
        child.semanticEquals(column) && get.childSchema(ordinal).name == name
      case _ => false
    }
    condition match {
      case EqualTo(e, Literal(value, _)) if isField(e) => Some(Set(value) - null)
      case EqualTo(Literal(value, _), e) if isField(e) => Some(Set(value) - null)
      case EqualNullSafe(e, Literal(value, _)) if isField(e) && value != null => Some(Set(value))
      case EqualNullSafe(Literal(value, _), e) if isField(e) && value != null => Some(Set(value))
      case In(e, list) if isField(e) && list.forall(_.isInstanceOf[Literal]) =>
        Some(list.map(_.asInstanceOf[Literal].value).toSet - null)
      case InSet(e, set) if isField(e) => Some(set - null)
      case And(a, b)                   => both(Seq(a, b).map(values(_, column, field)))
      case Or(a, b) =>
        values(a, column, field).zip(values(b, column, field)).map { case (a, b) => a ++ b }
      case _ => None
    }
  }
}
