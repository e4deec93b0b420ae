package io.sparkpgoutput.lake.job

import java.nio.file.Files

import org.apache.hadoop.conf.Configuration
import org.scalatest.funsuite.AnyFunSuite

class MicroBatchEndSuite extends AnyFunSuite {
  private val folder = Files.createTempDirectory("checkpoint")
  Files.createDirectory(folder.resolve("offsets"))

  private def end(text: String): Long = {
    Files.writeString(folder.resolve("offsets/3"), text)
    MicroBatchEnd.read(folder.toString, 3, new Configuration)
  }

  test("the end is the offset that Spark has written for the batch") {
    assert(end("v1\n{\"batchWatermarkMs\":0}\n{\"lsn\":\"16/B374D848\"}") == 0x16b374d848L)
  }

  test("a file with no offset of a slot, or with two, is not read") {
    Seq("v1\n{}\n-", "v1\n{}\n{\"lsn\":\"0/1\"}\n{\"lsn\":\"0/2\"}").foreach { text =>
      assert(intercept[IllegalStateException](end(text)).getMessage.contains("offsets of a slot"))
    }
  }
}
