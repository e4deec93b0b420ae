package org.apache.spark.sql.pgoutput

import java.nio.file.Files

import scala.jdk.CollectionConverters._
import scala.util.Using

import org.apache.spark.SparkException
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.TimestampType

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.parquet.hadoop.ParquetFileReader
import org.apache.parquet.hadoop.util.HadoopInputFile
import org.apache.parquet.schema.PrimitiveType.PrimitiveTypeName

import io.sparkpgoutput.SparkSessionTests

class ClonedSessionSuite extends SparkSessionTests {
  private val changed = Map(
    SQLConf.TIMESTAMP_TYPE.key -> "TIMESTAMP_NTZ",
    SQLConf.PARQUET_OUTPUT_TIMESTAMP_TYPE.key -> "INT96",
    SQLConf.DATETIME_JAVA8API_ENABLED.key -> "true",
    "spark.wap.id" -> "audit"
  )

  test("SQL and files have the same meaning with any settings of the user's session") {
    changed.foreach { case (name, value) => spark.conf.set(name, value) }
    try
      ClonedSession.run(spark) { clone =>
        val text = Seq("spark.app.name", "x").map(name => s"$${$name}").mkString(" ")
        assert(clone.sql(s"SELECT '$text'").collect().head.getString(0) == text)
        clone.sql("SELECT now()").head().getTimestamp(0): Unit
        assert(
          clone.sql("SELECT CAST(NULL AS TIMESTAMP) AS t").schema("t").dataType == TimestampType
        )
        assert(clone.conf.get(SQLConf.PARQUET_OUTPUT_TIMESTAMP_TYPE.key) == "TIMESTAMP_MICROS")
        assert(clone.conf.getOption("spark.wap.id").isEmpty)
        // Names of tables are parsed with the settings of the active session.
        assert(!SQLConf.get.variableSubstituteEnabled)
      }
    finally changed.keys.foreach(spark.conf.unset)
    assert(SQLConf.get.variableSubstituteEnabled)
  }

  test("Parquet files are the same with any settings of the user's session") {
    val settings = Map(
      SQLConf.PARQUET_REBASE_MODE_IN_WRITE.key -> "LEGACY",
      SQLConf.PARQUET_REBASE_MODE_IN_READ.key -> "LEGACY",
      SQLConf.PARQUET_WRITE_LEGACY_FORMAT.key -> "true",
      SQLConf.STORE_ASSIGNMENT_POLICY.key -> "LEGACY",
      SQLConf.IGNORE_CORRUPT_FILES.key -> "true",
      SQLConf.IGNORE_MISSING_FILES.key -> "true"
    )
    settings.foreach { case (name, value) => spark.conf.set(name, value) }
    try
      ClonedSession.run(spark) { clone =>
        val folder = Files.createTempDirectory("clone").resolve("dates")
        clone.sql("SELECT DATE'1000-01-01' AS d, 1.5BD AS n").coalesce(1).write
          .parquet(folder.toString)
        val written =
          Files.list(folder).iterator.asScala.filter(_.toString.endsWith(".parquet")).next()
        val file = HadoopInputFile.fromPath(new Path(written.toUri), new Configuration)
        val metadata = Using.resource(ParquetFileReader.open(file))(_.getFileMetaData)
        assert(!metadata.getKeyValueMetaData.containsKey("org.apache.spark.legacyDateTime"))
        assert(metadata.getSchema.getFields.get(1).asPrimitiveType.getPrimitiveTypeName ==
          PrimitiveTypeName.INT32)
        assert(clone.conf.get(SQLConf.PARQUET_REBASE_MODE_IN_READ.key) == "CORRECTED")
        assert(clone.conf.get(SQLConf.STORE_ASSIGNMENT_POLICY.key) == "ANSI")
        val rows = clone.read.parquet(folder.toString)
        Files.writeString(written, "no Parquet")
        assertThrows[SparkException](rows.collect())
        Files.delete(written)
        assertThrows[SparkException](rows.collect())
      }
    finally settings.keys.foreach(spark.conf.unset)
  }
}
