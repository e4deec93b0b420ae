package io.sparkpgoutput.optimizer

import org.apache.spark.sql.catalyst.expressions._

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
