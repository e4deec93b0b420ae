package io.sparkpgoutput

import scala.reflect.ClassTag

import org.apache.spark.sql.catalyst.FunctionIdentifier
import org.apache.spark.sql.catalyst.analysis.FunctionRegistryBase
import org.apache.spark.sql.catalyst.expressions.{Expression, ExpressionInfo}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.SparkStrategy
import org.apache.spark.sql.{SparkSessionExtensions, SparkSessionExtensionsProvider}

import io.sparkpgoutput.changes.sql.{ChangesStrategy, TableFunctions}
import io.sparkpgoutput.decode.sql.{
  PgLsnFormat,
  PgLsnParse,
  PgOutputDecode,
  PgOutputError,
  TryPgLsnParse,
  TryPgOutputDecode
}
import io.sparkpgoutput.optimizer.{OptimizeDecode, PruneChanges}
import io.sparkpgoutput.rows.sql.{PgOutputRow, PgOutputSchema, TryPgOutputRow}

/**
 * Adds the functions, their optimizer rules and their operators to Spark sessions. Spark finds it by
 * itself where the JAR is on the class path (`META-INF/services`); `spark.sql.extensions` may name it
 * too.
 */
class PgOutputExtensions extends SparkSessionExtensionsProvider {
  override def apply(extensions: SparkSessionExtensions): Unit = {
    PgOutputExtensions.functions.foreach(extensions.injectFunction)
    TableFunctions.all.foreach(extensions.injectTableFunction)
    PgOutputExtensions.optimizerRules.foreach(rule => extensions.injectPreCBORule(_ => rule))
    PgOutputExtensions.strategies.foreach(strategy =>
      extensions.injectPlannerStrategy(_ => strategy)
    )
  }
}

object PgOutputExtensions {
  type Function = (FunctionIdentifier, ExpressionInfo, Seq[Expression] => Expression)

  val functions: Seq[Function] = Seq(
    function[PgOutputDecode]("pgoutput_decode"),
    function[TryPgOutputDecode]("try_pgoutput_decode"),
    function[PgOutputError]("pgoutput_error"),
    function[PgOutputRow]("pgoutput_row"),
    function[TryPgOutputRow]("try_pgoutput_row"),
    function[PgOutputSchema]("pgoutput_schema"),
    function[PgLsnFormat]("pg_lsn_format"),
    function[PgLsnParse]("pg_lsn_parse"),
    function[TryPgLsnParse]("try_pg_lsn_parse")
  )

  val optimizerRules: Seq[Rule[LogicalPlan]] = Seq(OptimizeDecode, PruneChanges)

  val strategies: Seq[SparkStrategy] = Seq(ChangesStrategy)

  private def function[T <: Expression: ClassTag](name: String): Function = {
    val (info, build) = FunctionRegistryBase.build[T](name, since = None)
    (FunctionIdentifier(name), info, arguments => build(PositionalArguments.of(name, arguments)))
  }
}
