package io.sparkpgoutput

import scala.concurrent.Await
import scala.concurrent.duration.Duration

import org.apache.spark.sql.SparkSession

import org.scalatest.BeforeAndAfterAll
import org.scalatest.funsuite.AnyFunSuite

/** Tests in a session of Spark, one for all of them: to start it takes longer than the tests. */
abstract class SparkSessionTests extends AnyFunSuite {

  /**
   * No setting names the extension. As for users of the JAR, Spark finds it by `META-INF/services`.
   */
  protected lazy val spark: SparkSession = SparkSession
    .builder()
    .master("local[1]")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.sql.shuffle.partitions", "2") // of 200, most would be empty
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .config(
      "spark.sql.catalog.spark_catalog",
      "org.apache.spark.sql.delta.catalog.DeltaCatalog"
    )
    // Delta's own store for a scheme that it does not know needs another kind of file system.
    .config("spark.delta.logStore.faulty.impl", "io.delta.storage.LocalLogStore")
    .getOrCreate()
}

/**
 * Tests of tables, which ask many small queries. To generate and compile code for each one takes longer than to
 * interpret it.
 */
abstract class TableTests extends SparkSessionTests with BeforeAndAfterAll {
  private val interpreted =
    Seq("spark.sql.codegen.wholeStage" -> "false", "spark.sql.codegen.factoryMode" -> "NO_CODEGEN")

  override def beforeAll(): Unit =
    interpreted.foreach { case (setting, value) => spark.conf.set(setting, value) }
  override def afterAll(): Unit =
    interpreted.foreach { case (setting, _) => spark.conf.unset(setting) }
}

/** Tests with tables of Delta, which reads the state of a table in the analyzer. Spark's own tests forbid that. */
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

  /** Runs a job, and returns its number. The numbers between two calls are those of other jobs. */
  protected def nextJob(): Int = {
    val job = spark.sparkContext.parallelize(Seq(1), 1).countAsync()
    Await.result(job, Duration.Inf)
    job.jobIds.head
  }
}
