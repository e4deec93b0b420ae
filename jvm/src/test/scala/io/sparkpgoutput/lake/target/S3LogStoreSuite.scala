package io.sparkpgoutput.lake.target

import java.io.{IOException, OutputStream}
import java.net.URI
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.FileAlreadyExistsException

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.permission.FsPermission
import org.apache.hadoop.fs.{FSDataOutputStream, FileSystem, Path, RawLocalFileSystem}
import org.apache.hadoop.util.Progressable
import org.scalatest.funsuite.AnyFunSuite

/** The store with local files. `tests/test_object_store.py` writes to S3. */
class S3LogStoreSuite extends AnyFunSuite {
  private val configuration = new Configuration(false)
  configuration.set("fs.late.impl", classOf[LateFiles].getName)
  configuration.set("fs.late.impl.disable.cache", "true")

  private val folder = java.nio.file.Files.createTempDirectory("log")
  private val store = new S3LogStore(configuration)

  private def path(name: String) = new Path(s"late:$folder/$name")

  private def write(name: String, lines: String*) =
    store.write(path(name), lines.iterator.asJava, false, configuration)

  private def content(name: String) =
    new String(java.nio.file.Files.readAllBytes(folder.resolve(name)), UTF_8)

  private def failing[T](text: String)(body: => T): Unit = {
    LateFiles.failure = Some(text)
    try body: Unit
    finally LateFiles.failure = None
  }

  test("a commit that exists is not replaced") {
    write("0.json", "one", "two")
    val error = intercept[FileAlreadyExistsException](write("0.json", "three"))
    assert(error.getMessage.endsWith("0.json"))
    assert(content("0.json") == "one\ntwo\n")
  }

  test("a commit that is sent again, because its answer was lost, succeeds") {
    write("1.json", "one")
    write("1.json", "one") // as the connector sends it again
    assert(content("1.json") == "one\n")
  }

  test("a failure of the store is not taken for another commit") {
    val text = "The store does not answer."
    failing(text)(assert(intercept[IOException](write("2.json", "one")).getMessage == text))
  }

  test(
    "a store that does not know conditional writes is found, and no other failure is taken for it"
  ) {
    val root = path("")
    def probe() = S3Commits.probe(root.getFileSystem(configuration), root)
    Seq("NotImplemented: If-None-Match", "Status Code: 501", "Conditional Writes Unavailable")
      .foreach(text => failing(text)(assert(probe().contains(text))))
    failing("Status Code: 503")(intercept[IOException](probe()))
  }

  test("other files are replaced") {
    write("last", "one")
    store.write(path("last"), Iterator("two").asJava, true, configuration)
    assert(content("last") == "two\n")
  }
}

/** As in S3, a file exists when its stream is closed, which fails if there is one of its name. */
final class LateFiles extends RawLocalFileSystem {
  override def getUri: URI = URI.create("late:///")
  override def getScheme: String = "late"

  override def create(
      path: Path,
      permission: FsPermission,
      overwrite: Boolean,
      bufferSize: Int,
      replication: Short,
      blockSize: Long,
      progress: Progressable
  ): FSDataOutputStream = {
    val written = new java.io.ByteArrayOutputStream
    val out = new OutputStream {
      override def write(byte: Int): Unit = written.write(byte)
      override def close(): Unit = {
        LateFiles.failure.foreach(text => throw new IOException(text))
        if (!overwrite && exists(path)) throw new IOException("412")
        java.nio.file.Files.write(pathToFile(path).toPath, written.toByteArray): Unit
      }
    }
    new FSDataOutputStream(out, new FileSystem.Statistics("late"))
  }
}

object LateFiles {
  @volatile var failure: Option[String] = None
}
