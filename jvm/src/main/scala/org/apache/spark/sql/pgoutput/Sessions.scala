package org.apache.spark.sql.pgoutput

import org.apache.spark.SPARK_VERSION
import org.apache.spark.sql.classic.ClassicConversions.castToImpl
import org.apache.spark.sql.errors.QueryCompilationErrors
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{StructType, VariantType}
import org.apache.spark.sql.{SparkSession, SparkSessionExtensions}

// The state of a session, its clones, its function registry and the errors of its analyzer are `private[sql]`, so the
// objects in this file are in a package of Spark.

/** Clones a session. */
object ClonedSession {

  /**
   * Returns a new session with the settings, views and catalogs of another one. Later changes of
   * one session do not affect the other.
   *
   * The new session does not have the settings that change what is written or read:
   *
   *   - Spark replaces `${name}` in SQL text by the value of a setting or a variable of the environment,
   *     also inside quotes. Names of PostgreSQL can contain it.
   *   - TIMESTAMP in SQL text can mean TIMESTAMP_NTZ, which has no zone.
   *   - Rows can have java.time.Instant in place of java.sql.Timestamp.
   *   - Timestamps in Parquet files can be cut to milliseconds. By default, they are INT96, which other readers
   *     take as nanoseconds: after the year 2262, delta-rs then returns other values.
   *   - Dates and timestamps before 1900 in Parquet files can be those of the Julian calendar, which other readers of
   *     Delta take for others, or be refused. Decimals and lists in Parquet files can be as old versions wrote them.
   *   - Files that are missing or cannot be read can count as empty. A MERGE or a copy that keeps rows of a table would
   *     remove the rows of such a file.
   *   - Values can be stored in a column by the rules of Hive, which Delta and Iceberg refuse, or only if they have
   *     exactly its type.
   *   - In a table with partitions, a write that replaces all rows can leave those of other partitions.
   *   - Iceberg can write to a branch, or to a snapshot that is not the current one.
   */
  def of(session: SparkSession): SparkSession = {
    val clone = castToImpl(session).cloneSession()
    clone.conf.set(SQLConf.VARIABLE_SUBSTITUTE_ENABLED.key, false)
    clone.conf.set(SQLConf.TIMESTAMP_TYPE.key, "TIMESTAMP_LTZ")
    clone.conf.set(SQLConf.DATETIME_JAVA8API_ENABLED.key, false)
    clone.conf.set(SQLConf.PARTITION_OVERWRITE_MODE.key, "STATIC")
    clone.conf.set(SQLConf.PARQUET_OUTPUT_TIMESTAMP_TYPE.key, "TIMESTAMP_MICROS")
    Seq(
      SQLConf.PARQUET_REBASE_MODE_IN_WRITE,
      SQLConf.PARQUET_REBASE_MODE_IN_READ,
      SQLConf.PARQUET_INT96_REBASE_MODE_IN_READ
    ).foreach(setting => clone.conf.set(setting.key, "CORRECTED"))
    clone.conf.set(SQLConf.PARQUET_WRITE_LEGACY_FORMAT.key, false)
    clone.conf.set(SQLConf.IGNORE_CORRUPT_FILES.key, false)
    clone.conf.set(SQLConf.IGNORE_MISSING_FILES.key, false)
    clone.conf.set(SQLConf.STORE_ASSIGNMENT_POLICY.key, "ANSI")
    Seq("spark.wap.id", "spark.wap.branch").foreach(clone.conf.unset)
    clone
  }

  /**
   * Lets a session read files with a VARIANT row by row. Spark 4.0 cannot copy a VARIANT from a batch of columns
   * (`ColumnarBatchRow.copy`), which Delta does if a table with more than 100 columns has deletion vectors.
   */
  def readVariants(session: SparkSession, schema: StructType): Unit =
    if (SPARK_VERSION.startsWith("4.0.") && schema.existsRecursively(_ == VariantType))
      session.conf.set(SQLConf.PARQUET_VECTORIZED_READER_ENABLED.key, false)

  /** Runs something whose queries have a session's settings. */
  def within[T](session: SparkSession)(body: => T): T = castToImpl(session).withActive(body)

  /**
   * Runs something in a new session. All of it has the settings of this session, because Spark takes
   * some of them from the active session of the thread, whatever the session of a query is.
   */
  def run[T](session: SparkSession)(body: SparkSession => T): T = {
    val clone = of(session)
    within(clone)(body(clone))
  }
}

/** Spark's own errors of calls of functions. */
object CallErrors {
  def namedArguments(function: String): Throwable =
    QueryCompilationErrors.namedArgumentsNotSupported(function)

  /** @param wanted the numbers of arguments that the function takes */
  def wrongNumber(function: String, wanted: Range, actual: Int): Throwable =
    QueryCompilationErrors.wrongNumArgsError(function, wanted, actual)
}

/** Registers the functions of extensions in a session that is running already. */
object SessionRegistration {
  def registerFunctions(session: SparkSession, extensions: SparkSessionExtensions): Unit = {
    val state = castToImpl(session).sessionState
    extensions.registerFunctions(state.functionRegistry)
    extensions.registerTableFunctions(state.tableFunctionRegistry): Unit
  }
}
