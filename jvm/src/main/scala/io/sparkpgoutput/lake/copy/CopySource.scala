package io.sparkpgoutput.lake.copy

import io.sparkpgoutput.source.connection.ServerAddress
import io.sparkpgoutput.types.ConversionOptions

/**
 * Where tables are copied from.
 *
 * @param applicationName what `pg_stat_activity` shows
 * @param publications they say which rows and columns of a table are copied
 * @param options how values are read
 */
final case class CopySource(
    address: ServerAddress,
    applicationName: String,
    publications: Seq[String],
    options: ConversionOptions
) {
  def this(address: ServerAddress, applicationName: String, publications: Seq[String]) =
    this(address, applicationName, publications, ConversionOptions())
}
