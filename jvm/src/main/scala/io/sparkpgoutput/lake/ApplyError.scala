package io.sparkpgoutput.lake

import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.errors.{
  InvalidValueException,
  MalformedMessageException,
  SchemaEvolutionException
}

/** The errors of applying a batch to a table. Each concerns one table. */
object ApplyError {

  def targetDiffers(table: TableName, problem: String): LakeException = new LakeException(
    "PGOUTPUT_TARGET_DIFFERS",
    "55000",
    s"table $table: $problem. Something else has written the table of the target, or it is not a copy " +
      "of this table. Nothing of this batch was written to it. Copy the table again, or set the option " +
      "onDrift to 'repair', which takes the server's change and counts it."
  )

  def unreadable(table: TableName, column: String, pgType: String, target: String) =
    new SchemaEvolutionException(
      s"table $table: column '$column' has the type $pgType, which cannot be read as the target's " +
        s"$target. Copy the table again, or set the option types.$column to STRING before the copy."
    )

  /** @param what the column, the types and the value */
  def invalidValue(table: TableName, column: String, what: String) = new InvalidValueException(
    s"table $table: $what. The option types.$column = STRING, set before the table is copied, takes " +
      "every value."
  )

  def keyNotSent(table: TableName) = new MalformedMessageException(
    s"a change of table $table does not have all columns of the replica identity."
  )

  def severalPartitions = new LakeException(
    "PGOUTPUT_REPLICATE_OPTION",
    "22023",
    "the messages of the batch are in several partitions. Read them with format(\"pgoutput\") and the " +
      "option output = 'messages', and do not repartition them."
  )
}
