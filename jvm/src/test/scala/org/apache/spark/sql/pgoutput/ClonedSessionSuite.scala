package org.apache.spark.sql.pgoutput

import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.TimestampType

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
}
