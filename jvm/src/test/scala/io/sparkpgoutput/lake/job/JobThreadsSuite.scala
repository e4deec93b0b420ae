package io.sparkpgoutput.lake.job

import java.util.concurrent.atomic.AtomicInteger
import java.util.concurrent.{
  ConcurrentLinkedQueue,
  CountDownLatch,
  LinkedBlockingQueue,
  TimeUnit,
  TimeoutException
}

import scala.jdk.CollectionConverters._

import io.sparkpgoutput.{LoggedTexts, SparkSessionTests, TakesLong}

class JobThreadsSuite extends SparkSessionTests {

  private def withThreads(body: JobThreads => Unit): Unit = {
    val threads = new JobThreads(spark, "a test", copiers = 1)
    try body(threads)
    finally threads.close()
  }

  test("the last state is written after all writes that have begun") {
    withThreads { threads =>
      val written = new ConcurrentLinkedQueue[Int]
      val (begun, goesOn) = (new CountDownLatch(1), new CountDownLatch(1))
      threads.writeState {
        begun.countDown()
        goesOn.await(10, TimeUnit.SECONDS): Unit
        written.add(1): Unit
      }
      assert(begun.await(10, TimeUnit.SECONDS))
      threads.endWork()
      val slow = new Thread(() => {
        Thread.sleep(100)
        goesOn.countDown()
      })
      slow.start()
      threads.writeLastState(written.add(2): Unit)
      threads.close()
      assert(written.asScala.toSeq == Seq(1, 2))
      slow.join()
    }
  }

  test("the caller gets the error of the last write") {
    withThreads { threads =>
      val error = new java.io.IOException("away")
      assert(intercept[java.io.IOException](threads.writeLastState(throw error)) eq error)
    }
  }

  test("the job ends without what hangs at its end", TakesLong) {
    withThreads { threads =>
      threads.endWork()
      intercept[TimeoutException](threads.atEnd(Thread.sleep(60000)))
      var isDone = false
      threads.atEnd { isDone = true }
      assert(isDone)
    }
  }

  test(
    "the stack of a thread has room for the plan of a query by as many columns as a table can have"
  ) {
    // Such a plan calls itself about ten times for each column, and its calls take more than these.
    def depth(left: Int): Int = if (left == 0) 0 else 1 + depth(left - 1)
    withThreads { threads =>
      val deepest = new AtomicInteger
      val ended = new CountDownLatch(1)
      threads.tell {
        try deepest.set(depth(400000))
        finally ended.countDown()
      }
      assert(ended.await(10, TimeUnit.SECONDS))
      assert(deepest.get == 400000)
    }
  }

  test("requests and the status do not wait for one another, and do not pile up") {
    withThreads { threads =>
      val (goesOn, shown) = (new CountDownLatch(1), new CountDownLatch(1))
      val answered = new AtomicInteger
      (1 to 5).foreach { _ =>
        threads.answer {
          answered.incrementAndGet()
          goesOn.await(10, TimeUnit.SECONDS): Unit
        }
      }
      threads.tell(shown.countDown())
      assert(shown.await(10, TimeUnit.SECONDS))
      goesOn.countDown()
      threads.endWork()
      assert(answered.get == 1)
    }
  }

  test("after the end of the work, a thread can still ask for a look, which does not run") {
    withThreads { threads =>
      var looks = 0
      threads.endWork()
      threads.look(looks += 1)
      threads.close() // A look that runs ends first.
      assert(looks == 0)
    }
  }

  test(
    "who cancels the work of the thread that has started the job does not cancel that of the job"
  ) {
    val context = spark.sparkContext
    context.setJobGroup("cell", "a cell of a notebook", interruptOnCancel = true)
    context.addJobTag("cell")
    try
      withThreads { threads =>
        val found = new LinkedBlockingQueue[(Option[String], Set[String])]
        threads.look(found.add(
          Option(context.getLocalProperty("spark.jobGroup.id")) -> context.getJobTags()
        ): Unit)
        val (group, tags) = found.poll(10, TimeUnit.SECONDS)
        assert(group.isEmpty && tags.size == 1 && !tags("cell"), group -> tags)
      }
    finally {
      context.clearJobGroup()
      context.clearJobTags()
    }
  }

  test("work that the end of the job interrupts is not logged as an error, and other errors are") {
    withThreads { threads =>
      def logged(body: => Unit) = LoggedTexts.of(classOf[JobThreads])(body)
      def maintained(work: => Unit): Unit = {
        val begun = new CountDownLatch(1)
        threads.maintain {
          begun.countDown()
          work
        }
        assert(begun.await(10, TimeUnit.SECONDS))
      }
      val failed = new CountDownLatch(1)
      assert(logged {
        maintained(throw new InterruptedException)
        // One thread does both, so the first one has been logged when the second one begins.
        maintained(failed.countDown())
        failed.await()
      } == Seq("A thread of a test has failed"))
      assert(logged {
        maintained(Thread.sleep(60000))
        threads.endWork()
      }.isEmpty)
    }
  }
}
