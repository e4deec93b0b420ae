package io.sparkpgoutput.changes.streaming

import org.apache.spark.sql.Row
import org.apache.spark.sql.types._

import io.sparkpgoutput.errors.OldCheckpointException
import io.sparkpgoutput.protocol.Lsn

/**
 * The state of a source as version 0.1.0 wrote it.
 *
 * This version does not continue from that state. It declares the state variable of 0.1.0 with its
 * schema for two reasons: Spark refuses to open a checkpoint if a variable of the same name has
 * another schema, and the content of the variable tells the user where a new checkpoint has to
 * start.
 */
object OldState {
  final val Variable = "source"

  private val schemaMessages = ArrayType(
    new StructType()
      .add("oid", LongType, nullable = false)
      .add("position", LongType, nullable = false)
      .add("message", BinaryType)
      .add("inStream", BooleanType, nullable = false)
  )

  private val transaction = new StructType()
    .add("xid", LongType, nullable = false)
    .add("firstPosition", LongType, nullable = false)
    .add("hasBeginning", BooleanType, nullable = false)
    .add("commitLsn", LongType, nullable = false)
    .add("commitTimestamp", LongType, nullable = false)
    .add("gid", StringType)
    .add("origin", StringType)
    .add("changes", LongType, nullable = false)
    .add("nextOrdinal", LongType, nullable = false)
    .add("aborted", ArrayType(LongType, containsNull = false))
    .add("relations", schemaMessages)

  private val follower = new StructType()
    .add("place", IntegerType, nullable = false)
    .add("begun", transaction)
    .add("streamedXid", LongType, nullable = false)
    .add("streamed", ArrayType(transaction))
    .add("prepared", ArrayType(transaction))
    .add("relations", schemaMessages)
    .add("types", schemaMessages)
    .add("greatestCommit", LongType, nullable = false)

  private val chunk = new StructType()
    .add("_1", LongType, nullable = false)
    .add("_2", IntegerType, nullable = false)

  val schema: StructType = new StructType()
    .add("lastPosition", LongType)
    .add("commits", LongType, nullable = false)
    .add("chunks", ArrayType(chunk))
    .add("follower", follower)

  /** The error that says where a new checkpoint has to start. */
  def error(state: Row): OldCheckpointException = {
    val follower = state.getAs[Row]("follower")
    val open = Option(follower.getAs[Row]("begun")).toSeq ++
      follower.getAs[Seq[Row]]("streamed") ++ follower.getAs[Seq[Row]]("prepared")
    val next = open
      .map(_.getAs[Long]("firstPosition"))
      .minOption
      .getOrElse(Option(state.getAs[java.lang.Long]("lastPosition")).fold(0L)(_ + 1))
    val greatest = Lsn.format(follower.getAs[Long]("greatestCommit"))
    new OldCheckpointException(
      "The checkpoint was written by spark-pgoutput 0.1.0, and this version cannot continue from it. " +
        s"Start the query with a new checkpoint. Read the messages from position $next on, and name " +
        "a view of the messages before that position in the option 'relations'. The output has the " +
        s"commits up to the LSN $greatest: set the option 'after' to '$greatest', or, if the query " +
        "reads several sources, drop the rows whose _commit_version is not above it."
    )
  }
}
