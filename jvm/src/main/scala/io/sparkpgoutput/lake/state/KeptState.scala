package io.sparkpgoutput.lake.state

import java.time.Duration

import io.sparkpgoutput.lake.table.MirroredTable

/**
 * The state of a running job, in memory and in the target. All threads of the job use it.
 *
 * The position of a job without changes need not be written at once, because the marks in the
 * tables decide what is applied. The caller's [[save]] writes everything else.
 */
final class KeptState(store: StateTable, start: JobState, startTables: Seq[TableState]) {
  private var currentJob = start
  private var byOid = startTables.map(table => table.oid -> table).toMap
  private var isChanged = true
  private var asked = Seq.empty[JobRequest]
  private var taken = Set.empty[Long]
  private var lastVersion = Option.empty[String]
  private var lastWrite = System.nanoTime()

  def job: JobState = synchronized(currentJob)
  def tables: Seq[TableState] = synchronized(byOid.values.toSeq.sortBy(_.oid))
  def table(oid: Long): Option[TableState] = synchronized(byOid.get(oid))

  /** Returns another table that has the name that a table needs in the target. */
  def holder(table: MirroredTable): Option[TableState] = tables.find(other =>
    other.oid != table.source.oid && other.generation > 0 &&
      other.target.equalsIgnoreCase(table.target)
  )

  /** Adds a table, or replaces what is known of it. */
  def put(table: TableState): Unit = synchronized {
    if (!byOid.get(table.oid).contains(table)) {
      byOid += table.oid -> table
      isChanged = true
    }
  }

  def remove(oid: Long): Unit = synchronized {
    byOid -= oid
    isChanged = true
  }

  def updateJob(change: JobState => JobState): Unit = synchronized {
    val changed = change(currentJob)
    if (changed != currentJob) {
      currentJob = changed
      isChanged = true
    }
  }

  /** Reads the requests that were not taken. It is cheap if nobody has written the state. */
  def requests(): Seq[JobRequest] = synchronized {
    val version = store.version
    if (!lastVersion.contains(version)) {
      asked = store.requests()
      lastVersion = Some(version)
    }
    asked.filterNot(request => taken(request.id))
  }

  /** Takes a request away with the next [[save]]. */
  def take(id: Long): Unit = synchronized {
    taken += id
    isChanged = true
  }

  /** Leaves a request that was taken where it is, so it is found again. */
  def leave(id: Long): Unit = synchronized(taken -= id)

  /** Writes what has changed. */
  def save(): Unit = synchronized {
    if (isChanged) {
      store.write(currentJob, tables, taken)
      taken = Set.empty
      isChanged = false
      lastWrite = System.nanoTime()
    }
  }

  /** Writes what has changed if the last time was long ago. */
  def saveIfDue(): Unit = synchronized {
    if (System.nanoTime() - lastWrite >= KeptState.Interval.toNanos) save()
  }
}

private object KeptState {
  private val Interval = Duration.ofSeconds(30)
}
