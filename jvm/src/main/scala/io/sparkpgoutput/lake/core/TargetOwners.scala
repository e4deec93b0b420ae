package io.sparkpgoutput.lake.core

import java.util.Locale

/** Which table gets which name in the target, when tables are renamed, dropped and made again. */
private object TargetOwners {

  /**
   * Returns the names that tables get, by the oids of the tables. A table of the target belongs to the table
   * that has its name at the server now. A table that was renamed to a name that no table had before keeps
   * the name that it has in the target.
   *
   * @param published what the catalog has
   * @param state has each published table
   */
  def moves(published: Seq[Published], state: JobState): Map[Long, String] = {
    val possible = published.filter(_.problem.isEmpty)
    val natural = possible.flatMap(found => found.natural.map(folded(_) -> found.oid)).toMap
    possible.flatMap { found =>
      val table = state.tables(found.oid)
      found.natural.filter { name =>
        def isTaken = state.tables.values.exists(other =>
          other.oid != table.oid && folded(other.target) == folded(name)
        )
        if (folded(name) == folded(table.target)) table.generation == 0 && isTaken
        else table.generation == 0 || table.target.isEmpty || isTaken ||
        natural.get(folded(table.target)).exists(_ != table.oid)
      }.map(found.oid -> _)
    }.toMap
  }

  /** Returns the tables that get or lose a name in the target by moves. */
  def involved(moves: Map[Long, String], state: JobState): Set[Long] = {
    val names = moves.values.map(folded).toSet
    moves.keySet ++ state.tables.values.filter(table => names(folded(table.target))).map(_.oid)
  }

  private def folded(name: String) = name.toLowerCase(Locale.ROOT)
}
