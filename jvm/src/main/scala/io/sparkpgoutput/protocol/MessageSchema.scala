package io.sparkpgoutput.protocol

import java.nio.file.{Files, Path}

import scala.collection.mutable.ListBuffer

import org.apache.spark.sql.types._

/** The struct that a message decodes to. A field that a message does not have is NULL. */
object MessageSchema extends StructSchema {
  val TYPE: Int = field("type", StringType, "The type of the message: " + typeNames)
  val XID: Int = field(
    "xid",
    LongType,
    "The id of the transaction. Inside a stream, a change has the id of its " +
      "subtransaction, and a MESSAGE the id of the top-level transaction"
  )
  val SUBXID: Int =
    field("subxid", LongType, "STREAM_ABORT: the id of the subtransaction that was rolled back")
  val LSN: Int = field(
    "lsn",
    LongType,
    "BEGIN, COMMIT, STREAM_COMMIT, COMMIT_PREPARED: the LSN of the commit; ORIGIN: the " +
      "LSN of the commit at the origin; MESSAGE: the LSN of the message; STREAM_ABORT: the " +
      "LSN of the rollback; BEGIN_PREPARE, PREPARE, STREAM_PREPARE: the LSN of the " +
      "prepare; ROLLBACK_PREPARED: the LSN of the end of the prepare"
  )
  val END_LSN: Int = field(
    "end_lsn",
    LongType,
    "The LSN of the end of the transaction, of its prepare or of its rollback"
  )
  val TIMESTAMP: Int =
    field("timestamp", TimestampType, "The time of the commit, the prepare or the rollback")
  val PREPARE_TIMESTAMP: Int =
    field("prepare_timestamp", TimestampType, "ROLLBACK_PREPARED: the time of the prepare")
  val GID: Int = field("gid", StringType, "The identifier of the prepared transaction")
  val ORIGIN: Int = field("origin", StringType, "ORIGIN: the name of the replication origin")
  val TRANSACTIONAL: Int = field(
    "transactional",
    BooleanType,
    "MESSAGE: true if the message is part of a transaction"
  )
  val FIRST_SEGMENT: Int = field(
    "first_segment",
    BooleanType,
    "STREAM_START: true if this is the first block of the transaction"
  )
  val CASCADE: Int = field("cascade", BooleanType, "TRUNCATE: true if the statement has CASCADE")
  val RESTART_IDENTITY: Int =
    field("restart_identity", BooleanType, "TRUNCATE: true if the statement has RESTART IDENTITY")
  val PREFIX: Int = field("prefix", StringType, "MESSAGE: the prefix")
  val CONTENT: Int = field("content", BinaryType, "MESSAGE: the content")
  val RELATION_ID: Int =
    field("relation_id", LongType, "RELATION, INSERT, UPDATE, DELETE: the oid of the table")
  val RELATION_IDS: Int = field(
    "relation_ids",
    ArrayType(LongType, containsNull = false),
    "TRUNCATE: the oids of the tables"
  )
  val RELATION: Int = field("relation", RelationSchema.schema, "RELATION: the table")
  val PG_TYPE: Int = field("pg_type", PgTypeSchema.schema, "TYPE: the type")

  /**
   * The first of the tuples. From here on there are tuples only, up to the last field: the table
   * changes rely on that, so add other fields before this one.
   */
  val KEY: Int = field(
    "key",
    TupleSchema.schema,
    "UPDATE, DELETE: the old values of the replica identity. Other columns have the kind n"
  )
  val OLD: Int = field(
    "old",
    TupleSchema.schema,
    "UPDATE, DELETE: the old row, if the table has REPLICA IDENTITY FULL"
  )
  val NEW: Int = field("new", TupleSchema.schema, "INSERT, UPDATE: the new row")

  private def typeNames: String = MessageType.all.map(_.name).mkString(", ")
}

/** A table, as a Relation message describes it. */
object RelationSchema extends StructSchema {
  val NAMESPACE: Int =
    field("namespace", StringType, "The schema of the table. It is empty for pg_catalog")
  val NAME: Int = field("name", StringType, "The name of the table")
  val REPLICA_IDENTITY: Int = field(
    "replica_identity",
    StringType,
    "The replica identity: d for default (primary key), n for nothing, f for full, i for an index"
  )
  val COLUMNS: Int = field(
    "columns",
    ArrayType(RelationColumnSchema.schema, containsNull = false),
    "The columns, in the order of the cells of a tuple"
  )
}

/** A column of a table. */
object RelationColumnSchema extends StructSchema {
  val KEY: Int =
    field("key", BooleanType, "True if the column is part of the replica identity")
  val NAME: Int = field("name", StringType, "The name of the column")
  val TYPE_ID: Int = field("type_id", LongType, "The oid of the column's type")
  val TYPE_MODIFIER: Int =
    field("type_modifier", IntegerType, "The type modifier (atttypmod) of the column, or -1")
}

/** A data type, as a Type message describes it. */
object PgTypeSchema extends StructSchema {
  val ID: Int = field("id", LongType, "The oid of the type")
  val NAMESPACE: Int =
    field("namespace", StringType, "The schema of the type. It is empty for pg_catalog")
  val NAME: Int =
    field("name", StringType, "The name of the type. A domain has the name of its base type")
}

/** The cells of a row of a table. */
object TupleSchema extends StructSchema {
  val KINDS: Int = field(
    "kinds",
    StringType,
    "One letter for each column: n for NULL, u for an unchanged TOASTed value, which is " +
      "not sent, t for text, b for binary"
  )
  val TEXT: Int = field(
    "text",
    ArrayType(StringType),
    "One element for each column. It is NULL if the kind is not t"
  )
  val BINARY: Int = field(
    "binary",
    ArrayType(BinaryType),
    "One element for each column. It is NULL if the kind is not b. The array is NULL if " +
      "no kind is b"
  )
}

/**
 * A struct whose fields are declared one by one. A declaration gives the field's ordinal, so that the
 * fields' order, names, types and comments are written once.
 */
abstract class StructSchema {
  private val declared = ListBuffer.empty[StructField]

  final protected def field(name: String, dataType: DataType, comment: String): Int = {
    declared += StructField(name, dataType).withComment(comment)
    declared.size - 1
  }

  /** The struct, once all its fields are declared. */
  final lazy val schema: StructType = StructType(declared.toSeq)
}

/** Writes the struct of a decoded message as JSON. The build runs it, and Python reads the file. */
object MessageSchemaFile {
  def main(arguments: Array[String]): Unit =
    Files.writeString(Path.of(arguments.head), MessageSchema.schema.json)
}
