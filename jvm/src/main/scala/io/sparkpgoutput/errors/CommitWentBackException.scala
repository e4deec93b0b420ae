package io.sparkpgoutput.errors

/** A commit has a lower LSN than an earlier one, and it is not a resend. */
final class CommitWentBackException(text: String)
    extends PgOutputException("PGOUTPUT_COMMIT_WENT_BACK", "08P01", text)
