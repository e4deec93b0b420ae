package io.sparkpgoutput.lake.target

import org.apache.spark.sql.delta.{OptimisticTransaction, Snapshot, TransactionExecutionObserver}

/** The transactions of applications that a snapshot of a Delta table has (`txn` in Delta's protocol). */
private object DeltaTransactions {

  /**
   * Returns their versions by their names, if the checksum of the snapshot has them. Delta itself asks
   * Spark for them, with three jobs after each commit.
   */
  def of(snapshot: Snapshot): Option[Map[String, Long]] = snapshot.checksumOpt
    .flatMap(_.setTransactions)
    .map(_.map(found => found.appId -> found.version).toMap)
}

/** A transaction that knows the transactions of applications already, so Delta need not ask Spark. */
final private class KnownTransactions(begun: OptimisticTransaction, known: Map[String, Long])
    extends OptimisticTransaction(begun.deltaLog, begun.catalogTable, begun.snapshot) {

  override def txnVersion(id: String): Long = {
    readTxn += id // by which Delta finds conflicts
    known.getOrElse(id, -1L)
  }
}

/**
 * Checks the snapshot on which Delta begins a transaction. Delta itself only compares the version of an
 * application's transaction with the one before: it would take a later mark that was made from older
 * rows.
 *
 * Delta's hooks after a commit begin transactions of their own, which are not checked.
 */
final private class FirstTransactionCheck(check: OptimisticTransaction => Unit)
    extends TransactionExecutionObserver {

  private var isFirst = true

  /** Runs something that begins a transaction on this thread. */
  def run(body: => Unit): Unit = TransactionExecutionObserver.withObserver(this)(body)

  def startingTransaction(begin: => OptimisticTransaction): OptimisticTransaction = {
    val begun = begin
    if (isFirst) {
      isFirst = false
      val transaction = DeltaTransactions.of(begun.snapshot) match {
        case Some(known) => new KnownTransactions(begun, known)
        case None        => begun
      }
      check(transaction)
      transaction
    } else begun
  }

  def createChild(): TransactionExecutionObserver = this
  def preparingCommit[T](prepare: => T): T = prepare
  def beginDoCommit(): Unit = ()
  def beginBackfill(): Unit = ()
  def beginPostCommit(): Unit = ()
  def transactionCommitted(): Unit = ()
  def transactionAborted(): Unit = ()
}
