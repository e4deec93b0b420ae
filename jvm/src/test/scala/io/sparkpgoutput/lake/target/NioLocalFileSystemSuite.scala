package io.sparkpgoutput.lake.target

import java.nio.file.{Files, Path}

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.types._

import jdk.jfr.Recording
import jdk.jfr.consumer.RecordingFile
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.permission.FsPermission
import org.apache.hadoop.fs.{FileContext, FileSystem, Options, Path => HadoopPath}

import io.sparkpgoutput.lake.apply.IcebergTables
import io.sparkpgoutput.lake.core.MarkName
import io.sparkpgoutput.lake.direct.DirectChange
import io.sparkpgoutput.{SparkSessionTests, TakesLong}

class NioLocalFileSystemSuite extends SparkSessionTests {

  private val schema = new StructType().add("id", IntegerType)
  private val name = MarkName("job", 1, 0)

  /** Returns the commands that this JVM runs in other processes during the call. */
  private def commands(body: => Unit): Seq[String] = {
    val recording = new Recording
    recording.enable("jdk.ProcessStart")
    recording.start()
    body
    recording.stop()
    val file = Files.createTempFile("processes", ".jfr")
    recording.dump(file)
    recording.close()
    RecordingFile.readAllEvents(file).asScala.map(_.getString("command")).toSeq
  }

  private def commit(target: Target, lsn: Long): Unit =
    target.commit(spark, "t", name, Option.when(lsn > 1)(lsn - 1), lsn)(
      TargetWrite.Direct(_ => DirectChange(Map.empty, Vector(InternalRow(lsn.toInt))))
    )

  private def configuration(own: Boolean): Configuration =
    if (own) spark.sessionState.newHadoopConf()
    else {
      val other = new Configuration
      other.set("fs.file.impl.disable.cache", "true")
      other
    }

  test("a direct commit starts no process", TakesLong) {
    // The catalog of Iceberg comes first, because it opens its file system when it is loaded.
    val targets = Seq(
      IcebergTables.in(spark, "nio"),
      Targets.of(spark, Files.createTempDirectory("nio").toString, Some("delta"))
    )
    targets.foreach { target =>
      target.create("t", schema, Nil, Map.empty)
      commit(target, 1)
    }
    targets.foreach(target => assert(commands(commit(target, 2)) == Nil))
    targets.foreach(target => assert(target.read(spark, "t").count() == 2))
  }

  test("files and folders have the permissions that Hadoop gives them") {
    Targets.of(spark, Files.createTempDirectory("nio").toString, Some("delta"))
    val permissions = Seq("022", "077", "007").map { umask =>
      Seq(true, false).map { own =>
        val root = Files.createTempDirectory("permissions")
        val conf = configuration(own)
        conf.set(FsPermission.UMASK_LABEL, umask)
        val files = FileSystem.get(root.toUri, conf)
        assert(files.isInstanceOf[NioLocalFileSystem] == own)
        files.create(new HadoopPath(s"$root/new/file")).close()
        files.setPermission(new HadoopPath(s"$root/new"), new FsPermission("1751"))
        FileContext.getFileContext(root.toUri, conf)
          .rename(new HadoopPath(s"$root/new/file"), new HadoopPath(s"$root/renamed"))
        Seq("new", "renamed", ".renamed.crc").map { name =>
          Files.getAttribute(root.resolve(name), "unix:mode")
        }
      }.distinct
    }
    permissions.foreach(both => assert(both.size == 1))
    assert(permissions.distinct.size == 3)
  }

  test("a rename replaces no file, and follows no link") {
    Seq(true, false).foreach { own =>
      val root = Files.createTempDirectory("rename")
      def path(name: String) = new HadoopPath(s"$root/$name")
      def write(name: String): Path = Files.writeString(root.resolve(name), name)
      val files = FileContext.getFileContext(root.toUri, configuration(own))
      write("a")
      write("b")
      Files.createSymbolicLink(root.resolve("link"), root.resolve("a"))
      intercept[org.apache.hadoop.fs.FileAlreadyExistsException] {
        files.rename(path("a"), path("b"))
      }
      files.rename(path("link"), path("moved"))
      assert(Files.isSymbolicLink(root.resolve("moved")) && !Files.exists(root.resolve("link")))
      files.rename(path("a"), path("b"), Options.Rename.OVERWRITE)
      assert(Files.readString(root.resolve("b")) == "a")
    }
  }
}
