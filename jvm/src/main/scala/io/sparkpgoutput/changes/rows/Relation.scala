package io.sparkpgoutput.changes.rows

import org.apache.spark.sql.catalyst.InternalRow

import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.changes.transactions.SchemaMessage
import io.sparkpgoutput.decode.MessageDecoder
import io.sparkpgoutput.protocol._

/**
 * A table as a Relation message describes it.
 *
 * @param identity the replica identity, as `pg_class.relreplident` has it
 */
final case class Relation(
    oid: Long,
    name: TableName,
    columns: IndexedSeq[RelationColumn],
    identity: Char
)

/** @param isKey true if the column is part of the replica identity */
final case class RelationColumn(name: String, isKey: Boolean, typeId: Long)

/** Decodes Relation and Type messages. Not thread-safe. */
final class RelationDecoder(encoding: TextEncoding) {
  private val decoder = new MessageDecoder(encoding)

  def relation(sent: SchemaMessage): Relation = {
    val row = decoder.decode(sent.message, StreamContext.of(sent.inStream))
    val relation = row.getStruct(MessageSchema.RELATION, RelationSchema.schema.length)
    val columns = relation.getArray(RelationSchema.COLUMNS)
    Relation(
      row.getLong(MessageSchema.RELATION_ID),
      TableName.of(relation),
      columns.toSeq[InternalRow](RelationColumnSchema.schema).map { column =>
        RelationColumn(
          column.getUTF8String(RelationColumnSchema.NAME).toString,
          column.getBoolean(RelationColumnSchema.KEY),
          column.getLong(RelationColumnSchema.TYPE_ID)
        )
      },
      relation.getUTF8String(RelationSchema.REPLICA_IDENTITY).toString.head
    )
  }

  def baseType(sent: SchemaMessage): Option[(Long, String)] = {
    val row = decoder.decode(sent.message, StreamContext.of(sent.inStream))
    RelationDecoder.baseType(row.getStruct(MessageSchema.PG_TYPE, PgTypeSchema.schema.length))
  }
}

object RelationDecoder {

  /**
   * The oid of a domain and the name of its base type, as a struct of [[PgTypeSchema]] has them; None
   * if the base type is not built in.
   */
  def baseType(pgType: InternalRow): Option[(Long, String)] =
    Option.when(pgType.getUTF8String(PgTypeSchema.NAMESPACE).numBytes == 0)(
      pgType.getLong(PgTypeSchema.ID) -> pgType.getUTF8String(PgTypeSchema.NAME).toString
    )
}
