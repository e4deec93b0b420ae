package io.sparkpgoutput.optimizer

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{Filter, LogicalPlan, Project}
import org.apache.spark.unsafe.types.UTF8String

import io.sparkpgoutput.decode.MessageFilter
import io.sparkpgoutput.decode.sql.DecodeMessage
import io.sparkpgoutput.protocol.MessageSchema

/**
 * Lets a decode below a filter drop the messages that the filter drops by their type or table. The rows of these
 * messages become NULL, and the conditions of the filter are not true for NULL either. If a later condition can fail,
 * the filter first asks whether the row is NULL: Spark evaluates what comes after NULL in a conjunction, but not what
 * comes after false. The rule also marks a decode that both a filter and operators above it use, so that Spark does not
 * copy it into the filter.
 */
object FilterDecodes extends PredicateHelper {
  def apply(plan: LogicalPlan): LogicalPlan = plan.transformUp {
    case Filter(condition, project: Project) =>
      val decoded = project.mapExpressions(marked(_, condition))
      Filter(
        if (InfallibleConditions.contains(condition)) condition else guarded(condition, decoded),
        decoded
      )
  }

  /** The condition, after IS NOT NULL for each decode that drops messages. */
  private def guarded(condition: Expression, decoded: Project): Expression = {
    val conditions = splitConjunctivePredicates(condition)
    decoded.projectList.collect {
      case column @ Alias(decode: DecodeMessage, _) if decode.filter != MessageFilter.all =>
        IsNotNull(column.toAttribute)
    }.filterNot(conditions.contains(_)).foldRight(condition)(And(_, _))
  }

  /**
   * Marks the decodes of a column that the condition uses. Only a decode that is the column itself may drop
   * messages. The condition says nothing about the messages of a decode that another expression takes, such as
   * the arguments of a decode.
   */
  private def marked(column: Expression, condition: Expression): Expression = column match {
    case column: NamedExpression if condition.references.contains(column.toAttribute) =>
      column.transform { case decode: DecodeMessage => decode.copy(shared = true) } match {
        case alias @ Alias(decode: DecodeMessage, _) =>
          val kept = keptBy(condition, column.toAttribute, decode.filter)
          alias.withNewChildren(Seq(decode.copy(filter = kept)))
        case other => other
      }
    case other => other
  }

  /** The messages that the condition keeps, of those that the decode keeps already. */
  private def keptBy(condition: Expression, column: Attribute, kept: MessageFilter) = {
    def found(field: Int) = FilterValues.of(condition)(isField(column, field))
    val types = found(MessageSchema.TYPE).map(_.map(_.asInstanceOf[UTF8String].toString))
    val relationIds = found(MessageSchema.RELATION_ID).map(_.map(_.asInstanceOf[Long]))
    MessageFilter(
      FilterValues.both(Seq(kept.types, types)),
      FilterValues.both(Seq(kept.relationIds, relationIds))
    )
  }

  private def isField(column: Attribute, field: Int)(expression: Expression): Boolean =
    expression match {
      case get @ GetStructField(child, ordinal, _) =>
        child.semanticEquals(column) &&
        get.childSchema(ordinal).name == MessageSchema.schema(field).name
      case _ => false
    }
}

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

/**
 * The conditions that cannot fail for any row. Spark gives such conditions to a source, to skip data.
 */
object InfallibleConditions {
  def contains(condition: Expression): Boolean = condition match {
    case _: Attribute | _: Literal                          => true
    case _: BinaryComparison | _: In | _: InSet             => condition.children.forall(contains)
    case _: And | _: Or | _: Not | _: IsNull | _: IsNotNull => condition.children.forall(contains)
    case _: StringPredicate | _: GetStructField             => condition.children.forall(contains)
    case _                                                  => false
  }
}
