package io.sparkpgoutput.protocol

import scala.annotation.switch

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.unsafe.types.UTF8String

import MessageSchema._

/**
 * Decodes messages of pgoutput to rows of [[MessageSchema.schema]], in one pass over the bytes.
 *
 * The methods at the end are the messages, in the order of the PostgreSQL documentation, chapter
 * "Logical Replication Message Formats", field after field. Not thread-safe.
 */
final class MessageDecoder(encoding: TextEncoding) {
  import MessageDecoder._

  private val in = new MessageReader
  private val row = new MessageRow(schema.length)

  /** The stream context is not known and this reading is one of two; see [[readEither]]. */
  private var guessing = false
  private var withXid = false
  private var logicalMessageLsn = 0L

  /** The row; null for a message of zero bytes and for a malformed one. */
  def decodeOrNull(message: Array[Byte], context: Int): UnsafeRow =
    if (isAbsent(message) || read(message, context) != null) null else row.finish()

  /** The row; null for a message of zero bytes. */
  def decode(message: Array[Byte], context: Int): UnsafeRow =
    if (isAbsent(message)) null
    else {
      val malformation = read(message, context)
      if (malformation != null) {
        throw new MalformedMessageException(malformation.describe(message))
      }
      row.finish()
    }

  /** What is wrong with the message; null where it is well-formed or has zero bytes. */
  def errorOrNull(message: Array[Byte], context: Int): UTF8String = {
    val malformation = if (isAbsent(message)) null else read(message, context)
    if (malformation == null) null else UTF8String.fromString(malformation.describe(message))
  }

  /** PostgreSQL 13 and older send a message of zero bytes where an origin was dropped. */
  private def isAbsent(message: Array[Byte]): Boolean = message.length == 0

  private def read(message: Array[Byte], context: Int): Malformation = {
    val messageType = MessageType.of(message(0))
    if (messageType == null) {
      in.start(message)
      in.fail(
        TYPE,
        null,
        "found %x, the tag of no message",
        found = message(0) & 0xffL,
        position = 0
      )
      in.malformation
    } else if (messageType.inStream && context == StreamContext.UNKNOWN) {
      readEither(message, messageType)
    } else {
      guessing = false
      read(message, messageType, messageType.inStream && context == StreamContext.INSIDE)
    }
  }

  /**
   * Reads a message of which it is not known whether an xid follows its tag. A reading must be valid
   * to the last byte, and there are rules that only one of the two can pass: see `xid`, `pgType`
   * and `logicalMessage`. The reading without an xid comes first and, but for a logical message,
   * stands if it is valid. Of two valid ones of a logical message the smaller LSN is the real one:
   * an xid read as flags and LSN pushes four foreign bytes into the upper half.
   */
  private def readEither(message: Array[Byte], messageType: MessageType): Malformation = {
    guessing = true
    val without = read(message, messageType, withXid = false)
    val lsnWithout = logicalMessageLsn
    if (without == null && messageType.tag != 'M') null
    else {
      val withIt = read(message, messageType, withXid = true)
      if (without == null) {
        val preferred =
          withIt == null && java.lang.Long.compareUnsigned(logicalMessageLsn, lsnWithout) < 0
        if (preferred) null else read(message, messageType, withXid = false)
      } else if (withIt == null) null
      else if (withIt.at > without.at) withIt
      else without
    }
  }

  private def read(
      message: Array[Byte],
      messageType: MessageType,
      withXid: Boolean
  ): Malformation = {
    this.withXid = withXid
    in.start(message)
    row.start()
    row.setBytes(TYPE, messageType.nameBytes, 0, messageType.nameBytes.length)
    if (withXid) streamedXid()
    body(messageType.tag)
    in.end()
    in.malformation
  }

  private def body(tag: Char): Unit = (tag: @switch) match {
    case 'B' => begin()
    case 'M' => logicalMessage()
    case 'C' => commit()
    case 'O' => origin()
    case 'R' => relation()
    case 'Y' => pgType()
    case 'I' => insert()
    case 'U' => update()
    case 'D' => delete()
    case 'T' => truncate()
    case 'S' => streamStart()
    case 'E' => ()
    case 'c' => streamCommit()
    case 'A' => streamAbort()
    case 'b' => beginPrepare()
    case 'P' => prepare()
    case 'K' => commitPrepared()
    case 'r' => rollbackPrepared()
    case 'p' => prepare()
  }

  // The fields that messages are made of.

  private def xid(field: Int): Unit = row.setLong(field, in.uint32(field))

  /** Xid of the transaction, only inside a stream. No transaction has 0 (`InvalidTransactionId`). */
  private def streamedXid(): Unit = {
    val at = in.position
    val value = in.uint32(XID)
    if (guessing && value == 0)
      in.fail(XID, null, "found %d, no transaction's", value, position = at)
    row.setLong(XID, value)
  }

  private def lsn(field: Int): Long = {
    val value = in.int64(field)
    row.setLong(field, value)
    value
  }

  private def oid(): Unit = row.setLong(RELATION_ID, in.uint32(RELATION_ID))

  /** Microseconds since 2000-01-01, to microseconds since 1970-01-01. */
  private def timestamp(field: Int): Unit = {
    val value = in.int64(field)
    if (value > LastTimestamp) {
      in.fail(
        field,
        null,
        "found %d, past what a TIMESTAMP holds",
        value,
        position = in.position - 8
      )
    }
    row.setLong(field, value + PostgresEpoch)
  }

  /** Flags, currently unused, must be 0. */
  private def zeroFlags(): Unit = in.flags(0)

  private def flag(field: Int): Boolean = {
    val value = in.flags(1, field) == 1
    row.setBoolean(field, value)
    value
  }

  private def string(field: Int): Unit = {
    row.setNotNull(field)
    text(0, row.slot(0, field), in.stringLength(field), field, null)
    in.skip(1)
  }

  /** A member of a struct: a string that a NUL byte ends. */
  private def string(head: Int, member: Int, field: Int, part: String): Unit = {
    text(head, row.slot(head, member), in.stringLength(field, part), field, part)
    in.skip(1)
  }

  /** Text of so many bytes, which `slot` then points to, in UTF-8. */
  private def text(head: Int, slot: Int, size: Int, field: Int, part: String): Unit = {
    if (encoding.isUtf8) {
      row.putBytes(head, slot, in.message, in.position, size)
      if (!TextEncoding.isValidUtf8(in.message, in.position, size)) notInEncoding(field, part)
    } else {
      val utf8 = encoding.toUtf8(in.message, in.position, size)
      if (utf8 == null) notInEncoding(field, part)
      else row.putBytes(head, slot, utf8, 0, utf8.length)
    }
    in.skip(size)
  }

  private def notInEncoding(field: Int, part: String): Unit =
    in.fail(field, part, s"the text is not valid $encoding")

  /**
   * TupleData: number of columns; for each its kind and, of text and binary ones, length and value.
   * The struct is kinds, text, binary.
   */
  private def tuple(field: Int): Unit = {
    val columns = in.count(in.uint16(field, "columns").toLong, leastBytes = 1, field, "columns")
    val head = row.openStruct(3)
    val kinds = row.openBytes(head, row.slot(head, 0), columns)
    val cells = in.position
    val binaryCells = textArray(field, head, kinds, columns)
    if (binaryCells == 0) row.setNullMember(head, 2)
    else {
      in.rewind(cells)
      binaryArray(field, head, columns)
    }
    row.setNested(field, head)
  }

  /** Reads a tuple's cells, writes their kinds and the array of the text ones; counts the binary. */
  private def textArray(field: Int, tuple: Int, kinds: Int, columns: Int): Int = {
    val head = row.openArray(columns)
    val slots = row.firstSlot(head, columns)
    var binaryCells = 0
    var cell = 0
    while (cell < columns && in.ok) {
      in.column = cell + 1
      val kind = in.uint8(field)
      row.putByte(kinds + cell, kind)
      kind match {
        case 't' => text(head, slots + 8 * cell, in.length(field), field, null)
        case 'b' =>
          in.skip(in.length(field))
          row.setNullElement(head, cell)
          binaryCells += 1
        case 'n' | 'u' => row.setNullElement(head, cell)
        case other     => unexpected(field, "kind", other, "n, u, t or b")
      }
      cell += 1
    }
    in.column = 0
    row.closeNested(tuple, row.slot(tuple, 1), head)
    binaryCells
  }

  /** Reads cells that have been checked once more, and writes the array of the binary ones. */
  private def binaryArray(field: Int, tuple: Int, columns: Int): Unit = {
    val head = row.openArray(columns)
    val slots = row.firstSlot(head, columns)
    var cell = 0
    while (cell < columns && in.ok) {
      val kind = in.uint8(field)
      val size = if (kind == 't' || kind == 'b') in.length(field) else 0
      if (kind == 'b') row.putBytes(head, slots + 8 * cell, in.message, in.position, size)
      else row.setNullElement(head, cell)
      in.skip(size)
      cell += 1
    }
    row.closeNested(tuple, row.slot(tuple, 2), head)
  }

  /** The byte that was read last is none of those that can stand there. */
  private def unexpected(field: Int, part: String, found: Int, wanted: String): Unit =
    in.fail(field, part, s"found %x, not $wanted", found.toLong, position = in.position - 1)

  // The messages, in the order of the PostgreSQL documentation.

  /** Begin: LSN of the commit; commit timestamp; xid. */
  private def begin(): Unit = { lsn(LSN); timestamp(TIMESTAMP); xid(XID) }

  /** Message: flags, 1 for transactional; LSN; prefix; length and bytes of the content. */
  private def logicalMessage(): Unit = {
    val transactional = flag(TRANSACTIONAL)
    if (guessing && withXid && !transactional) {
      val problem = "found 0, but only a transactional message has an xid"
      in.fail(TRANSACTIONAL, "flags", problem, position = in.position - 1)
    }
    logicalMessageLsn = lsn(LSN)
    string(PREFIX)
    val size = in.length(CONTENT)
    row.setBytes(CONTENT, in.message, in.position, size)
    in.skip(size)
  }

  /** Commit: flags, unused, must be 0; LSN of the commit; end LSN; commit timestamp. */
  private def commit(): Unit = { zeroFlags(); lsn(LSN); lsn(END_LSN); timestamp(TIMESTAMP) }

  /** Origin: LSN of the commit on the origin server; name of the origin. */
  private def origin(): Unit = { lsn(LSN); string(ORIGIN) }

  /** Relation: oid; namespace; name; replica identity; number of columns; the columns. */
  private def relation(): Unit = {
    oid()
    val head = row.openStruct(4)
    string(head, 0, RELATION, "namespace")
    string(head, 1, RELATION, "name")
    replicaIdentity(head, 2)
    relationColumns(head, 3)
    row.setNested(RELATION, head)
  }

  /** The letter of `pg_class.relreplident`. */
  private def replicaIdentity(relation: Int, member: Int): Unit = {
    val letter = in.uint8(RELATION, "replica_identity")
    if (letter != 'd' && letter != 'n' && letter != 'f' && letter != 'i') {
      unexpected(RELATION, "replica_identity", letter, "d, n, f or i")
    }
    row.putByte(row.openBytes(relation, row.slot(relation, member), 1), letter)
  }

  /** For each column: flags, 1 for a part of the key; name; oid of the type; type modifier. */
  private def relationColumns(relation: Int, member: Int): Unit = {
    val number = in.uint16(RELATION, "columns").toLong
    val columns = in.count(number, leastBytes = 10, RELATION, "columns")
    val array = row.openArray(columns)
    val slots = row.firstSlot(array, columns)
    var i = 0
    while (i < columns && in.ok) {
      in.column = i + 1
      val column = row.openStruct(4)
      row.putBoolean(row.slot(column, 0), in.flags(1, RELATION) == 1)
      string(column, 1, RELATION, "name")
      row.putLong(row.slot(column, 2), in.uint32(RELATION, "type_id"))
      row.putInt(row.slot(column, 3), in.int32(RELATION, "type_modifier"))
      row.closeNested(array, slots + 8 * i, column)
      i += 1
    }
    in.column = 0
    row.closeNested(relation, row.slot(relation, member), array)
  }

  /**
   * Type: oid; namespace; name. A namespace does not begin with a control character, but the upper
   * byte of an oid that was taken for one may be such.
   */
  private def pgType(): Unit = {
    val head = row.openStruct(3)
    row.putLong(row.slot(head, 0), in.uint32(PG_TYPE, "id"))
    if (guessing && !withXid && in.left > 0) {
      val first = in.message(in.position)
      if (first > 0 && first < ' ') {
        in.fail(PG_TYPE, "namespace", "begins with the control character %x", first.toLong)
      }
    }
    string(head, 1, PG_TYPE, "namespace")
    string(head, 2, PG_TYPE, "name")
    row.setNested(PG_TYPE, head)
  }

  /** Insert: oid of the relation; N; new tuple. */
  private def insert(): Unit = { oid(); newTuple(in.uint8(NEW, "marker"), "N") }

  /** Update: oid of the relation; K or O and old tuple, optional; N; new tuple. */
  private def update(): Unit = {
    oid()
    val marker = in.uint8(NEW, "marker")
    if (marker == 'K' || marker == 'O') {
      oldTuple(marker)
      newTuple(in.uint8(NEW, "marker"), "N")
    } else newTuple(marker, "K, O or N")
  }

  /** Delete: oid of the relation; K or O; old tuple. */
  private def delete(): Unit = { oid(); oldTuple(in.uint8(OLD, "marker")) }

  private def newTuple(marker: Int, wanted: String): Unit =
    if (marker == 'N') tuple(NEW) else unexpected(NEW, "marker", marker, wanted)

  private def oldTuple(marker: Int): Unit =
    if (marker == 'K') tuple(KEY)
    else if (marker == 'O') tuple(OLD)
    else unexpected(OLD, "marker", marker, "K or O")

  /** Truncate: number of relations; flags, 1 for cascade, 2 for restart identity; their oids. */
  private def truncate(): Unit = {
    val number = in.uint32(RELATION_IDS, "relations")
    val flags = in.flags(3)
    row.setBoolean(CASCADE, (flags & 1) != 0)
    row.setBoolean(RESTART_IDENTITY, (flags & 2) != 0)
    val relations = in.count(number, leastBytes = 4, RELATION_IDS)
    val array = row.openArray(relations)
    val slots = row.firstSlot(array, relations)
    var i = 0
    while (i < relations) {
      row.putLong(slots + 8 * i, in.uint32(RELATION_IDS))
      i += 1
    }
    row.setNested(RELATION_IDS, array)
  }

  /** Stream Start: xid; 1 for the transaction's first block. Stream Stop has no fields. */
  private def streamStart(): Unit = { xid(XID); flag(FIRST_SEGMENT) }

  /** Stream Commit: xid, then as Commit. */
  private def streamCommit(): Unit = { xid(XID); commit() }

  /**
   * Stream Abort: xid; xid of the subtransaction; with `streaming = parallel` also LSN of the abort
   * and abort timestamp, which only the length tells.
   */
  private def streamAbort(): Unit = {
    xid(XID)
    xid(SUBXID)
    if (in.left > 0) { lsn(LSN); timestamp(TIMESTAMP) }
  }

  /** Begin Prepare: LSN of the prepare; end LSN; prepare timestamp; xid; gid. */
  private def beginPrepare(): Unit = {
    lsn(LSN); lsn(END_LSN); timestamp(TIMESTAMP); xid(XID); string(GID)
  }

  /** Prepare, Stream Prepare: flags, unused, must be 0; then as Begin Prepare. */
  private def prepare(): Unit = { zeroFlags(); beginPrepare() }

  /** Commit Prepared: flags, unused, must be 0; LSN of the commit; end LSN; timestamp; xid; gid. */
  private def commitPrepared(): Unit = prepare()

  /**
   * Rollback Prepared: flags, unused, must be 0; end LSN of the prepare; end LSN of the rollback;
   * prepare timestamp; rollback timestamp; xid; gid.
   */
  private def rollbackPrepared(): Unit = {
    zeroFlags(); lsn(LSN); lsn(END_LSN); timestamp(PREPARE_TIMESTAMP); timestamp(TIMESTAMP)
    xid(XID); string(GID)
  }
}

private object MessageDecoder {

  /** 2000-01-01 in microseconds since 1970-01-01; PostgreSQL counts from the one, Spark the other. */
  private val PostgresEpoch = 946684800000000L
  private val LastTimestamp = Long.MaxValue - PostgresEpoch
}
