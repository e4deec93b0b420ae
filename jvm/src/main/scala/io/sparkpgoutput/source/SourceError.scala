package io.sparkpgoutput.source

import org.apache.spark.sql.catalyst.util.QuotingUtils
import org.apache.spark.sql.types.StructType

import io.sparkpgoutput.errors.PgOutputException

/** The slot cannot be read, or cannot be read without a gap. */
final class SourceException(condition: String, sqlState: String, text: String)
    extends PgOutputException(condition, sqlState, text)

/** The errors of reading a slot. Each says what is lost, if anything, and what to do. */
object SourceError {

  def option(problem: String): SourceException =
    new SourceException("PGOUTPUT_SOURCE_OPTION", "22023", problem)

  /** @param slot the slot and its server */
  def readTwice(slot: String): SourceException = new SourceException(
    "PGOUTPUT_SLOT_IN_USE",
    "55006",
    s"The query reads the $slot twice, and a slot serves one read. Read it once, and use the rows of a " +
      "batch several times in foreachBatch."
  )

  def unknownOffset(json: String): SourceException = new SourceException(
    "PGOUTPUT_CHECKPOINT_VERSION",
    "0A000",
    s"The checkpoint has the offset $json, which is not one of this source. Use the checkpoint of this " +
      "query, or start with a new checkpoint."
  )

  def noIdentity(folder: String): SourceException = new SourceException(
    "PGOUTPUT_CHECKPOINT_VERSION",
    "0A000",
    s"The checkpoint lacks the files of this source in $folder, so nothing says which slot it is of. " +
      "Restore the folder, or start with a new checkpoint."
  )

  def schemaChanged(kept: StructType, now: StructType): SourceException = new SourceException(
    "PGOUTPUT_SCHEMA_CHANGED",
    "42804",
    "The columns differ from those that the query had at its first start. " +
      s"Then: ${columns(kept)}. Now: ${columns(now)}. To keep the columns of the first start, set the " +
      "options 'tables' and 'schema' in place of 'table'. To have the new columns, start with a new " +
      "checkpoint."
  )

  /** A schema as DDL without comments, for the option `schema`. */
  private def columns(schema: StructType) =
    schema
      .map(field => s"${QuotingUtils.quoteIfNeeded(field.name)} ${field.dataType.sql}")
      .mkString(", ")

  def asyncProgress: SourceException = option(
    "Asynchronous progress tracking is not supported: the server would forget changes that Spark has " +
      "not committed. Remove the option asyncProgressTrackingEnabled."
  )

  def slotInUse(slot: String, pid: Int, applicationName: String): SourceException =
    new SourceException(
      "PGOUTPUT_SLOT_IN_USE",
      "55006",
      s"The slot '$slot' is in use by the process $pid of the server (application_name " +
        s"'$applicationName'). A slot serves one query. Stop the other reader, or give this query a " +
        "slot of its own."
    )
}

/** A name as SQL has it, for statements that an error proposes. */
object SqlIdentifier {
  def apply(name: String): String =
    if (name.matches("[a-z_][a-z0-9_$]*")) name else s"\"${name.replace("\"", "\"\"")}\""
}
