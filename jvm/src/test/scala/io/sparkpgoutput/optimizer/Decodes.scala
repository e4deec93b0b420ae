package io.sparkpgoutput.optimizer

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.classic.ClassicConversions.castToImpl

import io.sparkpgoutput.decode.sql.DecodeMessage

/** The decodes in the optimized plan of a query. */
object Decodes {
  def in(query: DataFrame): Seq[DecodeMessage] = {
    val plan = castToImpl(query).queryExecution.optimizedPlan
    plan.collect { case operator => operator.expressions }.flatten.flatMap(_.collect {
      case decode: DecodeMessage => decode
    })
  }
}
