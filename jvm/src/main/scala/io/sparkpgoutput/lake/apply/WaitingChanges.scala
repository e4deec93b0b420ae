package io.sparkpgoutput.lake.apply

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.catalyst.util.GenericArrayData
import org.apache.spark.sql.functions.col
import org.apache.spark.sql.pgoutput.RowsOfRdd
import org.apache.spark.sql.types._
import org.apache.spark.sql.{DataFrame, SparkSession}

import io.sparkpgoutput.protocol.MessageType.Tag
import io.sparkpgoutput.source.output.MessageFields

/**
 * The changes of a table that wait in another table of the target while the table is copied. They stay
 * messages, because only the copy tells which columns the table has then.
 *
 * A row is a change, a TRUNCATE, or a definition of the table in one batch. A definition has no LSN.
 */
object WaitingChanges {

  val schema: StructType = StructType(
    Seq(
      StructField("batch_end", LongType),
      StructField("definition", IntegerType),
      StructField("lsn", LongType),
      StructField("ordinal", LongType),
      StructField("committed", LongType),
      StructField("message", BinaryType),
      StructField("types", ArrayType(BinaryType))
    )
  )

  /**
   * Makes the rows of a batch.
   *
   * @param chunks
   *   the changes of the table, in arrays of [[ChangeChunk]]
   * @param end
   *   the end of the batch
   */
  def rows(
      session: SparkSession,
      chunks: RDD[Array[Byte]],
      statistics: TableStatistics,
      end: Long
  ): DataFrame = {
    val time = statistics.lastCommit
    val changes: RDD[InternalRow] = chunks.mapPartitions { found =>
      // An update that gives a row another key is two changes with the same message.
      ChangeChunk.unpack(found).filter(_.kind != ChangeKind.MovedOut).map { change =>
        row(end, change.definition, change.lsn, change.ordinal, time, change.message, null)
      }
    }
    val definitions = statistics.definitions.zipWithIndex.map { case (definition, number) =>
      val types = new GenericArrayData(definition.types.toArray[Any])
      row(end, number, null, null, time, definition.relation, types)
    }
    val truncate = statistics.truncated.map { at =>
      row(
        end,
        statistics.definitions.length - 1,
        at.lsn,
        at.ordinal,
        time,
        WaitingMessages.truncate(statistics.oid),
        null
      )
    }
    val others = session.sparkContext.parallelize(definitions ++ truncate, 1)
    RowsOfRdd.toDataFrame(session, others.union(changes), schema)
  }

  private def row(values: Any*): InternalRow = new GenericInternalRow(values.toArray)

  /**
   * Makes a batch of the changes with LSNs from one up to another, as the source gives it: messages in
   * one partition, in order.
   *
   * @param waiting
   *   the rows, as they were written
   */
  def messages(session: SparkSession, waiting: DataFrame, from: Long, to: Long): DataFrame = {
    val definitions = waiting.where("lsn IS NULL").collect().map { row =>
      val types = row.getSeq[Array[Byte]](row.fieldIndex("types")).toArray
      (row.getAs[Long]("batch_end"), row.getAs[Int]("definition")) ->
        (types :+ row.getAs[Array[Byte]]("message"))
    }.toMap
    val columns = Seq("batch_end", "definition", "lsn", "ordinal", "committed", "message")
    val changes = waiting
      .where(col("lsn") >= from && col("lsn") < to)
      .select(columns.map(col(_)): _*)
      .repartition(1)
      .sortWithinPartitions("lsn", "ordinal")
    val sent: RDD[InternalRow] =
      RowsOfRdd.of(changes).mapPartitions(new WaitingMessages(_, definitions))
    RowsOfRdd.toDataFrame(session, sent, MessageFields.schema)
  }
}

/**
 * Makes messages of changes: a Begin before each transaction, and the Type and Relation messages of a
 * definition before the first change that it describes.
 *
 * @param definitions
 *   the messages by the end of a batch and the number of the definition in it
 */
final private class WaitingMessages(
    changes: Iterator[InternalRow],
    definitions: Map[(Long, Int), Array[Array[Byte]]]
) extends Iterator[InternalRow] {
  import WaitingMessages._

  private var current = (-1L, -1)
  private var lsn = -1L
  private val pending = scala.collection.mutable.Queue.empty[InternalRow]

  override def hasNext: Boolean = pending.nonEmpty || changes.hasNext

  override def next(): InternalRow = {
    if (pending.isEmpty) read(changes.next())
    pending.dequeue()
  }

  private def read(change: InternalRow): Unit = {
    if (change.getLong(Lsn) != lsn) {
      lsn = change.getLong(Lsn)
      add(0, begin(lsn, change.getLong(Committed)))
    }
    val definition = (change.getLong(BatchEnd), change.getInt(Definition))
    if (definition != current) {
      current = definition
      definitions(definition).foreach(add(0, _))
    }
    add(change.getLong(Ordinal), change.getBinary(Message))
  }

  private def add(ordinal: Long, message: Array[Byte]): Unit = {
    val row = new GenericInternalRow(MessageFields.schema.length)
    row.update(MessageFields.LSN, lsn)
    row.update(MessageFields.ORDINAL, ordinal)
    row.update(MessageFields.XID, 0L)
    row.update(MessageFields.DATA, message)
    pending += row
  }
}

private object WaitingMessages {
  final private val BatchEnd = 0
  final private val Definition = 1
  final private val Lsn = 2
  final private val Ordinal = 3
  final private val Committed = 4
  final private val Message = 5

  /** Begin: Int64 LSN of the commit; Int64 timestamp of the commit; Int32 xid. */
  private def begin(lsn: Long, time: Long): Array[Byte] = java.nio.ByteBuffer
    .allocate(1 + 8 + 8 + 4).put(Tag.Begin.toByte).putLong(lsn)
    .putLong(time - io.sparkpgoutput.protocol.PostgresEpoch.Micros).putInt(0).array

  /** Truncate: Int32 number of tables; Int8 options; Int32 oid of the table. */
  def truncate(oid: Long): Array[Byte] = java.nio.ByteBuffer
    .allocate(1 + 4 + 1 + 4).put(Tag.Truncate.toByte).putInt(1).put(0.toByte)
    .putInt(oid.toInt).array
}
