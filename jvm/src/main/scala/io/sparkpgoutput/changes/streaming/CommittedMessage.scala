package io.sparkpgoutput.changes.streaming

import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.types._

import io.sparkpgoutput.changes.rows.{ChangeFormat, ChangeRowWriter, ChangesIterator, SourceColumn}
import io.sparkpgoutput.changes.transactions._
import io.sparkpgoutput.protocol.MessageType.Tag
import io.sparkpgoutput.protocol.{StreamContext, StructSchema}

/**
 * A row with a change of a committed transaction, or with a Relation or Type message that later
 * changes need. The columns after `ordinal` matter for changes only.
 */
object CommittedMessage extends StructSchema {
  val POSITION: Int = field("position", LongType, "the position of the message")
  val MESSAGE: Int = field("message", BinaryType, "the message")
  val IN_STREAM: Int = field("in_stream", BooleanType, "whether it was sent in a stream block")
  val ORDINAL: Int = field("ordinal", LongType, "the ordinal of the first row of the change")
  val LSN: Int = field("lsn", LongType, "the LSN of the commit")
  val TIMESTAMP: Int =
    field("timestamp", LongType, "the time of the commit, in microseconds since 1970")
  val XID: Int = field("xid", LongType, "the xid of the top-level transaction")
  val GID: Int = field("gid", StringType, "the gid of a prepared transaction")
  val ORIGIN: Int = field("origin", StringType, "the origin of the transaction")

  /** The source is the last column. Its type is that of the user's column. */
  val SOURCE: Int = schema.length

  def withSource(sourceType: DataType): StructType = schema.add("source", sourceType)

  def of(change: BufferedChange, transaction: Transaction, commit: Commit, source: Any): Row = Row(
    change.position,
    change.message,
    change.inStream,
    change.ordinal,
    commit.lsn,
    commit.timestamp,
    transaction.xid,
    commit.gid,
    transaction.origin,
    source
  )

  def definition(sent: SchemaMessage, source: Any): Row =
    Row(sent.position, sent.message, sent.inStream, 0L, 0L, 0L, 0L, null, null, source)
}

/** Reads the committed changes of one source from [[CommittedMessage]]s. Not thread-safe. */
final class StreamChangeReader(format: ChangeFormat) {
  import CommittedMessage._

  private val rows = new ChangeRowWriter(format)
  private val fields = new ControlMessageDecoder(format.options.encoding)
  private val known = new KnownRelations
  private var commitLsn = 0L

  /** Takes the next message and returns its rows. Take all rows before the next message. */
  def message(row: InternalRow): Iterator[UnsafeRow] = {
    val position = row.getLong(POSITION)
    val message = row.getBinary(MESSAGE)
    val context = StreamContext.of(row.getBoolean(IN_STREAM))
    // Each transaction comes with the Relation messages that it needs. Earlier Relation messages do not count.
    if (message(0) != Tag.Type && row.getLong(LSN) != commitLsn) {
      known.clearRelations()
      commitLsn = row.getLong(LSN)
    }
    if (SchemaMessage.is(message)) known.add(fields.definition(position, message, context))
    else rows.start(known, transaction(row), position, message, context)
    rows
  }

  private def transaction(row: InternalRow): Transaction = {
    def text(field: Int) = if (row.isNullAt(field)) null else row.getUTF8String(field).toString
    val found = Transaction(
      row.getLong(XID),
      firstPosition = 0,
      hasBeginning = true,
      gid = text(GID),
      origin = text(ORIGIN),
      nextOrdinal = row.getLong(ORDINAL)
    )
    found.commit = Commit(row.getLong(LSN), row.getLong(TIMESTAMP), found.gid, Set.empty)
    found
  }
}

/** Reads the rows of committed changes in one partition, one source after the other. */
final class StreamedChangesIterator(
    messages: Iterator[InternalRow],
    format: ChangeFormat,
    sourceType: DataType,
    withSource: Boolean,
    numOutputRows: SQLMetric
) extends ChangesIterator(
      messages,
      if (withSource) new SourceColumn(format, sourceType, CommittedMessage.SOURCE) else null,
      numOutputRows
    ) {
  private var source: Any = _
  private var reader: StreamChangeReader = _

  override protected def read(row: InternalRow): Iterator[UnsafeRow] = {
    val found = row.get(CommittedMessage.SOURCE, sourceType)
    if (reader == null || found != source) {
      reader = new StreamChangeReader(format)
      source = InternalRow.copyValue(found)
    }
    reader.message(row)
  }
}
