package io.sparkpgoutput.source.stream

import java.util.UUID

import scala.util.Using

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.metric.CustomTaskMetric
import org.apache.spark.sql.connector.read._

import io.sparkpgoutput.source.connection.ServerClient
import io.sparkpgoutput.source.output.SlotOutput
import io.sparkpgoutput.source.reader.{ReadMetrics, TransactionRows}
import io.sparkpgoutput.source.session.{CopiedSlotSession, SessionSettings}
import io.sparkpgoutput.source.slot.{Server, SlotChecks, SlotState}

/** A batch with everything that a slot holds now. The slot stays as it is. */
final class SlotBatch(options: SourceOptions, output: SlotOutput) extends Batch {
  override def planInputPartitions(): Array[InputPartition] =
    Using.resource(new ServerClient(options.address, options.applicationName)) { server =>
      val identity = server.replication(Server.of)
      val state = server.query { sql =>
        SlotChecks.publications(sql, options.publications)
        SlotState.read(sql, options.slot)
      }
      SlotChecks.readable(state, identity, options.slot)
      Array(CopiedSlotPartition(settings, output))
    }

  private def settings = options.session(options.slot, UUID.randomUUID().toString)

  override def createReaderFactory(): PartitionReaderFactory = CopiedSlotReaderFactory
}

/**
 * All of a slot. The reader finds the end, because Spark plans a DataFrame once and can read it again
 * much later.
 */
final case class CopiedSlotPartition(settings: SessionSettings, output: SlotOutput)
    extends InputPartition

/** Makes the reader on an executor. */
object CopiedSlotReaderFactory extends PartitionReaderFactory {
  override def createReader(partition: InputPartition): PartitionReader[InternalRow] =
    new CopiedSlotReader(partition.asInstanceOf[CopiedSlotPartition])
}

/** Reads a temporary copy of a slot to the end of the WAL. The copy goes with the connection. */
final class CopiedSlotReader(partition: CopiedSlotPartition) extends PartitionReader[InternalRow] {
  import partition._

  private val (session, end) = CopiedSlotSession.start(settings)
  private val rows = new TransactionRows(output.rows(), () => session.next(end))
  session.startBatch(end)

  override def next(): Boolean = rows.next()
  override def get(): InternalRow = rows.get

  override def currentMetricsValues(): Array[CustomTaskMetric] =
    ReadMetrics.values(rows.transactions, rows.bytes)

  override def close(): Unit = session.close()
}
