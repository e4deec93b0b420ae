package io.sparkpgoutput.lake

/**
 * What a mark is called. The mark is an LSN: all transactions with a lower commit LSN are in the table.
 *
 * Each copy of a table begins a new generation, which is greater than all generations of the job before. A
 * table of the target can get another owner. So a commit is refused if the table has a mark of a greater
 * generation, of whichever owner: a process that was suspended cannot write what it does not own any more.
 *
 * @param job the UUID of the job
 * @param oid the oid of the source table
 * @param generation the number of the copy
 */
final case class MarkName(job: String, oid: Long, generation: Int) {
  override def toString: String = s"${MarkName.prefix(job)}$oid-$generation"

  def next: MarkName = copy(generation = generation + 1)

  /** Returns whether a newer copy has a mark, among names of marks and others. */
  def isReplaced(names: Iterable[String]): Boolean =
    MarkName.newest(names, job).exists(_.generation > generation)
}

object MarkName {
  private def prefix(job: String) = s"spark-pgoutput-$job-"

  /** Finds the marks of a job among names of marks and others. */
  private def of(names: Iterable[String], job: String): Iterable[MarkName] =
    names.filter(_.startsWith(prefix(job))).flatMap { name =>
      name.stripPrefix(prefix(job)).split('-') match {
        case Array(oid, generation) =>
          for (oid <- oid.toLongOption; number <- generation.toIntOption)
            yield MarkName(job, oid, number)
        case _ => None
      }
    }

  /** Finds the mark of a job with the greatest generation, of whichever source table. */
  def newest(names: Iterable[String], job: String): Option[MarkName] =
    of(names, job).maxByOption(_.generation)

  /** Finds the newest generation of a table's copies. */
  def newest(names: Iterable[String], job: String, oid: Long): Option[Int] =
    of(names, job).filter(_.oid == oid).map(_.generation).maxOption
}
