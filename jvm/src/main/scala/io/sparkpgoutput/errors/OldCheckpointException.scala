package io.sparkpgoutput.errors

/** A checkpoint has the streaming state of version 0.1.0. */
final class OldCheckpointException(text: String)
    extends PgOutputException("PGOUTPUT_OLD_CHECKPOINT", "0A000", text)
