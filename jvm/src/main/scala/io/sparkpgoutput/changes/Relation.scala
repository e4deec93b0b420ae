package io.sparkpgoutput.changes

import org.apache.spark.sql.types.StructType

import io.sparkpgoutput.decode.MessageDecoder
import io.sparkpgoutput.protocol.{
  MessageSchema,
  PgTypeSchema,
  RelationColumnSchema,
  RelationSchema,
  StreamContext,
  TextEncoding
}

/** A table, as a Relation message describes it. */
final case class Relation(
    oid: Long,
    name: TableName,
    columns: IndexedSeq[RelationColumn]
)

/** @param isKey whether it is part of the replica identity */
final case class RelationColumn(
    name: String,
    isKey: Boolean,
    typeId: Long
)

/** Decodes Relation and Type messages that have been sent. Not thread-safe. */
final class RelationReader(encoding: TextEncoding) {
  private val decoder = new MessageDecoder(encoding, RelationReader.required)

  def relation(sent: SentMessage): Relation = {
    val row = decoder.decode(sent.message, StreamContext.of(sent.inStream))
    val relation = row.getStruct(1, RelationSchema.schema.length)
    val columns = relation.getArray(RelationSchema.COLUMNS)
    Relation(
      row.getLong(0),
      TableName(
        relation.getUTF8String(RelationSchema.NAMESPACE).toString,
        relation.getUTF8String(RelationSchema.NAME).toString
      ),
      IndexedSeq.tabulate(columns.numElements()) { index =>
        val column = columns.getStruct(index, RelationColumnSchema.schema.length)
        RelationColumn(
          column.getUTF8String(RelationColumnSchema.NAME).toString,
          column.getBoolean(RelationColumnSchema.KEY),
          column.getLong(RelationColumnSchema.TYPE_ID)
        )
      }
    )
  }

  /** The oid of a type, and its name where it is one of PostgreSQL's own: of a domain its base. */
  def baseType(sent: SentMessage): Option[(Long, String)] = {
    val row = decoder.decode(sent.message, StreamContext.of(sent.inStream))
    val found = row.getStruct(2, PgTypeSchema.schema.length)
    Option.when(found.getUTF8String(PgTypeSchema.NAMESPACE).numBytes == 0)(
      found.getLong(PgTypeSchema.ID) -> found.getUTF8String(PgTypeSchema.NAME).toString
    )
  }
}

private object RelationReader {
  private val required = StructType(
    Seq(MessageSchema.RELATION_ID, MessageSchema.RELATION, MessageSchema.PG_TYPE)
      .map(MessageSchema.schema(_))
  )
}
