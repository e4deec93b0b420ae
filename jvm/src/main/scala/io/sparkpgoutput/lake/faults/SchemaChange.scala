package io.sparkpgoutput.lake.faults

import io.sparkpgoutput.errors.{ErrorCauses, PgOutputException}
import io.sparkpgoutput.lake.table.TableError

/** Tells errors of tables that were altered in a way that a new copy mends. */
object SchemaChange {
  private val Conditions = Set(TableError.Changed, "PGOUTPUT_SCHEMA_EVOLUTION")

  /** Returns the error that says what happened to the table. */
  def unapply(error: Throwable): Option[PgOutputException] =
    ErrorCauses.of(error).collectFirst {
      case known: PgOutputException if Conditions(known.getCondition) => known
    }
}
