package io.sparkpgoutput.lake.batch

import org.apache.spark.sql.types._

import io.sparkpgoutput.protocol.StructSchema

/** The columns of a change of a row, as the router gives it. */
object ChangeFields extends StructSchema {
  val HASH: Int = field(
    "hash",
    LongType,
    "A hash of the key. It puts the changes of a row together, and comparing it is mostly enough to sort them"
  )
  val KEY: Int = field("key", BinaryType, "The row, as KeyBytes has it")
  val LSN: Int = field("lsn", LongType, "The LSN of the commit")
  val ORDINAL: Int = field("ordinal", LongType, "The position of the message in the transaction")
  val KIND: Int = field("kind", IntegerType, "One of ChangeKind")
  val TRANSACTION: Int = field(
    "transaction",
    BinaryType,
    "The beginning of the transaction, as TransactionStart has it; NULL if the table is not kept"
  )
  val WHOLE: Int = field(
    "whole",
    BooleanType,
    "True if the new row has a value for each column of the target, from the message alone"
  )
  val DEFINITION: Int =
    field("definition", IntegerType, "The number of the table's definition in the cut")
  val MESSAGE: Int = field("message", BinaryType, "The message")

  /** Puts the changes of each row together, in the order in which they were made. */
  val order: Seq[String] = Seq(HASH, KEY, LSN, ORDINAL).map(schema(_).name)
}

/** The effect of a change on the row with its key. */
object ChangeKind {
  final val Insert = 1
  final val Update = 2
  final val Delete = 3

  /** An update gives the row another key. This is the change of the row with the old key. */
  final val MovedOut = 4

  /** An update gives the row another key. This is the change of the row with the new key. */
  final val MovedIn = 5

  /** All rows of the table go. Only a table that is kept has such a change. */
  final val Truncate = 6
}
