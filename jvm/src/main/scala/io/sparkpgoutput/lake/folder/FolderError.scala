package io.sparkpgoutput.lake.folder

import io.sparkpgoutput.lake.{LakeError, LakeException}

/** The errors of the checkpoint folder of a job. */
object FolderError {

  /** A later version of this library has written a file. */
  def version(file: String, found: Int, known: Int): LakeException = new LakeException(
    "PGOUTPUT_CHECKPOINT_VERSION",
    "0A000",
    s"The file $file of the checkpoint folder has the version $found, and this version of " +
      s"spark-pgoutput reads version $known. Continue with the version that wrote it, or with a later one."
  )

  /** @param field the field whose value is a word that this version does not know */
  def unknownWord(file: String, field: String, value: String): LakeException = new LakeException(
    "PGOUTPUT_CHECKPOINT_VERSION",
    "0A000",
    s"In the file $file of the checkpoint folder, $field is '$value', which this version of " +
      "spark-pgoutput does not know. Continue with the version that wrote it, or with a later one."
  )

  /** @param problem what is wrong, a sentence */
  def damaged(file: String, problem: String): LakeException = new LakeException(
    "PGOUTPUT_CHECKPOINT_LOST",
    "55000",
    s"The file $file has the state of the job, and it is damaged. $problem Restore the file. If you " +
      s"cannot: ${LakeError.CopyAgain}"
  )

  /** The folder has what a streaming query of Spark keeps, and no state of a job. */
  def streamingCheckpoint(folder: String): LakeException = new LakeException(
    "PGOUTPUT_CHECKPOINT_VERSION",
    "0A000",
    s"The checkpoint folder $folder has the checkpoint of a streaming query, and no state of a job. Jobs " +
      "of older versions of spark-pgoutput start over: name another folder, and drop the slot or run " +
      "spark-pgoutput resync --all. If the checkpoint is another query's, name another folder."
  )
}
