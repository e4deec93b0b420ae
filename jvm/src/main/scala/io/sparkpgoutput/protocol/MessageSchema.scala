package io.sparkpgoutput.protocol

import org.apache.spark.sql.types._

/** The struct that a message decodes to: flat, NULL where a field does not apply. */
object MessageSchema extends StructSchema {
  val TYPE: Int = field("type", StringType, "name of the message: " + typeNames)
  val XID: Int = field(
    "xid",
    LongType,
    "transaction id; of a change inside a stream the subtransaction's, of a MESSAGE the top-level one"
  )
  val SUBXID: Int = field("subxid", LongType, "STREAM_ABORT: the subtransaction that was aborted")
  val LSN: Int = field(
    "lsn",
    LongType,
    "BEGIN: of the commit to come; COMMIT, STREAM_COMMIT, COMMIT_PREPARED: of the commit; ORIGIN: " +
      "of the commit at the origin; MESSAGE: its own; STREAM_ABORT: of the abort; BEGIN_PREPARE, " +
      "PREPARE, STREAM_PREPARE: of the prepare; ROLLBACK_PREPARED: end of the prepare"
  )
  val END_LSN: Int =
    field("end_lsn", LongType, "end of the transaction, of its prepare or of the rollback")
  val TIMESTAMP: Int =
    field("timestamp", TimestampType, "time of the commit, prepare, abort or rollback")
  val PREPARE_TIMESTAMP: Int =
    field("prepare_timestamp", TimestampType, "ROLLBACK_PREPARED: time of the prepare")
  val GID: Int = field("gid", StringType, "identifier of the prepared transaction")
  val ORIGIN: Int = field("origin", StringType, "ORIGIN: name of the replication origin")
  val TRANSACTIONAL: Int = field(
    "transactional",
    BooleanType,
    "MESSAGE: whether it is part of its transaction"
  )
  val FIRST_SEGMENT: Int = field(
    "first_segment",
    BooleanType,
    "STREAM_START: whether this is the transaction's first block"
  )
  val CASCADE: Int = field("cascade", BooleanType, "TRUNCATE: CASCADE was given")
  val RESTART_IDENTITY: Int =
    field("restart_identity", BooleanType, "TRUNCATE: RESTART IDENTITY was given")
  val PREFIX: Int = field("prefix", StringType, "MESSAGE: its prefix")
  val CONTENT: Int = field("content", BinaryType, "MESSAGE: its content")
  val RELATION_ID: Int =
    field("relation_id", LongType, "RELATION, INSERT, UPDATE, DELETE: oid of the table")
  val RELATION_IDS: Int = field(
    "relation_ids",
    ArrayType(LongType, containsNull = false),
    "TRUNCATE: oids of the tables"
  )
  val RELATION: Int = field("relation", RelationSchema.schema, "RELATION: the table")
  val PG_TYPE: Int = field("pg_type", PgTypeSchema.schema, "TYPE: the type")
  val KEY: Int = field(
    "key",
    TupleSchema.schema,
    "UPDATE, DELETE: the old values of the replica identity's columns; the others are n"
  )
  val OLD: Int =
    field("old", TupleSchema.schema, "UPDATE, DELETE: the old row, with REPLICA IDENTITY FULL")
  val NEW: Int = field("new", TupleSchema.schema, "INSERT, UPDATE: the new row")

  /** With what the optimizer may ask for besides. */
  lazy val complete: StructType = StructType(schema.map { member =>
    if (member.dataType == TupleSchema.schema) member.copy(dataType = TupleSchema.complete)
    else member
  })

  private def typeNames: String = MessageType.all.map(_.name).mkString(", ")
}

/** A table, as a Relation message describes it. */
object RelationSchema extends StructSchema {
  val NAMESPACE: Int = field("namespace", StringType, "schema of the table, empty for pg_catalog")
  val NAME: Int = field("name", StringType, "name of the table")
  val REPLICA_IDENTITY: Int =
    field("replica_identity", StringType, "d default (primary key), n nothing, f full, i index")
  val COLUMNS: Int = field(
    "columns",
    ArrayType(RelationColumnSchema.schema, containsNull = false),
    "columns, in the order of the tuples' cells"
  )
}

/** A column of a table. */
object RelationColumnSchema extends StructSchema {
  val KEY: Int =
    field("key", BooleanType, "whether the column is part of the replica identity")
  val NAME: Int = field("name", StringType, "name of the column")
  val TYPE_ID: Int = field("type_id", LongType, "oid of the column's type")
  val TYPE_MODIFIER: Int =
    field("type_modifier", IntegerType, "atttypmod of the column, -1 where it has none")
}

/** A data type, as a Type message describes it. */
object PgTypeSchema extends StructSchema {
  val ID: Int = field("id", LongType, "oid of the type")
  val NAMESPACE: Int = field("namespace", StringType, "schema of the type, empty for pg_catalog")
  val NAME: Int = field("name", StringType, "name of the type; of a domain, its base type's")
}

/** The cells of a row of a table. */
object TupleSchema extends StructSchema {
  val KINDS: Int = field(
    "kinds",
    StringType,
    "one letter a column: n NULL, u unchanged TOASTed value that was not sent, t text, b binary"
  )
  val TEXT: Int =
    field("text", ArrayType(StringType), "one element a column, NULL where the kind is not t")
  val BINARY: Int = field(
    "binary",
    ArrayType(BinaryType),
    "one element a column, NULL where the kind is not b; NULL itself where no kind is b"
  )

  /**
   * Not among the members that users see: the tuple as it stands in the message, number of columns
   * and cells, for what reads typed rows from it.
   */
  val CELLS: Int = BINARY + 1

  lazy val complete: StructType = schema.add("cells", BinaryType)

  /** The text, of which only the elements with these positions are wanted; others may be NULL. */
  def withElements(text: StructField, positions: Set[Int]): StructField = {
    val sorted = positions.toArray.sorted.map(_.toLong)
    val marked = new MetadataBuilder().withMetadata(text.metadata).putLongArray(Elements, sorted)
    text.copy(metadata = marked.build())
  }

  /** Those positions, in their order; None where all are wanted. */
  def elements(text: StructField): Option[Seq[Int]] =
    Option.when(text.metadata.contains(Elements))(
      text.metadata.getLongArray(Elements).toSeq.map(_.toInt)
    )

  private val Elements = "elements"
}
