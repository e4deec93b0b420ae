package io.sparkpgoutput.lake.job

import java.nio.file.attribute.FileTime
import java.nio.file.{Files, Path}
import java.time.{Duration, Instant}

import scala.jdk.CollectionConverters._

import io.sparkpgoutput.SparkSessionTests
import io.sparkpgoutput.errors.LakeException
import io.sparkpgoutput.lake.apply.MemoryTarget
import io.sparkpgoutput.lake.core.{
  JobCommand,
  JobCore,
  JobSettings,
  JobState,
  SimTable,
  TableState,
  TableStatus
}
import io.sparkpgoutput.lake.folder._
import io.sparkpgoutput.lake.target.OwnTables

class RequestsSuite extends SparkSessionTests {
  private val start =
    JobState("job", "7", 1, "shop", "slot", Seq("all"), "lake", "delta", confirmed = 1)

  /** Runs a test with the folder of a job. */
  private def withFolder(body: (Path, JobFolder) => Any): Unit = {
    val path = Files.createTempDirectory("requests").resolve("job")
    val folder = new JobFolder(s"stores://$path", TestFileSystems.configuration)
    try body(path, folder): Unit
    finally TestFileSystems.keepsFiles = false
  }

  private def requests(
      folder: JobFolder,
      log: JobLog = new JobLog,
      state: JobState = start,
      look: () => Unit = () => ()
  ) =
    requestsOf(parts(folder, log, state), look)

  private def parts(folder: JobFolder, log: JobLog, state: JobState) = {
    val core = new SharedCore(new JobCore(JobSettings(), state))
    val own = new OwnTables(spark, new MemoryTarget(spark))
    val parts = new JobParts(spark, ReplicateOptions(), own, null, folder, log, core)
    parts.epoch = 8
    parts
  }

  private def requestsOf(parts: JobParts, look: () => Unit = () => ()) =
    new Requests(parts, new Verifications(parts, null, () => ()), look)

  private def states(path: Path) = Files.list(path.resolve("state")).iterator.asScala.size

  private def makeOld(path: Path): Unit =
    Files.list(path.resolve("answers")).iterator.asScala.foreach(
      Files.setLastModifiedTime(_, FileTime.from(Instant.now.minus(Duration.ofHours(25))))
    )

  test("who waits for an answer gets it, although the job has removed earlier ones") {
    withFolder { (path, folder) =>
      folder.take(1, start): Unit
      folder.ask(VerifyRequest("1", Nil))
      val asked = new AskedVerification(spark, folder, "1")
      def answer(kind: JobAnswer.AnswerKind, text: String): Unit =
        folder.answer("1", JobAnswer(kind, text))
      answer(JobAnswer.Pending, "one")
      answer(JobAnswer.Pending, "two")
      assert(asked.poll().asScala == Seq("one", "two"))
      makeOld(path)
      folder.clean(1)
      answer(JobAnswer.Pending, "three")
      assert(asked.poll().asScala == Seq("three") && asked.poll().isEmpty)
      makeOld(path)
      answer(JobAnswer.Impossible, "The last one.")
      folder.handled("1")
      folder.clean(1)
      val error = intercept[LakeException](asked.poll())
      assert(error.getMessage.contains("The last one."))
    }
  }

  test("old files that the store does not remove are one warning, and requests are taken") {
    withFolder { (path, folder) =>
      (1 to 8).foreach(epoch => assert(folder.take(epoch.toLong, start)))
      TestFileSystems.keepsFiles = true
      val log = new JobLog
      val taken = requests(folder, log)
      taken.take()
      taken.take()
      assert(taken.areDone && states(path) == 8)
      val lines = log.take()
      assert(lines.size == 1 && lines.head.contains("Old files"), lines)
      TestFileSystems.keepsFiles = false
      requests(folder).take()
      assert(states(path) == 5)
    }
  }

  test("one look at the catalog serves all copies that are requested at the same time") {
    withFolder { (_, folder) =>
      assert(folder.take(1, start))
      (1 to 3).foreach(id => folder.ask(ResyncRequest(s"$id", Nil)))
      var looks = 0
      val taken = requests(folder, look = () => looks += 1)
      taken.take()
      assert(taken.areDone && looks == 1)
      taken.take()
      assert(looks == 1)
    }
  }

  test("a request with which the job has started over is not taken again, if its file stays") {
    withFolder { (_, folder) =>
      assert(folder.take(1, start))
      folder.ask(ResyncAllRequest("1"))
      TestFileSystems.keepsFiles = true
      val log = new JobLog
      val taken = requests(folder, log, start.copy(startedFor = Seq("1")))
      taken.take()
      taken.take()
      val lines = log.take().filter(_.contains("The request 1"))
      assert(taken.areDone && lines.size == 1 && !lines.head.contains("next process"), lines)
      TestFileSystems.keepsFiles = false
      taken.take()
      assert(folder.requests().isEmpty)
    }
  }

  test("a request stays if another process has taken over before the state with it was written") {
    withFolder { (_, folder) =>
      val table = TableState(
        SimTable(16400, "orders", Vector("id")).definition,
        TableStatus.Live,
        generation = 1,
        mark = Some(1L)
      )
      val state = start.put(table)
      assert(folder.take(8, state))
      folder.ask(ResyncRequest("1", Seq(table.name)))
      val job = parts(folder, new JobLog, state)
      val taken = requestsOf(job)
      taken.take()
      // The later process reads the state before the earlier one writes its own.
      val kept = folder.read()
      val written = job.core { core =>
        core.take(0).collectFirst { case write: JobCommand.WriteState => write }.get
      }
      assert(folder.takeAfter(kept, state))
      folder.write(8, written.state)
      job.core(_.stateWritten(written.state, written.revision, 0))
      taken.take()
      intercept[LakeException](taken.stateEnded())
      assert(folder.requests().map(_.id) == Seq("1"))
      assert(job.error.exists(_.getMessage.contains("PGOUTPUT_OTHER_JOB")))
    }
  }
}
