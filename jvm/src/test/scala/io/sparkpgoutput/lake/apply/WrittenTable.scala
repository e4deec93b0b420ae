package io.sparkpgoutput.lake.apply

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.types.{DataType, IntegerType, StringType}

import org.scalatest.Assertions.{assert, intercept}

import io.sparkpgoutput.changes.StreamMessages
import io.sparkpgoutput.errors.LakeException
import io.sparkpgoutput.lake.catalog.{ReplicaIdentity, TableMode}
import io.sparkpgoutput.lake.core.MarkName
import io.sparkpgoutput.lake.target.{Target, TargetWrite}

/**
 * A target's table into which cuts are written. Its columns are id, v, big, those of the mode, and mine.
 *
 * @param v the type of v
 * @param mostOld the most bytes of values of the target that a direct write has in memory
 * @param made the name of a table that exists, and that has the mark; None if the table has to be made
 */
class WrittenTable(
    spark: SparkSession,
    target: Target,
    identity: ReplicaIdentity = ReplicaIdentity.Default,
    mode: TableMode = TableMode.Mirror,
    made: Option[String] = None,
    private var mark: Long = 1,
    mostOld: Long = Long.MaxValue,
    v: DataType = StringType
) {
  import WrittenTable._

  /** The memory for cuts that the driver folds. */
  var memory: Long = CutApply.Memory

  val server = new ServerTable(
    1,
    made.getOrElse(s"${mode.toString.toLowerCase}_${identity.code}"),
    identity,
    Seq("id"),
    Seq("id" -> TypeOids.Int4, "v" -> TypeOids.Text, "big" -> TypeOids.Text),
    Seq("id" -> IntegerType, "v" -> v, "big" -> StringType)
  )
  server.mode = mode
  if (made.isEmpty) {
    if (target.exists(server.name)) target.drop(server.name)
    target.create(
      server.name,
      server.target.targetSchema.add("mine", IntegerType),
      server.key,
      Map.empty
    )
    target.commit(spark, server.name, Name, None, mark)(
      TargetWrite.Append(target.read(spark, server.name).limit(0))
    )
  }

  def row(id: Int, v: String, big: String): Seq[String] = Seq(id.toString, v, big)

  /** Writes a cut with some transactions, each at its LSN. */
  def cut(transactions: (Long, Seq[Array[Byte]])*): CutResult = write(false, transactions)
  def repair(transactions: (Long, Seq[Array[Byte]])*): CutResult = write(true, transactions)

  /** Writes a transaction, and checks that the target refuses it with this problem. */
  def drift(problem: String)(transaction: (Long, Seq[Array[Byte]])): Unit = {
    val error = intercept[LakeException](cut(transaction))
    assert(error.getCondition == "PGOUTPUT_TARGET_DIFFERS")
    assert(error.getMessage.contains(problem), error.getMessage)
  }

  private def write(
      repairs: Boolean,
      transactions: Seq[(Long, Seq[Array[Byte]])]
  ): CutResult = {
    val messages = transactions.flatMap { case (lsn, sent) =>
      CutOfServer.transaction(lsn, server.relation +: sent)
    }
    val end = transactions.last._1 + 1
    val found = new CutApply(target, repairs, memory = memory, mostOld = mostOld)
      .commit(spark, server.target, Map.empty, Name, mark, CutOfServer(1, messages, end))
    mark = end
    found
  }

  def truncate(): Array[Byte] = {
    server.truncate()
    StreamMessages.truncate(Seq(server.oid))
  }

  def sql(statement: String): Unit =
    spark.sql(statement.replace("{}", target.sqlName(server.name))): Unit
}

object WrittenTable {
  val Name: MarkName = MarkName("job", 1, 0)
}
