package io.sparkpgoutput.lake

import io.sparkpgoutput.errors.PgOutputException

/** Tables cannot be kept equal, or not without a gap. */
final class LakeException(condition: String, sqlState: String, text: String)
    extends PgOutputException(condition, sqlState, text)

/** The errors of keeping tables equal. Each says what is lost, if anything, and what to do. */
object LakeError {

  def option(problem: String): LakeException =
    new LakeException("PGOUTPUT_REPLICATE_OPTION", "22023", problem)
}
