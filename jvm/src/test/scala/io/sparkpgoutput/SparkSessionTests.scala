package io.sparkpgoutput

import scala.concurrent.Await
import scala.concurrent.duration.Duration

import org.apache.spark.sql.SparkSession

import org.scalatest.BeforeAndAfterAll
import org.scalatest.funsuite.AnyFunSuite

/** Tests that share one session of Spark, because starting a session takes longer than the tests. */
abstract class SparkSessionTests extends AnyFunSuite {

  /**
   * No setting names the extension. Spark finds it by `META-INF/services`, as it does for users of the JAR.
   */
  protected lazy val spark: SparkSession = SparkSession
    .builder()
    .master("local[1]")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.sql.shuffle.partitions", "2") // of the default 200, most would be empty
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .config(
      "spark.sql.catalog.spark_catalog",
      "org.apache.spark.sql.delta.catalog.DeltaCatalog"
    )
    // For a scheme that Delta does not know, its default log store needs another kind of file system.
    .config("spark.delta.logStore.faulty.impl", "io.delta.storage.LocalLogStore")
    .getOrCreate()
}

/**
 * Tests of tables, which run many small queries. Spark interprets them, because generating and compiling code
 * for each query would take longer.
 */
abstract class TableTests extends SparkSessionTests with BeforeAndAfterAll {
  private val interpreted =
    Seq("spark.sql.codegen.wholeStage" -> "false", "spark.sql.codegen.factoryMode" -> "NO_CODEGEN")

  override def beforeAll(): Unit =
    interpreted.foreach { case (setting, value) => spark.conf.set(setting, value) }
  override def afterAll(): Unit =
    interpreted.foreach { case (setting, _) => spark.conf.unset(setting) }
}

/**
 * Tests with tables of Delta. Delta reads the state of a table in the analyzer, which Spark forbids if the
 * system property `spark.testing` is set.
 */
abstract class DeltaTests extends TableTests {
  private val Testing = "spark.testing"
  private val testing = Option(System.getProperty(Testing))

  override def beforeAll(): Unit = {
    super.beforeAll()
    System.clearProperty(Testing): Unit
  }
  override def afterAll(): Unit = {
    testing.foreach(System.setProperty(Testing, _))
    super.afterAll()
  }

  /** Runs a job, and returns its id. The ids between those of two calls belong to other jobs. */
  protected def nextJob(): Int = {
    val job = spark.sparkContext.parallelize(Seq(1), 1).countAsync()
    Await.result(job, Duration.Inf)
    job.jobIds.head
  }
}
