package io.sparkpgoutput.decode

import scala.annotation.switch

import io.sparkpgoutput.protocol._

import MessageSchema._
import MessageType.Tag

/**
 * The messages, in the order of the PostgreSQL documentation, chapter "Logical Replication Message
 * Formats", field after field.
 */
abstract class MessageLayouts(encoding: TextEncoding, selection: FieldSelection)
    extends TupleDecoder(encoding, selection) {
  private var withXid = false

  /** The LSN of the logical message that was read last. */
  final protected var logicalMessageLsn = 0L

  /**
   * Reads a message to its last byte.
   *
   * @param withXid whether the xid of a transaction follows the tag
   * @param inferringContext
   *   true if `withXid` is a guess. Then the reading accepts only what PostgreSQL does send.
   * @return what is wrong with it; null if nothing is
   */
  final protected def read(
      message: Array[Byte],
      messageType: MessageType,
      withXid: Boolean,
      inferringContext: Boolean
  ): DecodeFailure = {
    tag = messageType.tag.toInt
    this.withXid = withXid
    this.inferringContext = inferringContext
    kept = filter.keeps(tag)
    in.start(message)
    resetTuples()
    row.start()
    row.setBytes(TYPE, messageType.nameBytes, 0, messageType.nameBytes.length)
    if (withXid) streamedXid()
    body(messageType.tag)
    in.finish()
    in.failure
  }

  /** Returns what is wrong with a message that begins with a byte that is not a tag. */
  final protected def unknown(message: Array[Byte]): DecodeFailure = {
    in.start(message)
    in.fail(TYPE, null, "unknown message tag %x" + hint(message), message(0) & 0xffL, position = 0)
    in.failure
  }

  /** Recognizes the bytes that users often pass instead of a message. */
  private def hint(message: Array[Byte]): String =
    if (message(0) == 'w' && message.length >= XLogDataHeader.Size) {
      s"; if this is an XLogData message, remove its header of ${XLogDataHeader.Size} bytes"
    } else if (isHexadecimal(message)) {
      "; if this is hexadecimal text, turn it into bytes with unhex (without a leading \\x)"
    } else ""

  /** Returns whether all bytes are hexadecimal digits, maybe after the `\\x` of bytea text. */
  private def isHexadecimal(message: Array[Byte]): Boolean = {
    val digits = if (message.startsWith("\\x".getBytes)) message.drop(2) else message
    digits.length % 2 == 0 && digits.forall(byte => Character.digit(byte.toChar, 16) >= 0)
  }

  private def body(tag: Char): Unit = (tag: @switch) match {
    case Tag.Begin            => begin()
    case Tag.Message          => logicalMessage()
    case Tag.Commit           => commit()
    case Tag.Origin           => origin()
    case Tag.Relation         => relation()
    case Tag.Type             => pgType()
    case Tag.Insert           => insert()
    case Tag.Update           => update()
    case Tag.Delete           => delete()
    case Tag.Truncate         => truncate()
    case Tag.StreamStart      => streamStart()
    case Tag.StreamStop       => ()
    case Tag.StreamCommit     => streamCommit()
    case Tag.StreamAbort      => streamAbort()
    case Tag.BeginPrepare     => beginPrepare()
    case Tag.Prepare          => prepare()
    case Tag.CommitPrepared   => prepare()
    case Tag.RollbackPrepared => rollbackPrepared()
    case Tag.StreamPrepare    => prepare()
  }

  /** Begin: LSN of the commit; commit timestamp; xid. */
  private def begin(): Unit = { lsn(LSN); timestamp(TIMESTAMP); xid(XID) }

  /** Message: flags, 1 for transactional; LSN; prefix; length and bytes of the content. */
  private def logicalMessage(): Unit = {
    val transactional = flag(TRANSACTIONAL)
    if (inferringContext && withXid && !transactional) {
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
  private def commit(): Unit = { in.flags(0); lsn(LSN); lsn(END_LSN); timestamp(TIMESTAMP) }

  /** Origin: LSN of the commit on the origin server; name of the origin. */
  private def origin(): Unit = { lsn(LSN); string(ORIGIN) }

  /** Relation: oid; namespace; name; replica identity; number of columns; the columns. */
  private def relation(): Unit = {
    oid()
    val members = struct.struct(RELATION)
    val head = row.openStruct(members)
    refuseOid(RELATION)
    string(head, members.slot(head, RelationSchema.NAMESPACE), RELATION, "namespace")
    string(head, members.slot(head, RelationSchema.NAME), RELATION, "name")
    replicaIdentity(head, members.slot(head, RelationSchema.REPLICA_IDENTITY))
    relationColumns(head, members.slot(head, RelationSchema.COLUMNS))
    row.setNested(RELATION, head)
  }

  /** The letter of `pg_class.relreplident`. */
  private def replicaIdentity(relation: Int, slot: Int): Unit = {
    val letter = in.uint8(RELATION, "replica_identity")
    if (letter != 'd' && letter != 'n' && letter != 'f' && letter != 'i') {
      unexpected(RELATION, "replica_identity", letter, "d, n, f or i")
    }
    row.putByte(row.openBytes(relation, slot, 1), 0, letter)
  }

  /** For each column: flags, 1 for a part of the key; name; oid of the type; type modifier. */
  private def relationColumns(relation: Int, slot: Int): Unit = {
    val number = in.uint16(RELATION, "columns").toLong
    val columns = in.count(number, leastBytes = 10, RELATION, "columns")
    val members = struct.struct(RELATION).struct(RelationSchema.COLUMNS)
    val array = row.openArray(slot, columns)
    var i = 0
    while (i < columns && in.ok) {
      in.column = i + 1
      val head = row.openStruct(members)
      row.putBoolean(members.slot(head, RelationColumnSchema.KEY), in.flags(1, RELATION) == 1)
      string(head, members.slot(head, RelationColumnSchema.NAME), RELATION, "name")
      row.putLong(members.slot(head, RelationColumnSchema.TYPE_ID), in.uint32(RELATION, "type_id"))
      val modifier = in.int32(RELATION, "type_modifier")
      row.putInt(members.slot(head, RelationColumnSchema.TYPE_MODIFIER), modifier)
      row.closeNested(array, row.elementSlot(array, columns, i), head)
      i += 1
    }
    in.column = 0
    row.closeNested(relation, slot, array)
  }

  /** Type: oid; namespace; name. */
  private def pgType(): Unit = {
    val members = struct.struct(PG_TYPE)
    val head = row.openStruct(members)
    row.putLong(members.slot(head, PgTypeSchema.ID), in.uint32(PG_TYPE, "id"))
    refuseOid(PG_TYPE)
    string(head, members.slot(head, PgTypeSchema.NAMESPACE), PG_TYPE, "namespace")
    string(head, members.slot(head, PgTypeSchema.NAME), PG_TYPE, "name")
    row.setNested(PG_TYPE, head)
  }

  /**
   * Fails if the namespace that follows has a control character in its first four bytes, because a namespace has
   * none. If it has one in a guess without an xid, the guess is wrong: it has taken an oid for these bytes.
   */
  private def refuseOid(field: Int): Unit = if (inferringContext && !withXid) {
    val end = math.min(in.position + 4, in.end)
    var at = in.position
    while (at < end && isNoControl(in.message(at))) at += 1
    if (at < end && in.message(at) != 0) {
      in.fail(field, "namespace", "has the control character %x", in.message(at).toLong)
    }
  }

  private def isNoControl(byte: Byte): Boolean = byte < 0 || byte >= ' ' && byte != 0x7f

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
    val array = row.openArray(struct.slot(0, RELATION_IDS), relations)
    var i = 0
    while (i < relations) {
      row.putLong(row.elementSlot(array, relations, i), in.uint32(RELATION_IDS))
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
   * and abort timestamp. Only the length of the message shows whether they are there.
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

  /**
   * Prepare, Stream Prepare: flags, unused, must be 0; then as Begin Prepare. Commit Prepared has the same
   * fields, but its LSN and its timestamp are those of the commit.
   */
  private def prepare(): Unit = { in.flags(0); beginPrepare() }

  /**
   * Rollback Prepared: flags, unused, must be 0; end LSN of the prepare; end LSN of the rollback;
   * prepare timestamp; rollback timestamp; xid; gid.
   */
  private def rollbackPrepared(): Unit = {
    in.flags(0); lsn(LSN); lsn(END_LSN); timestamp(PREPARE_TIMESTAMP); timestamp(TIMESTAMP)
    xid(XID); string(GID)
  }
}

/** Reads, checks and writes to the row the fields that messages are made of. */
abstract class FieldDecoder(encoding: TextEncoding, selection: FieldSelection) {

  /** Says which messages give a row. */
  protected def filter: MessageFilter

  private val isUtf8 = encoding.isUtf8

  final protected val struct = new StructLayout(schema, selection)
  final protected val in = new MessageReader
  final protected val row = new MessageRowWriter(struct)

  final protected var tag = 0

  /** True if the filter keeps the message, as far as it has been read. */
  final protected var kept = false

  /** True if the stream context is not known. Then this reading is one of two attempts. */
  final protected var inferringContext = false

  final protected def xid(field: Int): Unit = row.setLong(field, in.uint32(field))

  /**
   * Xid of the transaction, only inside a stream. No transaction has the xid 0
   * (`InvalidTransactionId`).
   */
  final protected def streamedXid(): Unit = {
    val at = in.position
    val value = in.uint32(XID)
    if (inferringContext && value == 0)
      in.fail(XID, null, "found %d, which is not the xid of a transaction", value, position = at)
    row.setLong(XID, value)
  }

  final protected def lsn(field: Int): Long = {
    val value = in.int64(field)
    row.setLong(field, value)
    value
  }

  /** Oid of the relation, by which the filter may drop the message. */
  final protected def oid(): Unit = {
    val value = in.uint32(RELATION_ID)
    kept = filter.keeps(tag, value)
    row.setLong(RELATION_ID, value)
  }

  /** Microseconds since 2000-01-01, to microseconds since 1970-01-01. */
  final protected def timestamp(field: Int): Unit = {
    val value = in.int64(field)
    if (value > Long.MaxValue - PostgresEpoch.Micros) {
      val problem = "found %d, which is more than a TIMESTAMP holds"
      in.fail(field, null, problem, value, position = in.position - 8)
    }
    row.setLong(field, value + PostgresEpoch.Micros)
  }

  final protected def flag(field: Int): Boolean = {
    val value = in.flags(1, field) == 1
    row.setBoolean(field, value)
    value
  }

  final protected def string(field: Int): Unit = {
    row.setNotNull(field)
    string(0, struct.slot(0, field), field, null)
  }

  /** A member of the struct at `head`: a string that a NUL byte ends. */
  final protected def string(head: Int, slot: Int, field: Int, part: String): Unit = {
    val size = in.stringLength(field, part)
    val end = text(row.position, head, slot, in.position, size)
    if (end < 0) notInEncoding(field, part) else row.moveTo(end)
    in.skip(size + 1)
  }

  /** Returns whether the rest of the message needs no conversion to UTF-8 and no check. */
  final protected def textIsCopied: Boolean = isUtf8 && in.restIsAscii

  /**
   * Writes text, in UTF-8, at a position of the row.
   *
   * @return the position after it; -1 if the bytes are not valid in the encoding
   */
  final protected def text(position: Int, head: Int, slot: Int, from: Int, size: Int): Int =
    if (isUtf8) {
      val end = row.write(position, head, slot, in.message, from, size)
      if (textIsCopied || TextEncoding.isValidUtf8(in.message, from, size)) end else -1
    } else {
      val utf8 = encoding.toUtf8(in.message, from, size)
      if (utf8 == null) -1 else row.write(position, head, slot, utf8, 0, utf8.length)
    }

  final protected def notInEncoding(field: Int, part: String): Unit =
    in.fail(field, part, s"the text is not valid $encoding")

  /** Fails, because the byte that was read last is not valid there. */
  final protected def unexpected(field: Int, part: String, found: Int, wanted: String): Unit =
    in.fail(field, part, s"found %x, expected $wanted", found.toLong, position = in.position - 1)
}
