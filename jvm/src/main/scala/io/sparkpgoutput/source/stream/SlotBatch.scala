package io.sparkpgoutput.source.stream

import java.util.UUID

import scala.util.Using

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.read._

import io.sparkpgoutput.source.output.SlotOutput
import io.sparkpgoutput.source.reader.TransactionReader
import io.sparkpgoutput.source.session.{CopiedSlotSession, SessionSettings}
import io.sparkpgoutput.source.slot.{Server, SlotChecks, SlotState}

/** A batch with everything that a slot holds now. The slot stays as it is. */
final class SlotBatch(options: SourceOptions, output: SlotOutput) extends Batch {
  override def planInputPartitions(): Array[InputPartition] =
    Using.resource(options.client()) { server =>
      val identity = server.replication(Server.of)
      val state = server.query { sql =>
        SlotChecks.publications(sql, options.publications)
        SlotState.read(sql, options.slot)
      }
      SlotChecks.readable(state, identity, options.slot)
      val settings = options.session(options.slot, UUID.randomUUID().toString)
      Array(CopiedSlotPartition(settings, output))
    }

  override def createReaderFactory(): PartitionReaderFactory =
    partition => new CopiedSlotReader(partition.asInstanceOf[CopiedSlotPartition])
}

/**
 * All of a slot. The reader finds the end, because Spark plans a DataFrame once and can read it again
 * much later.
 */
final case class CopiedSlotPartition(settings: SessionSettings, output: SlotOutput)
    extends InputPartition

/** Reads a temporary copy of a slot to the end of the WAL. The copy goes with the connection. */
final class CopiedSlotReader(partition: CopiedSlotPartition) extends TransactionReader {
  private val (session, end) = CopiedSlotSession.start(partition.settings)
  private val rows = partition.output.rows()
  rows.startBatch()
  session.startBatch(end)

  override protected def nextMessage(): Array[Byte] = session.next(end)

  override protected def rowsOf(message: Array[Byte]): Iterator[InternalRow] = rows.message(message)

  override def close(): Unit = session.close()
}
