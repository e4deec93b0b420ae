package io.sparkpgoutput.optimizer

import scala.collection.mutable
import scala.util.Try

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.plans.{InnerLike, LeftExistence}

import io.sparkpgoutput.decode.sql.DecodeMessage

/**
 * Decodes each message once: a projection below an operator decodes what the operator and those above
 * it need. A decode moves there only if the operator evaluates it for each row anyway.
 */
object ShareDecodes extends PredicateHelper {
  def apply(plan: LogicalPlan): LogicalPlan =
    new ShareDecodes(plan.exists(isOuterJoin)).shareAll(plan)

  private def isOuterJoin(plan: LogicalPlan): Boolean = plan match {
    case Join(_, _, _: InnerLike | LeftExistence(_), _, _) => false
    case other                                             => other.isInstanceOf[Join]
  }

  /**
   * Returns whether an expression is NULL if its columns are. An outer join makes all columns of one side NULL, and so
   * the row of a decode below the join. `EliminateOuterJoin` of Spark evaluates conditions in the same way.
   */
  private def isNullOfNulls(data: Expression): Boolean = data.isInstanceOf[Attribute] || {
    val columns = data.references.toSeq
    val bound = BindReferences.bindReference(data, columns)
    !bound.exists(_.isInstanceOf[Unevaluable]) &&
    Try(bound.eval(new GenericInternalRow(columns.length)) == null).getOrElse(false)
  }

  /** The decodes that an expression always evaluates, and whose errors it shows. */
  private def evaluatedIn(expression: Expression): Seq[DecodeMessage] = expression match {
    case decode: DecodeMessage => Seq(decode)
    case conditional: ConditionalExpression =>
      conditional.alwaysEvaluatedInputs.flatMap(evaluatedIn)
    case _: And | _: Or | _: In | _: Elt | _: AtLeastNNonNulls =>
      expression.children.take(1).flatMap(evaluatedIn)
    case function: HigherOrderFunction => evaluatedInOrder(function.arguments)
    case function: AggregateExpression if function.filter.isDefined =>
      function.filter.toSeq.flatMap(evaluatedIn)
    // They evaluate the values of some rows only. Spark 4.2 has another class of this name with a number of values.
    case _: First                                                     => Nil
    case function: AggregateFunction if MaxMinBy(function.prettyName) => Nil
    case Count(values)                     => values.find(_.nullable).toSeq.flatMap(evaluatedIn)
    case _: TryEval | _: PlanExpression[_] => Nil
    case _: DivModLike | _: Pmod =>
      evaluatedInRightFirst(expression.children.head, expression.children.last)
    case StringLocate(part, text, start) => evaluatedInOrder(Seq(start, part, text))
    // They evaluate each child.
    case _: EqualNullSafe | _: CreateNamedStruct | _: CreateArray | _: CreateMap | _: Greatest |
        _: Least | _: HashExpression[_] | _: UserDefinedExpression =>
      expression.children.flatMap(evaluatedIn)
    case other => evaluatedInOrder(other.children)
  }

  private val MaxMinBy = Set("max_by", "min_by")

  /** Most expressions evaluate their children in order, until one is NULL. */
  private def evaluatedInOrder(children: Seq[Expression]): Seq[DecodeMessage] = {
    val (notNull, others) = children.span(!_.nullable)
    (notNull ++ others.take(1)).flatMap(evaluatedIn)
  }

  /** A division evaluates the right side first, and the left one unless the right one is NULL or 0. */
  private def evaluatedInRightFirst(left: Expression, right: Expression): Seq[DecodeMessage] = {
    val needsLeft = right match {
      case Literal(value, dataType) => value != null && value != Literal.default(dataType).value
      case _                        => false
    }
    evaluatedIn(right) ++ (if (needsLeft) evaluatedIn(left) else Nil)
  }

  /** The sides of the equalities of an equi-join. */
  private def joinKeys(join: Join): Seq[Expression] =
    join.condition.toSeq.flatMap(splitConjunctivePredicates).flatMap {
      case EqualTo(a, b) if onSides(join, a, b) || onSides(join, b, a) => Seq(a, b)
      case _                                                           => Nil
    }

  private def onSides(join: Join, left: Expression, right: Expression): Boolean =
    left.references.nonEmpty && left.references.subsetOf(join.left.outputSet) &&
      right.references.nonEmpty && right.references.subsetOf(join.right.outputSet)
}

/** @param hasOuterJoin whether the plan has a join that makes rows of NULLs */
final private class ShareDecodes(hasOuterJoin: Boolean) extends PredicateHelper {
  import ShareDecodes._

  private def decodesIn(expressions: Seq[Expression]): Seq[DecodeMessage] =
    expressions.flatMap(_.collect { case decode: DecodeMessage if canMove(decode) => decode })

  /** A decode of a lambda function's variable, or of a random choice, stays where it is. */
  private def canMove(decode: DecodeMessage): Boolean =
    decode.deterministic && decode.references.nonEmpty &&
      !decode.exists(_.isInstanceOf[NamedLambdaVariable]) &&
      (!hasOuterJoin || isNullOfNulls(decode.data))

  /**
   * The columns that hold a decode's row, by the decode. A column can be used where it is output.
   */
  private val columns = mutable.Map.empty[Expression, List[Attribute]].withDefaultValue(Nil)

  /** The plan, with the same output. */
  def shareAll(plan: LogicalPlan): LogicalPlan = restore(plan, share(plan, Set.empty))

  private def restore(plan: LogicalPlan, shared: LogicalPlan): LogicalPlan =
    if (shared.output == plan.output) shared else Project(plan.output, shared)

  /**
   * The plan, with the same output and maybe more columns after it or in it.
   *
   * @param above the decodes in the operators above that take columns from here
   */
  private def share(plan: LogicalPlan, above: Set[Expression]): LogicalPlan =
    // The columns of a union have the ids of those of its first input, which do not say what the others have. So what
    // is known of the columns below an operator does not count above it.
    if (!TransparentOperators.contains(plan))
      plan.mapChildren(new ShareDecodes(hasOuterJoin).shareAll(_))
    else {
      val wanted = above ++ decodesIn(plan.expressions).map(_.canonicalized)
      val operator = reuse(withChildren(plan, plan.children.map(share(_, wanted))))
      register(operator)
      val moved = worthMoving(operator, above).foldLeft(operator)(moveBelow)
      passOn(reuse(moved), above)
    }

  /**
   * The operator over children that have more columns. A generator names the columns that it drops by their
   * positions, which are others if the child of a join or a window has one more column.
   */
  private def withChildren(plan: LogicalPlan, children: Seq[LogicalPlan]): LogicalPlan =
    (plan, plan.withNewChildren(children)) match {
      case (before: Generate, after: Generate) if after ne before =>
        val dropped = AttributeSet(before.unrequiredChildIndex.map(before.child.output))
        after.copy(unrequiredChildIndex =
          after.child.output.indices.filter(place => dropped.contains(after.child.output(place)))
        )
      case (_, after) => after
    }

  /** Remembers the columns that a projection makes of decodes. */
  private def register(plan: LogicalPlan): Unit = for {
    Project(list, _) <- Option(plan)
    alias @ Alias(decode: DecodeMessage, _) <- list if canMove(decode)
  } remember(decode, alias)

  private def remember(decode: DecodeMessage, alias: Alias): Unit = {
    val key = decode.canonicalized
    columns(key) = alias.toAttribute :: columns(key)
  }

  private def column(decode: Expression, from: Seq[LogicalPlan]): Option[Attribute] =
    columns(decode.canonicalized).find(attribute => from.exists(_.outputSet.contains(attribute)))

  /** Takes the rows that the input has decoded already. */
  private def reuse(plan: LogicalPlan): LogicalPlan = plan.transformExpressions {
    case decode: DecodeMessage => column(decode, plan.children).getOrElse(decode)
  }

  /**
   * Returns the decodes that move below an operator. A decode moves if a filter uses it, so that
   * messages are dropped early. It also moves if a key uses it, because Spark evaluates keys more
   * than once, or if it is used twice, here or above.
   */
  private def worthMoving(operator: LogicalPlan, above: Set[Expression]): Seq[DecodeMessage] = {
    val all = decodesIn(operator.expressions).groupBy(_.canonicalized)
    val input = operator.children.map(_.outputSet)
    evaluatedBy(operator).distinctBy(_.canonicalized).filter { decode =>
      val several = operator match {
        case _: Filter | _: Join | _: Sort => true
        case _                             => all.get(decode.canonicalized).exists(_.size > 1)
      }
      (several || above(decode.canonicalized)) && canMove(decode) &&
      input.exists(decode.references.subsetOf(_))
    }
  }

  /** The decodes that an operator evaluates for each row of its input. */
  private def evaluatedBy(operator: LogicalPlan): Seq[DecodeMessage] = operator match {
    case Filter(condition, _) => split(condition)._2.headOption.toSeq.flatMap(evaluatedIn)
    case _: Project | _: Aggregate | _: Sort => operator.expressions.flatMap(evaluatedIn)
    case join: Join                          => joinKeys(join).flatMap(evaluatedIn)
    case _                                   => Nil
  }

  private def moveBelow(operator: LogicalPlan, decode: DecodeMessage): LogicalPlan = {
    val alias = Alias(decode, "decoded")()
    remember(decode, alias)
    operator match {
      case Filter(condition, child) =>
        val (below, staying) = split(condition)
        val input = below.reduceOption(And(_, _)).fold(child)(Filter(_, child))
        Filter(staying.reduce(And(_, _)), Project(child.output :+ alias, input))
      case other =>
        val side = other.children.indexWhere(c => decode.references.subsetOf(c.outputSet))
        val child = other.children(side)
        other.withNewChildren(other.children.updated(side, Project(child.output :+ alias, child)))
    }
  }

  /**
   * Splits conditions into those that are evaluated before a decode, and the others, in their
   * order. A condition is evaluated before a decode if it comes before the first condition that decodes, or
   * if Spark may have given it to a source to skip data.
   */
  private def split(condition: Expression): (Seq[Expression], Seq[Expression]) = {
    val (leading, rest) =
      splitConjunctivePredicates(condition).span(!_.exists(_.isInstanceOf[DecodeMessage]))
    val (simple, staying) =
      rest.partition(c => InfallibleConditions.contains(c) && !usesDecodedColumn(c))
    (leading ++ simple, staying)
  }

  private def usesDecodedColumn(condition: Expression): Boolean =
    condition.references.exists(a => columns.valuesIterator.exists(_.exists(_.semanticEquals(a))))

  /** Lets a projection pass on the decoded columns that are needed above it. */
  private def passOn(plan: LogicalPlan, above: Set[Expression]): LogicalPlan = plan match {
    case Project(list, child) =>
      val more =
        above.toSeq.flatMap(decode => column(decode, Seq(child))).filterNot(plan.outputSet.contains)
      if (more.isEmpty) plan else Project(list ++ more, child)
    case other => other
  }
}

/**
 * The operators that pass on the columns of their input unchanged, for any number and any types of
 * columns.
 */
object TransparentOperators {

  /**
   * Returns whether an operator passes on its columns. A union does not, because its inputs must
   * have the same types. A join of streams does not, because it keeps its input in a state that
   * must not change. Operators that write do not either.
   */
  def contains(plan: LogicalPlan): Boolean = plan match {
    case _: Project | _: Filter | _: Aggregate | _: Sort | _: Window | _: Generate => true
    case _: GlobalLimit | _: LocalLimit | _: Offset | _: Tail | _: Sample          => true
    case _: Repartition | _: RepartitionByExpression | _: SubqueryAlias            => true
    case _: BatchEvalPython | _: ArrowEvalPython                                   => true
    case join: Join => !join.isStreaming
    case _          => false
  }
}
