package io.sparkpgoutput.lake

import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.errors.{
  InvalidValueException,
  MalformedMessageException,
  SchemaEvolutionException
}

/** The errors of applying changes to a table. Each concerns one table. */
object ApplyError {

  def targetDiffers(table: TableName, problem: String): LakeException = new LakeException(
    "PGOUTPUT_TARGET_DIFFERS",
    "55000",
    s"The table $table differs in the target: $problem. Something else has written the table of the " +
      "target, or it is not a copy of this table. Nothing of these changes was written to it. Run " +
      s"spark-pgoutput resync --table $table. Or set the option onDrift to 'repair', which takes the " +
      "server's change and counts it."
  )

  def unreadable(table: TableName, column: String, pgType: String, target: String) =
    new SchemaEvolutionException(
      s"The column '$column' of the table $table has the type $pgType, which cannot be read as the " +
        s"target's $target. Run spark-pgoutput resync --table $table. To take every value, start the job " +
        s"with the option types.$table.$column=STRING."
    )

  /** @param what the column, the types and the value */
  def invalidValue(table: TableName, column: String, what: String) = new InvalidValueException(
    s"The table $table has a change that does not fit: $what. To take every value, start the job with the " +
      s"option types.$table.$column=STRING. The job then copies the table."
  )

  def keyNotSent(table: TableName) = new MalformedMessageException(
    s"A change of the table $table does not have all columns of the replica identity. If a partition " +
      "has a key that the table itself lacks: ALTER TABLE … REPLICA IDENTITY FULL, for the table and all " +
      s"of its partitions. Then run spark-pgoutput resync --table $table. If the error comes again, report it."
  )

  /** The columns of an index that is a replica identity are NOT NULL. */
  def keyIsNull(table: TableName) = new MalformedMessageException(
    s"A change of the table $table has NULL in a column of the table's replica identity, so nothing says " +
      "which row it changes. A partition has another replica identity than the table. Give it the same " +
      "one: ALTER TABLE … REPLICA IDENTITY DEFAULT, for the partition, or ALTER TABLE … REPLICA IDENTITY " +
      s"FULL, for the table and all of its partitions. Then run spark-pgoutput resync --table $table."
  )
}
