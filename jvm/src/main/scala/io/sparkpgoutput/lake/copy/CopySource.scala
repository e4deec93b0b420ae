package io.sparkpgoutput.lake.copy

import io.sparkpgoutput.source.connection.ServerAddress

/**
 * Where tables are copied from.
 *
 * @param applicationName what `pg_stat_activity` shows
 * @param publications they say which rows and columns of a table are copied
 */
final case class CopySource(
    address: ServerAddress,
    applicationName: String,
    publications: Seq[String]
)
