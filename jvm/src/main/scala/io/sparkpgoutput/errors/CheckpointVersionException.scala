package io.sparkpgoutput.errors

/**
 * A checkpoint has streaming state in a version that this library does not know. 0A000 is
 * PostgreSQL's feature_not_supported.
 */
final class CheckpointVersionException(text: String)
    extends PgOutputException("PGOUTPUT_CHECKPOINT_VERSION", "0A000", text)
