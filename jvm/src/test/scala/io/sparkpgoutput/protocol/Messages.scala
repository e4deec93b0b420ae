package io.sparkpgoutput.protocol

import java.nio.charset.{Charset, StandardCharsets}

import org.scalacheck.Gen

import io.sparkpgoutput.protocol.Fields.Fields

/** A message, its fields, and whether it is in a stream. */
final case class Message(fields: Fields, inStream: Boolean, charset: Charset) {
  lazy val bytes: Array[Byte] = MessageEncoder.encode(fields, inStream, charset)
  def context: Int = StreamContext.of(inStream)
  override def toString: String = s"$fields, in stream: $inStream, ${Fields.hex(bytes)}"
}

object Message {
  def outsideOfStream(fields: Fields): Message =
    Message(fields, inStream = false, StandardCharsets.UTF_8)

  /** What a decoder can know about where a message is. */
  val contexts: Seq[Int] = Seq(StreamContext.UNKNOWN, StreamContext.OUTSIDE, StreamContext.INSIDE)
}

/** Arbitrary messages: all that the format can express, whether or not a server would send it. */
final class Messages(charset: Charset = StandardCharsets.UTF_8) {
  import Messages._

  /** A message of this type, in a stream or not. */
  def ofType(messageType: MessageType): Gen[Message] =
    for {
      inStream <- Gen.oneOf(true, false)
      fields <- fieldsOf(messageType.name)
      xid <- if (messageType.inStream && inStream) uint32.map(id => Map("xid" -> id)) else noFields
    } yield Message(fields ++ xid + ("type" -> messageType.name), inStream, charset)

  val any: Gen[Message] = Gen.oneOf(MessageType.all).flatMap(ofType)

  private def fieldsOf(name: String): Gen[Fields] = name match {
    case "BEGIN" => fields("lsn" -> lsn, "timestamp" -> timestamp, "xid" -> uint32)
    case "MESSAGE" =>
      fields("transactional" -> boolean, "lsn" -> lsn, "prefix" -> string, "content" -> binary)
    case "COMMIT"   => commit
    case "ORIGIN"   => fields("lsn" -> lsn, "origin" -> string)
    case "RELATION" => fields("relation_id" -> uint32, "relation" -> relation)
    case "TYPE" =>
      fields("pg_type" -> fields("id" -> uint32, "namespace" -> string, "name" -> string))
    case "INSERT" => all(relationId, newTuple)
    case "UPDATE" => all(relationId, optional(oldTuple), newTuple)
    case "DELETE" => all(relationId, oldTuple)
    case "TRUNCATE" =>
      fields(
        "cascade" -> boolean,
        "restart_identity" -> boolean,
        "relation_ids" -> Gen.listOf(uint32)
      )
    case "STREAM_START"  => fields("xid" -> uint32, "first_segment" -> boolean)
    case "STREAM_STOP"   => noFields
    case "STREAM_COMMIT" => all(fields("xid" -> uint32), commit)
    case "STREAM_ABORT" =>
      val abort = fields("lsn" -> lsn, "timestamp" -> timestamp)
      all(fields("xid" -> uint32, "subxid" -> uint32), optional(abort))
    case "BEGIN_PREPARE" | "PREPARE" | "COMMIT_PREPARED" | "STREAM_PREPARE" => all(commit, prepared)
    case "ROLLBACK_PREPARED" => all(commit, prepared, fields("prepare_timestamp" -> timestamp))
  }

  private def commit = fields("lsn" -> lsn, "end_lsn" -> lsn, "timestamp" -> timestamp)
  private def prepared = fields("xid" -> uint32, "gid" -> string)
  private def relationId = fields("relation_id" -> uint32)
  private def newTuple = fields("new" -> tuple)
  private def oldTuple = Gen.oneOf("key", "old").flatMap(name => fields(name -> tuple))

  private def relation = fields(
    "namespace" -> string,
    "name" -> string,
    "replica_identity" -> Gen.oneOf("d", "n", "f", "i"),
    "columns" -> Gen.listOf(
      fields("key" -> boolean, "name" -> string, "type_id" -> uint32, "type_modifier" -> int32)
    )
  )

  /** A tuple of cells of all kinds, in any mixture. */
  private def tuple: Gen[Fields] =
    Gen.oneOf("t", "b", "nt", "nutb").flatMap(kinds => Gen.listOf(cell(kinds))).map(tupleOf)

  private def cell(kinds: String): Gen[Cell] = Gen.oneOf(kinds.toSeq).flatMap {
    case 't'  => text.map(value => ("t", value, null))
    case 'b'  => binary.map(value => ("b", null, value))
    case none => Gen.const((none.toString, null, null))
  }

  /** The text of a cell, with any characters of the encoding. */
  private def text: Gen[String] = Gen.listOf(characters).map(_.mkString)

  /** The text of a name, without NUL bytes, which would end it. */
  private def string: Gen[String] = text.map(_.filter(_ != 0))

  private val characters: Gen[String] = {
    val encoder = charset.newEncoder()
    val encodable = alphabets.map(_.filter(encoder.canEncode(_))).filter(_.nonEmpty)
    Gen.oneOf(encodable).flatMap(Gen.oneOf(_))
  }
}

object Messages {

  /** Kind, text and binary of a cell. */
  type Cell = (String, String, String)

  def tupleOf(cells: Seq[Cell]): Fields = {
    val (kinds, text, binary) = cells.unzip3
    Fields(
      "kinds" -> kinds.mkString,
      "text" -> text,
      "binary" -> (if (kinds.contains("b")) binary else null)
    )
  }

  /** Characters with one, two, three and four bytes in UTF-8, and the ends of each range. */
  private val alphabets: Seq[Seq[String]] = Seq(
    (0 to 0x7f),
    Seq(0x80, 0xe9, 0xf1, 0x3b1, 0x416, 0x448, 0x5d0, 0x7ff),
    Seq(0x800, 0x20ac, 0x3042, 0x4e2d, 0xac00, 0xd7ff, 0xe000, 0xffff),
    Seq(0x10000, 0x1f600, 0x20000, 0x10ffff)
  ).map(_.map(Character.toString))

  private val noFields: Gen[Fields] = Gen.const(Map.empty)
  private val boolean: Gen[Boolean] = Gen.oneOf(true, false)
  private val int32: Gen[Int] = Gen.chooseNum(Int.MinValue, Int.MaxValue, -1, 0, 4)
  private val uint32: Gen[Long] = Gen.chooseNum(0L, 0xffffffffL, 0x7fffffffL, 0x80000000L)
  private val lsn: Gen[Long] = Gen.chooseNum(Long.MinValue, Long.MaxValue, -1L, 0L)

  /** Microseconds since 1970 that fit both the 64 bits of PostgreSQL and those of Spark. */
  private val timestamp: Gen[Long] =
    Gen.chooseNum(Long.MinValue + 946684800000000L, Long.MaxValue, -1L, 0L, 1795166713577886L)

  private val binary: Gen[String] =
    Gen.listOf(Gen.choose(Byte.MinValue, Byte.MaxValue)).map(bytes => Fields.hex(bytes.toArray))

  private def fields(members: (String, Gen[Any])*): Gen[Fields] =
    Gen
      .sequence[Seq[(String, Any)], (String, Any)](members.map { case (name, values) =>
        values.map(name -> _)
      })
      .map(_.toMap)

  private def optional(fields: Gen[Fields]): Gen[Fields] = Gen.oneOf(noFields, fields)

  private def all(parts: Gen[Fields]*): Gen[Fields] =
    Gen.sequence[Seq[Fields], Fields](parts).map(_.flatten.toMap)
}
