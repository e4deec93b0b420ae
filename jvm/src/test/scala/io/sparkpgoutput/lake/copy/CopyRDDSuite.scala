package io.sparkpgoutput.lake.copy

import java.util.concurrent.{CountDownLatch, TimeUnit}
import java.util.{List => JList}

import scala.jdk.CollectionConverters._

import org.apache.spark.SparkContext
import org.apache.spark.scheduler.{SparkListener, SparkListenerJobEnd}

import io.sparkpgoutput.SparkSessionTests
import io.sparkpgoutput.changes.TableName

class CopyRDDSuite extends SparkSessionTests {

  /** The listeners in the queue that listeners of users get. */
  private def others(context: SparkContext): Seq[SparkListener] = {
    def call(on: Any, name: String) = {
      val methods = on.getClass.getMethods ++ on.getClass.getDeclaredMethods
      val found = methods.find(_.getName == name).get
      found.setAccessible(true)
      found.invoke(on)
    }
    call(call(context, "listenerBus"), "queues").asInstanceOf[JList[AnyRef]].asScala.toSeq
      .filter(call(_, "name") == "shared")
      .flatMap(call(_, "listeners").asInstanceOf[JList[SparkListener]].asScala)
  }

  test("the listeners of Spark go on if a copy ends in an interrupted thread") {
    val context = spark.sparkContext
    // In PySpark, no other listener has the queue, so the end of the copy ends it.
    val kept = others(context)
    kept.foreach(context.removeSparkListener(_))
    val table = TableName("public", "orders")
    val watch = new CopyWatch(context, table, new CopyCounts(context, table), size = 1)
    Thread.currentThread().interrupt()
    watch.close()
    assert(Thread.interrupted(), "the thread stays interrupted")
    val ended = new CountDownLatch(1)
    val listener = new SparkListener {
      override def onJobEnd(end: SparkListenerJobEnd): Unit = ended.countDown()
    }
    context.addSparkListener(listener)
    try {
      context.parallelize(Seq(1)).count(): Unit
      assert(ended.await(10, TimeUnit.SECONDS))
    } finally {
      kept.foreach(context.addSparkListener(_))
      context.removeSparkListener(listener)
    }
  }
}
