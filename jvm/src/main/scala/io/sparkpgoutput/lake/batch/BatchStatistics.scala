package io.sparkpgoutput.lake.batch

import java.io.{
  ByteArrayInputStream,
  ByteArrayOutputStream,
  ObjectInputStream,
  ObjectOutputStream,
  ObjectStreamClass
}

import io.sparkpgoutput.changes.TableName

/**
 * The statistics of the router about a batch.
 *
 * @param tables the tables of the job that have changes, by their oids
 * @param others the tables that are not the job's, by their oids
 * @param lastCommit the time of the last commit, in microseconds since 1970; 0 if there is none
 */
final case class BatchStatistics(
    tables: Map[Long, TableStatistics],
    others: Map[Long, OtherTable],
    transactions: Long,
    lastCommit: Long
) {

  /** The bytes, for an accumulator: Spark reads those without the classes of the JAR. */
  def toBytes: Array[Byte] = {
    val bytes = new ByteArrayOutputStream
    val out = new ObjectOutputStream(bytes)
    out.writeObject(this)
    out.close()
    bytes.toByteArray
  }
}

object BatchStatistics {
  val empty: BatchStatistics = BatchStatistics(Map.empty, Map.empty, 0, 0)

  def fromBytes(bytes: Array[Byte]): BatchStatistics = {
    val loader = getClass.getClassLoader
    val in = new ObjectInputStream(new ByteArrayInputStream(bytes)) {
      // Scala's collections would look for the elements' classes where Scala comes from.
      override def resolveClass(description: ObjectStreamClass): Class[_] =
        try Class.forName(description.getName, false, loader)
        catch { case _: ClassNotFoundException => super.resolveClass(description) }
    }
    in.readObject().asInstanceOf[BatchStatistics]
  }
}

/**
 * The changes of a table of the job in a batch. Changes below the mark of the table do not count.
 *
 * @param name the name by the last Relation message
 * @param definitions how the batch describes the table, one definition after the other
 * @param truncated the last TRUNCATE
 * @param moved the updates that changed the key and did not send all values
 * @param lastCommit
 *   the time of the last commit with a change of the table, in microseconds since 1970
 */
final case class TableStatistics(
    oid: Long,
    name: TableName,
    definitions: IndexedSeq[Definition],
    inserts: Long,
    updates: Long,
    deletes: Long,
    truncates: Long,
    truncated: Option[MessagePosition],
    moved: Long,
    lastCommit: Long
) {
  def changes: Long = inserts + updates + deletes + truncates
}

/**
 * A table as one Relation message describes it.
 *
 * @param relation the Relation message
 * @param types the Type messages of its columns
 * @param changes
 *   the inserts, updates and deletes under this definition. It does not matter if there are none: the
 *   table can have been altered since, and copied.
 * @param updates the updates among them
 * @param unsent tells for each column if an update did not send its value
 * @param partialInsert
 *   the LSN of the first commit with an insert that did not send all values: the row filter of a
 *   publication has made it of an update
 * @param missingKey
 *   the columns of the table's key that the message does not have. Then the changes are left out.
 */
final case class Definition(
    relation: Array[Byte],
    types: IndexedSeq[Array[Byte]],
    changes: Long,
    updates: Long,
    unsent: IndexedSeq[Boolean],
    partialInsert: Option[Long],
    missingKey: Seq[String]
)

/** The place of a message in the stream. */
final case class MessagePosition(lsn: Long, ordinal: Long)

/** A table that is not the job's. */
final case class OtherTable(name: TableName, changes: Long)
