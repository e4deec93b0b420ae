package io.sparkpgoutput.lake.apply

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.catalyst.util.GenericArrayData
import org.apache.spark.sql.functions.col
import org.apache.spark.sql.pgoutput.RowsOfRdd
import org.apache.spark.sql.types._
import org.apache.spark.sql.{DataFrame, SparkSession}

import io.sparkpgoutput.lake.batch.{ChangeChunk, TableStatistics, TransactionStart}
import io.sparkpgoutput.source.output.MessageFields

/**
 * The changes of a table that wait in another table of the target while the table is copied. They
 * stay messages, because the columns that the table has after the copy are not known before.
 *
 * A row is a change or a definition of the table in one batch. A definition has no LSN.
 */
object WaitingChanges {

  val schema: StructType = StructType(
    Seq(
      StructField("batch_end", LongType),
      StructField("definition", IntegerType),
      StructField("lsn", LongType),
      StructField("ordinal", LongType),
      StructField("transaction", BinaryType),
      StructField("message", BinaryType),
      StructField("types", ArrayType(BinaryType))
    )
  )

  /**
   * Makes the rows of a batch.
   *
   * @param chunks the changes of the table, in arrays of [[ChangeChunk]]
   * @param end the end of the batch
   */
  def rows(
      session: SparkSession,
      chunks: RDD[Array[Byte]],
      statistics: TableStatistics,
      end: Long
  ): DataFrame = {
    val changes: RDD[InternalRow] = chunks.mapPartitions { found =>
      ChangeChunk.unpack(found).map { change =>
        val (transaction, message) = (change.transaction, change.message)
        row(end, change.definition, change.lsn, change.ordinal, transaction, message, null)
      }
    }
    val definitions = statistics.definitions.zipWithIndex.map { case (definition, number) =>
      val types = new GenericArrayData(definition.types.toArray[Any])
      row(end, number, null, null, null, definition.relation, types)
    }
    val all = session.sparkContext.parallelize(definitions, 1).union(changes)
    RowsOfRdd.toDataFrame(session, all, schema)
  }

  private def row(values: Any*): InternalRow = new GenericInternalRow(values.toArray)

  /**
   * Makes a batch of the changes with LSNs from one up to another, as the source gives it: messages in
   * one partition, in order.
   *
   * @param waiting the rows, as they were written
   */
  def messages(session: SparkSession, waiting: DataFrame, from: Long, to: Long): DataFrame = {
    val definitions = waiting.where("lsn IS NULL").collect().map { row =>
      val types = row.getSeq[Array[Byte]](row.fieldIndex("types")).toArray
      (row.getAs[Long]("batch_end"), row.getAs[Int]("definition")) ->
        (types :+ row.getAs[Array[Byte]]("message"))
    }.toMap
    val columns = Seq("batch_end", "definition", "lsn", "ordinal", "transaction", "message")
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
 * Makes messages of changes: the beginning of each transaction, and the Type and Relation messages of a
 * definition before the first change that it describes.
 *
 * @param definitions the messages by the end of a batch and the number of the definition in it
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
      new TransactionStart(change.getBinary(Transaction)).messages.foreach(add(0, _))
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
  final private val Transaction = 4
  final private val Message = 5
}
