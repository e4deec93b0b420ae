package io.sparkpgoutput.lake.job

import java.nio.file.attribute.FileTime
import java.nio.file.{Files, Path}
import java.time.{Duration, Instant}

import scala.jdk.CollectionConverters._

import io.sparkpgoutput.SparkSessionTests
import io.sparkpgoutput.errors.LakeException
import io.sparkpgoutput.lake.core.JobState
import io.sparkpgoutput.lake.folder._

class RequestsSuite extends SparkSessionTests {
  private val start =
    JobState("job", "7", 1, "shop", "slot", Seq("all"), "lake", "delta", confirmed = 1)

  /** Runs a test with the folder of a job. */
  private def withFolder(body: (Path, JobFolder) => Any): Unit = {
    val path = Files.createTempDirectory("requests").resolve("job")
    val folder = new JobFolder(s"stores://$path", TestFileSystems.configuration)
    body(path, folder): Unit
  }

  private def makeOld(path: Path): Unit =
    Files.list(path.resolve("answers")).iterator.asScala.foreach(
      Files.setLastModifiedTime(_, FileTime.from(Instant.now.minus(Duration.ofHours(25))))
    )

  test("who waits for an answer gets it, although the job has removed earlier ones") {
    withFolder { (path, folder) =>
      folder.take(1, start): Unit
      folder.ask(VerifyRequest("1", Nil))
      val asked = new AskedVerification(spark, folder, "1")
      def answer(kind: JobAnswer.Kind, text: String): Unit =
        folder.answer("1", JobAnswer(kind, text))
      answer(JobAnswer.Waits, "one")
      answer(JobAnswer.Waits, "two")
      assert(asked.poll().asScala == Seq("one", "two"))
      makeOld(path)
      folder.clean(1)
      answer(JobAnswer.Waits, "three")
      assert(asked.poll().asScala == Seq("three") && asked.poll().isEmpty)
      makeOld(path)
      answer(JobAnswer.Failed, "The last one.")
      folder.handled("1")
      folder.clean(1)
      val error = intercept[LakeException](asked.poll())
      assert(error.getMessage.contains("The last one."))
    }
  }
}
