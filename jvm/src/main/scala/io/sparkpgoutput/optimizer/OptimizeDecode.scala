package io.sparkpgoutput.optimizer

import org.apache.spark.sql.catalyst.expressions.{Expression, GetStructField}
import org.apache.spark.sql.catalyst.optimizer.{ColumnPruning, RemoveNoopOperators}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule

import io.sparkpgoutput.decode.sql.DecodeMessage
import io.sparkpgoutput.rows.sql.{DecodeTuple, ReadTuple, TypedRow}

/**
 * Makes decodes cheaper. This head explains '''what the optimizer may narrow''', and what it may not do.
 *
 * {{{
 *   SELECT d.new.text[0] FROM (SELECT pgoutput_decode(data) AS d …) WHERE d.type = 'INSERT'
 *
 *   Project d.new.text[0]                        Project d.new.text[0]
 *   Filter  d.type = 'INSERT'             ──►    Filter  d.type = 'INSERT'
 *   Project pgoutput_decode(data) AS d           Project pgoutput_decode(data)[type, new.text[0]] of INSERT AS d
 *
 *   pgoutput_row(pgoutput_decode(data).new, …)  ──►  DecodeTuple: the typed row, without a row of the message
 * }}}
 *
 * The rules run in this order:
 *
 *  1. [[FuseDecodeAndRow]] makes one expression of a decode and the typed row of its tuple.
 *  2. [[ShareDecodes]] makes several decodes of one message one decode, in a projection below.
 *  3. [[FilterDecodes]] lets a decode drop the messages whose type or table the filter above drops.
 *  4. [[PruneDecodes]] narrows each decode to the fields, and each typed row to the columns, that the query
 *     uses.
 *
 * '''What stays the same.''' The values that a query returns. A decode checks the whole message, whatever is left of
 * its row, so a message is malformed or not in the same way. With the rules, a query can have fewer errors:
 *
 *  - The values in columns of typed rows that the query does not use are not converted, so they cannot be errors.
 *    `IS NULL` of a typed row uses all of its columns, because users check every column with it. `IS NOT NULL`,
 *    which Spark infers, uses none.
 *  - A condition of a filter that comes after a decode moves below the decode, if it cannot fail and uses no decode.
 *    Spark may then give it to a source, which drops rows before the decode gets them. A malformed message in such a
 *    row is not an error.
 *
 * '''What the rules may not do.'''
 *
 *  - Decode a row that the query does not decode, because the decode could fail. So a decode moves below an operator
 *    only if the operator evaluates it for each row. The conditions of a filter that come before the decode move
 *    below it too.
 *  - Drop a message because a filter drops its type or its table, if an earlier condition of the filter can fail: its
 *    error would be lost. `InfallibleConditions`, in `FilterDecodes.scala`, says which conditions cannot fail.
 *  - Move a decode that is not deterministic, or that uses the variable of a lambda function.
 *  - Narrow a row that gets to an operator that does more than pass on columns: see [[TransparentOperators]], in
 *    `ShareDecodes.scala`. A union, a write and the state of a join of streams need the whole row.
 *  - Leave out a member of a typed row's column: the conversion gives a whole value.
 *  - Narrow a typed row in which two columns have the same name, because columns are found by their names.
 *
 * The rules run when Spark has moved filters and projections to their places. A session that starts with the
 * extension has them from `injectPreCBORule`: they run once, after Spark has optimized the operators, and before it
 * pushes filters into sources. In a session that runs already, `PgOutputExtensions.register` adds them to
 * `extraOptimizations`, which run near the end of the optimizer, until nothing changes. To turn them off, put this
 * object's name in `spark.sql.optimizer.excludedRules`. [[PruneChanges]] does the same for table changes.
 */
object OptimizeDecode extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan =
    if (!decodes(plan)) plan
    else {
      val fused = FuseDecodeAndRow(plan)
      val shared = ShareDecodes(fused)
      val tidied = if (shared eq fused) fused else RemoveNoopOperators(ColumnPruning(shared))
      PruneDecodes(FilterDecodes(tidied))
    }

  private def decodes(plan: LogicalPlan): Boolean = plan.exists(_.expressions.exists(
    _.exists(used => used.isInstanceOf[DecodeMessage] || used.isInstanceOf[TypedRow])
  ))
}

/**
 * Makes one expression of a decode and the typed row of its tuple, if the query uses nothing else
 * of the decode. The decode then writes no row. If the query uses more, `PruneDecodes` lets the
 * decode pass on the cells of the tuple.
 */
object FuseDecodeAndRow {
  def apply(plan: LogicalPlan): LogicalPlan = {
    val ofOneRow = decodesOfOneRow(plan)
    plan.transformAllExpressions { case row: ReadTuple =>
      decodeOf(row) match {
        case Some((decode, field)) if ofOneRow(decode.canonicalized) =>
          import decode.{data, inStream, options}
          DecodeTuple(data, inStream, options, field, row.constantTypeIds.get, row.rowSchema)
        case _ => row
      }
    }
  }

  /** Returns the decodes of which all uses are in typed rows that are equal. */
  private def decodesOfOneRow(plan: LogicalPlan): Set[Expression] = {
    val all = plan.flatMap(_.expressions).flatMap(_.collect {
      case used @ (_: DecodeMessage | _: ReadTuple) => used
    })
    val uses = all.groupMapReduce(_.canonicalized)(_ => 1)(_ + _)
    val rows = all.collect { case row: ReadTuple =>
      decodeOf(row).map(_._1.canonicalized -> row.canonicalized)
    }
    rows.flatten.groupMap(_._1)(_._2).collect {
      case (decode, made) if made.distinct.size == 1 && made.size == uses(decode) => decode
    }.toSet
  }

  /**
   * Returns the decode and the tuple that a row is made of, if the types are the same for all
   * messages.
   */
  private def decodeOf(row: ReadTuple): Option[(DecodeMessage, Int)] = row.tuple match {
    case GetStructField(decode: DecodeMessage, field, _)
        if decode.isWhole && decode.isUtf8 && decode.deterministic && row.typeIds.foldable =>
      Some((decode, field))
    case _ => None
  }
}
