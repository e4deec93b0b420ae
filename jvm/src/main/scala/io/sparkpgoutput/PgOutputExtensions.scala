package io.sparkpgoutput

import org.apache.spark.sql.catalyst.FunctionIdentifier
import org.apache.spark.sql.catalyst.expressions.{Expression, ExpressionInfo}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.SparkStrategy
import org.apache.spark.sql.pgoutput.SessionRegistration
import org.apache.spark.sql.{
  SparkSession,
  SparkSessionExtensions,
  SparkSessionExtensionsProvider,
  classic
}

import io.sparkpgoutput.changes.sql.{ChangesStrategy, TableFunctions}
import io.sparkpgoutput.decode.sql.{DecodeFunctions, LsnFunctions}
import io.sparkpgoutput.optimizer.{OptimizeDecode, PruneChanges}
import io.sparkpgoutput.rows.sql.{RowFunctions, SchemaFunction}
import io.sparkpgoutput.source.sql.{OneReadOfSlot, PruneSlotStream}

/**
 * Adds the functions, their optimizer rules and their operators to Spark sessions. Spark finds this
 * class by itself if the JAR is on the class path (`META-INF/services`). You can also name it in
 * `spark.sql.extensions`.
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

  val functions: Seq[Function] =
    (DecodeFunctions.all ++ RowFunctions.all ++ Seq(SchemaFunction.schema) ++ LsnFunctions.all)
      .map(function => (function.identifier, function.info, function.call))

  val optimizerRules: Seq[Rule[LogicalPlan]] =
    Seq(OptimizeDecode, PruneChanges, OneReadOfSlot, PruneSlotStream)

  val strategies: Seq[SparkStrategy] = Seq(ChangesStrategy)

  /** Adds everything to a session that is running already, unless the session has the functions. */
  def register(session: SparkSession): Unit = {
    val names = functions.map { case (name, _, _) => name.funcName }
    if (!names.forall(name => session.catalog.functionExists(name))) {
      val extensions = new SparkSessionExtensions
      new PgOutputExtensions().apply(extensions)
      SessionRegistration.registerFunctions(session, extensions)
      val methods = session.asInstanceOf[classic.SparkSession].experimental
      methods.extraOptimizations ++= optimizerRules
      methods.extraStrategies ++= strategies
    }
  }
}
