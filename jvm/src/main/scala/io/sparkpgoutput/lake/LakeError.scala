package io.sparkpgoutput.lake

import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.errors.{
  InvalidValueException,
  MalformedMessageException,
  PgOutputException,
  SchemaEvolutionException
}
import io.sparkpgoutput.protocol.Lsn

/** The tables cannot be kept equal, or cannot be kept equal without a gap. */
final class LakeException(condition: String, sqlState: String, text: String)
    extends PgOutputException(condition, sqlState, text)

/** The errors of keeping tables equal. Each says what is lost, if anything, and what to do. */
object LakeError {

  def option(problem: String): LakeException =
    new LakeException("PGOUTPUT_REPLICATE_OPTION", "22023", problem)

  def twoJobs(one: String, another: String): LakeException = new LakeException(
    OtherJob,
    "55006",
    s"The target has tables of two jobs of this slot, $one and $another. Remove the tables of the job " +
      "that no longer runs, or use another target."
  )

  /** @param checkpoint the checkpoint folder of the job */
  def takenOver(checkpoint: String): LakeException = new LakeException(
    OtherJob,
    "55006",
    s"Another process of the job has started with the checkpoint folder $checkpoint, so this process ends. " +
      "Nothing is lost. Run one process of a job at a time."
  )

  def checkpointLost(target: String): LakeException = new LakeException(
    CheckpointLost,
    "55000",
    s"The target $target has tables of a job of this slot, and the checkpoint folder has no state. Check " +
      s"the option checkpoint. If the folder is lost, run spark-pgoutput resync --all --target $target, and " +
      "start the job. It then copies all tables."
  )

  /** The job has tried again for as long as the option retryFor says. */
  def retriesEnded(reason: String): LakeException = new LakeException(
    "PGOUTPUT_CONNECTION",
    "08000",
    s"$reason The job has tried again for as long as the option retryFor says. No change is lost. Start it again."
  )

  def tableStopped(reason: String): LakeException =
    new LakeException("PGOUTPUT_SOURCE_NOT_READY", "55000", reason)

  private val CheckpointLost = "PGOUTPUT_CHECKPOINT_LOST"

  /** Returns whether another process of the job, or another job, writes the same tables. */
  def isOtherJob(error: Throwable): Boolean = error match {
    case known: LakeException => known.getCondition == OtherJob
    case _                    => false
  }

  def otherSource(kept: String, found: String): LakeException = new LakeException(
    OtherJob,
    "55006",
    s"The target belongs to a job that reads $kept, and this job reads $found. Use " +
      "another target, or the options of that job. If the server was restored or replaced, run " +
      "spark-pgoutput resync --all, and start the job. After pg_upgrade, run spark-pgoutput adopt, which " +
      "needs no new copy."
  )

  def otherSlotExists(slot: String): LakeException = option(
    s"The slot '$slot' exists, and it is not the slot that the job used before. The job does not replace " +
      "it. Name the slot that the job used before, or one that does not exist."
  )

  /** @param reason why, a sentence */
  def notAdopted(reason: String): LakeException = new LakeException(
    "PGOUTPUT_NOT_ADOPTED",
    "55000",
    s"The new server may lack changes that the tables need, so the job does not go on with it. " +
      s"$reason $CopyAgain"
  )

  /** @param source the name of the table at the server */
  def historyAhead(table: String, source: String, mark: Long, lsn: Long): LakeException =
    new LakeException(
      "PGOUTPUT_TARGET_EXISTS",
      "42P07",
      s"The history $table has changes up to the LSN ${Lsn.format(mark)}, and the WAL of the server ends at " +
        s"${Lsn.format(lsn)}, so later changes would come before them in its order. To start another " +
        s"history, run spark-pgoutput resync --all, and start the job with another name for names.$source. " +
        "Or start the job when the server has written WAL up to that LSN."
    )

  /** @param slot the slot and its database */
  def slotLost(slot: String): LakeException = new LakeException(
    SlotNotFound,
    "42704",
    s"The server does not have $slot any more. The changes that the job has not read are lost. $CopyAgain"
  )

  /** Somebody asks for a slot that the server does not have. */
  def noSlot(slot: String): LakeException = new LakeException(
    SlotNotFound,
    "42704",
    s"The server has no slot '$slot'. Check --slot and --url. If the slot was dropped, changes can be " +
      "lost: the job says so at its next start."
  )

  def markLost(table: String): LakeException = new LakeException(
    "PGOUTPUT_MARK_LOST",
    "55000",
    s"The table $table of the target has no mark, because it was removed, replaced or restored. So nothing " +
      "says which changes it has."
  )

  /**
   * @param table the table of the target
   * @param source the name of the table at the server
   * @param free a name that the table can have in the target
   */
  def foreignTable(table: String, source: TableName, free: String): LakeException =
    new LakeException(
      "PGOUTPUT_TARGET_EXISTS",
      "42P07",
      s"The target has a table $table that this job has not made, so the job does not write it. Remove it, or " +
        s"give the table of the server another name: set names.$source=$free, and start the job again."
    )

  def unfinishedCopy(table: String): LakeException = new LakeException(
    "PGOUTPUT_TARGET_EXISTS",
    "42P07",
    s"A copy that did not end has left the table $table, which now has rows that the job has not written, " +
      s"or other columns than the table of the server. Remove the table $table, and start the job again."
  )

  def noTable(option: String): LakeException = this.option(
    s"The option $option names no table that the publications send. Write schema.table, or the name of a " +
      "table of public."
  )

  /** The advice if a copy of one table helps. */
  def resync(table: TableName): String =
    s"Run spark-pgoutput resync --table '$table' with the --checkpoint of the job."

  /** What a start says of a table that has another mode than the options give it. */
  def keepsMode(table: String, kept: String, wanted: String): String =
    s"The table $table keeps its mode $kept, although the option mode says $wanted. To have it in the other " +
      "mode too, start another job with its own slot, target and checkpoint."

  def otherMode(table: String, kept: String, wanted: String): LakeException = option(
    s"The table of the target for $table has the mode $kept, and the job would write it in the mode $wanted. " +
      s"A table keeps its mode: set mode.$table=$kept. Or remove the table of the target, or give the table " +
      "another name in the target."
  )

  private val SlotNotFound = "PGOUTPUT_SLOT_NOT_FOUND"

  /** The condition if two processes or jobs write the same tables. */
  val OtherJob = "PGOUTPUT_OTHER_JOB"

  def noJob(target: String): LakeException = option(
    s"The target $target has no job of replicate. Check the name, and the settings of its catalog."
  )

  /** @param checkpoint the checkpoint folder of the job */
  def noState(checkpoint: String): LakeException = option(
    s"The folder $checkpoint has no state of a job of replicate. Name the folder that replicate has as its " +
      "option checkpoint. The job writes it at its first start."
  )

  /** @param checkpoint the checkpoint folder of the job */
  def noTables(checkpoint: String): LakeException = option(
    s"The job with the checkpoint folder $checkpoint has no tables to verify. Add tables to its publication."
  )

  def unknownTable(table: String, known: Seq[String]): LakeException = option(
    s"The job has no table $table. Its tables are ${known.mkString(", ")}."
  )

  def verificationFailed(problem: String): LakeException = new LakeException(
    "PGOUTPUT_VERIFICATION_FAILED",
    "55000",
    s"The job cannot verify the tables. Its stream goes on. $problem"
  )

  /** The advice if only a new copy of all tables helps. */
  val CopyAgain =
    "To copy all tables again, run spark-pgoutput resync --all, and start the job."
}

/** The errors of applying changes to a table. Each concerns one table. */
object ApplyError {
  import LakeError.resync

  def targetDiffers(table: TableName, problem: String): LakeException = new LakeException(
    "PGOUTPUT_TARGET_DIFFERS",
    "55000",
    s"The table $table differs in the target: $problem. Probably something else has written the table of the " +
      s"target, or it is not a copy of this table. Nothing of these changes was written to it. ${resync(table)} " +
      "Or set the option onDrift to 'repair', which takes the server's change and counts it."
  )

  def unreadable(table: TableName, column: String, pgType: String, target: String) =
    new SchemaEvolutionException(
      s"The column '$column' of the table $table has the type $pgType, which cannot be read as the " +
        s"target's $target. To take every value, start the job with the option types.$table.$column=STRING."
    )

  /** @param what the column, the types and the value */
  def invalidValue(table: TableName, column: String, what: String) = new InvalidValueException(
    s"The table $table has a change that does not fit: $what. To take every value, start the job with the " +
      s"option types.$table.$column=STRING. The job then copies the table."
  )

  def keyNotSent(table: TableName) = new MalformedMessageException(
    s"A change of the table $table does not have all columns of the replica identity. If a partition " +
      "has a key that the table itself lacks: ALTER TABLE … REPLICA IDENTITY FULL, for the table and all " +
      s"of its partitions. Then copy it. ${resync(table)} If the error comes again, report it."
  )

  /** The columns of an index that is a replica identity are NOT NULL. */
  def keyIsNull(table: TableName) = new MalformedMessageException(
    s"A change of the table $table has NULL in a column of the table's replica identity, so nothing says " +
      "which row it changes. A partition has another replica identity than the table. Give it the same " +
      "one: ALTER TABLE … REPLICA IDENTITY DEFAULT, for the partition, or ALTER TABLE … REPLICA IDENTITY " +
      s"FULL, for the table and all of its partitions. Then copy it. ${resync(table)}"
  )
}
