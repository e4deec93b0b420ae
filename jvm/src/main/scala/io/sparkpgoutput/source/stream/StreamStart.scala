package io.sparkpgoutput.source.stream

import java.util.UUID

import org.apache.spark.internal.Logging
import org.apache.spark.sql.types.StructType

import io.sparkpgoutput.changes.rows.ChangeSchema
import io.sparkpgoutput.source.SourceError
import io.sparkpgoutput.source.connection.ServerClient
import io.sparkpgoutput.source.options.SourceOptions
import io.sparkpgoutput.source.slot.{Server, SlotChecks, SlotCreation, SlotState, SourceIdentity}

/** The start of a stream: where it begins the first time, and the checks of each start. */
final class StreamStart(
    options: SourceOptions,
    schema: StructType,
    client: ServerClient,
    log: SourceLog
) extends Logging {
  private var checked: Option[(SourceIdentity, Server)] = None
  private var connections = 0

  /** Tells if this start was checked. */
  def isChecked: Boolean = checked.isDefined

  /** What the checkpoint keeps, after the check. */
  def source: SourceIdentity = checked.get._1

  /** The server, after the check. */
  def server: Server = checked.get._2

  /** Returns where the stream begins the first time: at the slot's confirmed LSN of then. */
  def firstLsn(): Long = log.read().getOrElse(begin()).firstLsn

  private def begin(): SourceIdentity = {
    val server = client.replication(Server.of)
    val publications = client.query(SlotChecks.publications(_, options.publications))
    val found = SlotChecks.readable(findSlot(), server, options.slot)
    val identity = SourceIdentity(
      UUID.randomUUID().toString,
      server.systemIdentifier,
      Seq(server.timeline),
      server.database,
      options.slot,
      publications,
      found.confirmedFlush.get,
      schema
    )
    log.write(identity)
    identity
  }

  private def findSlot(): Option[SlotState] = {
    val found = client.query(SlotState.read(_, options.slot))
    if (found.isEmpty && options.createSlot) {
      SlotCreation.create(options.address, options.slot, options.failover)
      client.query(SlotState.read(_, options.slot))
    } else found
  }

  /** The columns of the table, without those that all changes have. */
  private def columns(schema: StructType) =
    StructType(schema.filterNot(field => ChangeSchema.schema.fieldNames.contains(field.name)))

  /**
   * Checks that the stream can go on without a gap: at the start, and when the connection was lost,
   * because the new one can lead to a standby that was promoted. A standby that is read itself keeps
   * its connections when it is promoted, so its timeline is checked before each batch.
   *
   * @param begin the LSN below which all is done
   * @param isPlanned whether a batch is about to be read
   */
  def check(begin: Long, isPlanned: Boolean = false): Unit =
    if (checked.isEmpty || client.connections != connections || (isPlanned && server.inRecovery)) {
      AsyncProgress.refuse()
      val kept = log.read().getOrElse(throw SourceError.noIdentity(log.folder))
      checked = Some(client.replication { replication =>
        val server = Server.of(replication)
        val publications = client.query(SlotChecks.publications(_, options.publications))
        kept.check(server, options.slot, publications).foreach(text => logWarning(text))
        if (!kept.hasColumns(schema))
          throw SourceError.schemaChanged(columns(kept.schema), columns(schema))
        val timelines = SlotChecks.timeline(replication, server, kept.timelines, begin)
        client.query { sql =>
          SlotChecks.beforeReading(SlotState.read(sql, options.slot), server, kept, begin)
        }
        val now = kept.copy(timelines = timelines, publications = publications)
        // A later start compares with the timeline that was read, so it is written before a batch is.
        if (now != kept) log.write(now)
        (now, server)
      })
      connections = client.connections
    }
}
