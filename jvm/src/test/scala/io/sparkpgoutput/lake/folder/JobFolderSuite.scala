package io.sparkpgoutput.lake.folder

import java.io.IOException
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.attribute.FileTime
import java.nio.file.{Files, NoSuchFileException, Path}
import java.time.{Duration, Instant}
import java.util.concurrent.{Callable, Executors}

import scala.jdk.CollectionConverters._
import scala.util.{Random, Try}

import org.apache.hadoop.util.VersionInfo
import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.InLocale
import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.errors.LakeException
import io.sparkpgoutput.lake.core.JobState
import io.sparkpgoutput.lake.job.TableFailures

class JobFolderSuite extends AnyFunSuite {
  private val first =
    JobState("id", "1", 1, "db", "lake", Seq("all"), "lake", "delta", confirmed = 1)

  /** Runs a test with a folder on a local disk, one as in HDFS, and one as in an object store. */
  private def onEach(name: String)(body: (Path, () => JobFolder) => Any): Unit =
    on("file", "renames", "stores")(name)(body)

  /** Runs a test with the folders whose calls [[TestFileSystems]] can interrupt. */
  private def onInterrupted(name: String)(body: (Path, () => JobFolder) => Any): Unit =
    on("renames", "stores")(name)(body)

  private def on(schemes: String*)(name: String)(body: (Path, () => JobFolder) => Any): Unit =
    schemes.foreach { scheme =>
      test(s"$scheme: $name") {
        val path = Files.createTempDirectory("folder").resolve("a job, 100%")
        val uri = s"$scheme://$path"
        try body(path, () => new JobFolder(uri, TestFileSystems.configuration)): Unit
        finally {
          TestFileSystems.failsAt = -1
          TestFileSystems.denied = None
          TestFileSystems.unreadable = None
        }
      }
    }

  private def names(folder: Path): Seq[String] =
    if (!Files.exists(folder)) Nil
    else Files.list(folder).iterator.asScala.map(_.getFileName.toString).toSeq.sorted
      .filterNot(_.endsWith(".crc"))

  private def write(file: Path, text: String): Unit = {
    Files.createDirectories(file.getParent)
    Files.writeString(file, text): Unit
  }

  private def answers(folder: JobFolder, id: String) = folder.answers(id, after = 0).map(_._2)

  private def makeOld(file: Path, age: Duration): Unit =
    Files.setLastModifiedTime(file, FileTime.from(Instant.now.minus(age))): Unit

  onEach("a folder that does not exist is empty, and reading does not make it") { (path, open) =>
    val folder = open()
    folder.check()
    assert(folder.newestEpoch().isEmpty && folder.read().isEmpty && folder.readStatus().isEmpty)
    assert(folder.requests().isEmpty && answers(folder, "1").isEmpty)
    folder.clean(7)
    folder.handled("1")
    assert(!Files.exists(path))
  }

  onEach("to try whether a folder can be written leaves no file") { (path, open) =>
    open().tryWrite()
    assert(names(path) == Seq("state") && names(path.resolve("state")).isEmpty)
  }

  onInterrupted("a folder that cannot be written is named in the error, which can pass") {
    (path, open) =>
      TestFileSystems.failsAt = 0
      val errors = Seq(
        intercept[LakeException](open().tryWrite()),
        intercept[LakeException](open().takeAfter(None, first))
      )
      for (error <- errors) {
        assert(error.getCondition == "PGOUTPUT_CHECKPOINT_NOT_WRITABLE")
        assert(error.getMessage.contains(s"$path."), error.getMessage)
        assert(TableFailures.isPassing(error))
      }
  }

  onInterrupted("a folder that cannot be read is named in the error, which can pass") {
    (path, open) =>
      assert(open().take(1, first))
      TestFileSystems.unreadable = Some(".json")
      val error = intercept[LakeException](open().state())
      assert(error.getCondition == "PGOUTPUT_CHECKPOINT_NOT_READABLE")
      assert(error.getMessage.contains(s"$path cannot be read."), error.getMessage)
      assert(TableFailures.isPassing(error))
  }

  test("a folder or a catalog of which a JAR is missing names the package") {
    def remedy(open: => Any) = {
      val error = intercept[LakeException](open)
      assert(error.getCondition == "PGOUTPUT_STORE_JAR")
      error.getMessage
    }
    def ofFolder(folder: String) =
      remedy(new JobFolder(folder, TestFileSystems.configuration).check())
    val hadoop = VersionInfo.getVersion
    assert(
      ofFolder("s3a://bucket/job").contains(s"--packages org.apache.hadoop:hadoop-aws:$hadoop,")
    )
    assert(ofFolder("s3://bucket/job").contains("Write s3a:// in place of s3://."))
    assert(ofFolder("abfss://a@b/job").contains(s"org.apache.hadoop:hadoop-azure:$hadoop,"))
    assert(ofFolder("gs://bucket/job").contains("gcs-connector"))
    assert(ofFolder("nowhere://bucket/job").contains("Correct the name of the folder"))
    // As Iceberg throws it.
    val problem = new IllegalArgumentException(
      "Missing S3FileIO [java.lang.NoClassDefFoundError: software/amazon/awssdk/S3Exception]"
    )
    def ofCatalog(problem: Throwable): Nothing =
      StoreJars.naming("the store", StoreJars.ofIceberg("1.11.0"))(throw problem)
    assert(remedy(ofCatalog(problem)).contains("org.apache.iceberg:iceberg-aws-bundle:1.11.0,"))
    for (other <- Seq(new NoClassDefFoundError("org/example/Other"), new IOException("away")))
      assert(intercept[Throwable](ofCatalog(other)) eq other)
  }

  test("a folder that cannot be made is named in the error") {
    val file = Files.createTempFile("folder", null)
    val folder = new JobFolder(s"$file/job", TestFileSystems.configuration)
    val error = intercept[LakeException](folder.tryWrite())
    assert(error.getMessage.contains(s"the checkpoint folder $file/job."), error.getMessage)
  }

  onEach("the state of the epoch with the greatest number is read") { (path, open) =>
    val folder = open()
    assert(folder.take(9, first))
    assert(folder.take(10, first.copy(confirmed = 10)))
    assert(open().read().contains(10L -> first.copy(confirmed = 10)))
    assert(names(path.resolve("state")) ==
      Seq("00000000000000000009.json", "00000000000000000010.json"))
    folder.write(10, first.copy(confirmed = 11))
    assert(open().read().contains(10L -> first.copy(confirmed = 11)))
    InLocale("ar-EG-u-nu-arab")(assert(folder.take(
      12,
      first
    ) && folder.newestEpoch().contains(12L)))
  }

  onEach("a late write to an old epoch has no effect") { (_, open) =>
    val (old, late) = (open(), open())
    assert(old.take(1, first) && late.take(2, first.copy(confirmed = 2)))
    old.write(1, first.copy(confirmed = 100))
    assert(open().read().contains(2L -> first.copy(confirmed = 2)))
    (3 to 8).foreach(epoch => assert(late.take(epoch.toLong, first.copy(confirmed = epoch.toLong))))
    late.clean(8)
    old.write(1, first.copy(confirmed = 100))
    assert(!old.take(2, first))
    assert(open().read().contains(8L -> first.copy(confirmed = 8)))
  }

  onEach("an epoch that another process has, or that is older, cannot be taken") { (path, open) =>
    assert(open().take(3, first))
    val other = open()
    assert(!other.take(3, first.copy(confirmed = 2)))
    assert(!other.take(2, first))
    assert(open().read().contains(3L -> first))
    assert(names(path.resolve("state")).size == 1)
    assert(other.take(4, first))
  }

  onEach("the epoch after a state is taken only if the state is still the newest") { (_, open) =>
    val folder = open()
    assert(folder.takeAfter(None, first))
    val kept = folder.read()
    // The earlier process takes a request, and removes its file. The confirmed LSN is the same.
    open().write(1, first.copy(moneyScale = 3))
    assert(!folder.takeAfter(kept, first) && folder.newestEpoch().contains(1L))
    assert(folder.takeAfter(folder.read(), first) && folder.newestEpoch().contains(2L))
    assert(!folder.takeAfter(None, first) && !folder.takeAfter(kept, first))
  }

  onEach(
    "a process that writes its state again and again does not keep the next one from its epoch"
  ) {
    (_, open) =>
      val (old, next) = (open(), open())
      assert(old.takeAfter(None, first))
      val taken = (1 to 2).map { attempt =>
        val kept = next.read()
        // It ends as soon as it finds a later epoch.
        if (old.newestEpoch().contains(1L)) old.write(1, first.copy(confirmed = 100L + attempt))
        next.takeAfter(kept, first) || {
          next.takeOver(kept)
          assert(next.read().contains(2L -> first.copy(confirmed = 101)))
          false
        }
      }
      assert(taken == Seq(false, true))
      old.takeOver(Some(1L -> first))
      assert(next.newestEpoch().contains(3L), "the old process does not take over again")
  }

  onInterrupted("a process that was suspended before it took an epoch does not get it") {
    (_, open) =>
      assert(open().take(1, first))
      TestFileSystems.before = () => {
        val other = open()
        (2 to 9).foreach(epoch => assert(other.take(epoch.toLong, first.copy(confirmed = 9))))
        other.clean(9)
      }
      assert(!open().take(2, first))
      assert(open().read().contains(9L -> first.copy(confirmed = 9)))
      assert(!open().take(9, first) && open().take(10, first))
  }

  onInterrupted("a process that takes an epoch sees what the earlier one writes in this moment") {
    (_, open) =>
      assert(open().take(1, first))
      val kept = open().read()
      // The earlier process takes a request, removes its file, and has not seen the new epoch.
      val last = first.copy(moneyScale = 3)
      TestFileSystems.before = () => open().write(1, last)
      assert(!open().takeAfter(kept, first))
      assert(open().read().map(_._2).contains(last))
      assert(open().takeAfter(open().read(), last))
  }

  onEach("one process wins each epoch") { (path, open) =>
    val processes = Executors.newFixedThreadPool(4)
    try
      (1 to 25).foreach { epoch =>
        val wins = processes.invokeAll((1 to 4).map { number =>
          val folder = open()
          (
              () => Try(folder.take(epoch.toLong, first.copy(confirmed = number.toLong)))
          ): Callable[Try[Boolean]]
        }.asJava).asScala.map(_.get.get).toSeq
        assert(wins.count(identity) == 1, epoch)
        assert(open().read().contains(epoch.toLong -> first.copy(confirmed =
          wins.indexOf(true) + 1L
        )))
      }
    finally processes.shutdown()
    assert(names(path.resolve("state")).forall(_.matches("""\d{20}\.json""")))
  }

  onEach("a reader sees a whole state while another process writes") { (_, open) =>
    val writer = open()
    assert(writer.take(1, first))
    @volatile var isOver = false
    val thread = new Thread(() =>
      try (2 to 150).foreach(confirmed => writer.write(1, first.copy(confirmed = confirmed.toLong)))
      finally isOver = true
    )
    thread.start()
    val reader = open()
    var last = 1L
    try
      while (!isOver) {
        val confirmed = reader.read().get._2.confirmed
        assert(confirmed >= last)
        last = confirmed
      }
    finally thread.join()
    assert(reader.read().map(_._2.confirmed).contains(150L))
  }

  onInterrupted("a write that is interrupted anywhere leaves the old or the new state") {
    (_, open) =>
      val folder = open()
      assert(folder.take(1, first))
      val writes = (2 to 40).map { confirmed =>
        val before = folder.read().get._2.confirmed
        TestFileSystems.failsAt = confirmed % 8
        val written = Try(folder.write(1, first.copy(confirmed = confirmed.toLong)))
        assert(written.failed.toOption.forall(_.isInstanceOf[IOException]))
        val found = open().read().get._2.confirmed
        assert(if (written.isSuccess) found == confirmed else found == before || found == confirmed)
        TestFileSystems.failsAt = -1
        open().write(1, first.copy(confirmed = confirmed + 1000L))
        assert(open().read().get._2.confirmed == confirmed + 1000L)
        written
      }
      assert(writes.exists(_.isFailure))
  }

  onInterrupted("after an error, a process can take the same epoch") { (_, open) =>
    val tries = (1 to 12).map { epoch =>
      val folder = open()
      TestFileSystems.failsAt = epoch % 4
      val once = Try(folder.take(epoch.toLong, first))
      TestFileSystems.failsAt = -1
      assert(once.toOption.forall(identity) && folder.take(epoch.toLong, first))
      once
    }
    assert(tries.exists(_.isFailure))
  }

  onEach("a damaged newest state is an error, and no older state is taken") { (path, open) =>
    val folder = open()
    assert(folder.take(1, first) && folder.take(2, first))
    val file = path.resolve("state/00000000000000000002.json")
    Files.writeString(file, Files.readString(file).take(50))
    Files.deleteIfExists(file.resolveSibling(s".${file.getFileName}.crc"))
    val error = intercept[LakeException](folder.read())
    assert(error.getMessage.contains("00000000000000000002.json"))
    assert(error.getMessage.contains("spark-pgoutput resync --all"))
    assert(folder.newestEpoch().contains(2L)) // resync --all takes the next one
    assert(folder.take(3, first) && folder.read().contains(3L -> first))
  }

  onEach("old epochs, old answers and leftovers are removed") { (path, open) =>
    val folder = open()
    (1 to 8).foreach(epoch => assert(folder.take(epoch.toLong, first)))
    folder.ask(ResyncAllRequest("1"))
    folder.answer("old", JobAnswer(JobAnswer.Done, "Done."))
    folder.answer("new", JobAnswer(JobAnswer.Done, "Done."))
    makeOld(path.resolve("answers/old.1.json"), Duration.ofHours(25))
    makeOld(path.resolve("requests/1.json"), Duration.ofDays(100))
    val leftovers = Seq("", "state", "requests", "answers").flatMap(in =>
      Seq("old", "new").map(age => path.resolve(in).resolve(s".x.json.$age.tmp"))
    )
    leftovers.foreach(write(_, "{"))
    leftovers.filter(_.toString.endsWith("old.tmp")).foreach(makeOld(_, Duration.ofHours(2)))
    folder.clean(7)
    assert(names(path.resolve("state")).filterNot(_.startsWith(".")) ==
      (3 to 8).map(epoch => s"0000000000000000000$epoch.json"))
    assert(answers(folder, "old").isEmpty && answers(folder, "new").size == 1)
    assert(folder.requests().size == 1)
    leftovers.foreach(file => assert(Files.exists(file) == file.toString.endsWith("new.tmp"), file))
  }

  onEach("old answers to a request stay until it is handled") { (path, open) =>
    val folder = open()
    assert(folder.take(1, first))
    folder.ask(ResyncAllRequest("1"))
    (1 to 2).foreach { number =>
      folder.answer("1", JobAnswer(JobAnswer.Pending, s"$number"))
      makeOld(path.resolve(s"answers/1.$number.json"), Duration.ofHours(25))
    }
    folder.clean(1)
    assert(answers(folder, "1").map(_.text) == Seq("1", "2"))
    folder.handled("1")
    folder.clean(1)
    assert(answers(folder, "1").isEmpty)
  }

  onEach("requests are found in their order until they are handled") { (path, open) =>
    val dots = Seq(TableName("a.b", "c"), TableName("a", "b.c"), TableName("größe\"", "💎"))
    val asked = Seq(
      ResyncRequest("100-a", dots),
      ResyncAllRequest("200-b"),
      VerifyRequest("300-c", dots.take(1)),
      VerifyRequest("400-d", Nil)
    )
    assert(open().take(1, first))
    new Random(4).shuffle(asked).foreach(open().ask)
    val folder = open()
    assert(folder.requests() == asked)
    folder.handled("200-b")
    folder.handled("200-b")
    assert(folder.requests() == asked.filterNot(_.id == "200-b"))
    Seq("../state", "a/b", "", "a.b").foreach { id =>
      intercept[IllegalArgumentException](folder.ask(ResyncAllRequest(id)))
      intercept[IllegalArgumentException](folder.handled(id))
      intercept[IllegalArgumentException](folder.answer(id, JobAnswer(JobAnswer.Done, "")))
    }
    folder.ask(ResyncAllRequest(JobRequest.newId()))
    assert(names(path.resolve("requests")).size == 4)
  }

  onEach("a request that cannot be read does not hide the others") { (path, open) =>
    val folder = open()
    assert(folder.take(1, first))
    Seq(
      """{"ver""",
      """{"version": 2}""",
      """{"version": 1, "request": "drop"}""",
      "[]"
    ).zipWithIndex
      .foreach { case (text, index) => write(path.resolve(s"requests/$index.json"), text) }
    folder.ask(ResyncAllRequest("9"))
    val found = folder.requests()
    assert(found.map(_.id) == Seq("0", "1", "2", "3", "9"))
    assert(found.last == ResyncAllRequest("9"))
    val problems = found.collect { case UnreadableRequest(id, problem) => id -> problem }
    assert(problems.size == 4)
    problems.foreach { case (id, problem) =>
      assert(problem.contains(s"$id.json") && !problem.contains("resync --all"), problem)
    }
  }

  onInterrupted("a request that the job may not read does not hide the others") { (_, open) =>
    val folder = open()
    assert(folder.take(1, first))
    Seq("1", "2", "3").foreach(id => folder.ask(ResyncAllRequest(id)))
    TestFileSystems.denied = Some("2.json")
    val Seq(one, UnreadableRequest("2", problem), three) = folder.requests(): @unchecked
    assert(Seq(one, three) == Seq("1", "3").map(ResyncAllRequest(_)))
    assert(problem.contains("may not read") && problem.contains("2.json"), problem)
  }

  onInterrupted("a request that the file system cannot read waits, and does not hide the others") {
    (_, open) =>
      val folder = open()
      assert(folder.take(1, first))
      val all = Seq("1", "2", "3").map(ResyncAllRequest(_))
      all.foreach(folder.ask)
      TestFileSystems.unreadable = Some("2.json")
      assert(folder.requests() == all.filter(_.id != "2"))
      assert(folder.requests().size == 2)
      TestFileSystems.unreadable = None
      assert(folder.requests() == all)
  }

  onEach("a folder with the name of a request does not hide the others") { (path, open) =>
    val folder = open()
    assert(folder.take(1, first))
    folder.ask(ResyncAllRequest("1"))
    Files.createDirectories(path.resolve("requests/0.json"))
    assert(folder.requests() == Seq(ResyncAllRequest("1")))
  }

  onEach("answers come in the order in which they were given") { (path, open) =>
    val folder = open()
    assert(folder.take(1, first))
    val all = (1 to 12).map(number => JobAnswer(JobAnswer.Pending, s"größe \" $number")) ++
      Seq(JobAnswer(JobAnswer.Impossible, ""), JobAnswer(JobAnswer.Done, "{\"a\": 1}"))
    all.foreach(open().answer("100-a", _))
    folder.answer("100", JobAnswer(JobAnswer.Done, "another"))
    assert(answers(folder, "100-a") == all && answers(folder, "10").isEmpty)
    write(path.resolve("answers/7.1.json"), "{\"version\": 1, \"ki")
    intercept[IOException](answers(folder, "7"))
    write(path.resolve("answers/8.1.json"), """{"version": 1, "kind": "perhaps", "text": ""}""")
    assert(intercept[LakeException](answers(folder, "8")).getCondition ==
      "PGOUTPUT_CHECKPOINT_VERSION")
  }

  onEach("the last status is read") { (_, open) =>
    val folder = open()
    assert(folder.take(1, first))
    folder.writeStatus("""{"lag": 1}""")
    folder.writeStatus("""{"größe": 2}""")
    assert(open().readStatus().contains("""{"größe": 2}"""))
  }

  onEach("a checkpoint of Structured Streaming is refused, unless there is a state") {
    (path, open) =>
      Seq("offsets/0", "commits/0", "metadata", "sources/0", "generation-2/offsets/0").foreach {
        file =>
          write(path.resolve(file), "v1")
          // The state of an operator of Spark.
          write(path.resolve("state/0/0/1.delta"), "")
          val error = intercept[LakeException](open().check())
          assert(error.getCondition == "PGOUTPUT_CHECKPOINT_VERSION")
          assert(error.getMessage.contains("spark-pgoutput resync --all"))
          val name = path.resolve(file.takeWhile(_ != '/'))
          Files.walk(name).iterator.asScala.toSeq.reverse.foreach(Files.delete)
      }
      open().check()
      write(path.resolve("offsets/0"), "v1")
      assert(open().take(1, first))
      open().check()
  }

  test("a path that is not a folder is an IOException") {
    val parent = Files.createTempDirectory("folder")
    write(parent.resolve("file"), "")
    val folder = new JobFolder(s"$parent/file", TestFileSystems.configuration)
    intercept[IOException](folder.take(1, first))
    intercept[IOException](folder.writeStatus("{}"))
  }

  test("a folder that is gone, as after a disk was unmounted, is not made again") {
    val path = Files.createTempDirectory("folder").resolve("disk")
    val folder = new JobFolder(path.toString, TestFileSystems.configuration)
    assert(folder.take(1, first))
    Files.walk(path).iterator.asScala.toSeq.reverse.foreach(Files.delete)
    intercept[IOException](folder.write(1, first))
    intercept[IOException](folder.writeStatus("{}"))
    assert(!Files.exists(path))
  }

  test("nothing is written where a folder was, or into its mount point, while its disk is away") {
    val done = JobAnswer(JobAnswer.Done, "Done.")
    for (isMountPoint <- Seq(false, true)) {
      val path = Files.createTempDirectory("folder").resolve("disk")
      val folder = new JobFolder(path.toString, TestFileSystems.configuration)
      assert(folder.take(1, first))
      val aside = path.resolveSibling("aside")
      Files.move(path, aside)
      if (isMountPoint) Files.createDirectory(path)
      val writes: Seq[() => Any] = Seq(
        () => folder.answer("1", done),
        () => folder.ask(ResyncAllRequest("1")),
        () => folder.write(1, first),
        () => folder.writeStatus("{}"),
        () => folder.take(2, first)
      )
      writes.foreach(write => intercept[NoSuchFileException](write()))
      assert(names(path).isEmpty && Files.exists(path) == isMountPoint)
      Files.deleteIfExists(path)
      Files.move(aside, path)
      folder.answer("1", done)
      assert(answers(folder, "1") == Seq(done) && folder.take(2, first))
    }
  }

  test("without hard links, only one process can move a file to a name") {
    val folder = Files.createTempDirectory("folder")
    val threads = Executors.newFixedThreadPool(4)
    try
      (1 to 25).foreach { round =>
        val target = folder.resolve(s"$round.json")
        val wins = threads.invokeAll((1 to 4).map { number =>
          val written = Files.write(folder.resolve(s"$round-$number"), s"$number".getBytes(UTF_8))
          (() => LocalFiles.move(written, target)): Callable[Boolean]
        }.asJava).asScala.map(_.get).toSeq
        assert(wins.count(identity) == 1)
        assert(Files.readString(target) == s"${wins.indexOf(true) + 1}")
      }
    finally threads.shutdown()
  }
}
