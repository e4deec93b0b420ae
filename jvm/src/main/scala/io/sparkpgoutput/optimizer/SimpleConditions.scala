package io.sparkpgoutput.optimizer

import org.apache.spark.sql.catalyst.expressions._

/**
 * Conditions that cannot fail, whatever the row: such that Spark gives to a source to skip data by.
 */
object SimpleConditions {
  def contains(condition: Expression): Boolean = condition match {
    case _: Attribute | _: Literal                          => true
    case _: BinaryComparison | _: In | _: InSet             => condition.children.forall(contains)
    case _: And | _: Or | _: Not | _: IsNull | _: IsNotNull => condition.children.forall(contains)
    case _: StringPredicate | _: GetStructField             => condition.children.forall(contains)
    case _                                                  => false
  }
}
