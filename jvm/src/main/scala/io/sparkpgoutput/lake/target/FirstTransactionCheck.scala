package io.sparkpgoutput.lake.target

import org.apache.spark.sql.delta.{OptimisticTransaction, TransactionExecutionObserver}

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
    val transaction = begin
    if (isFirst) {
      isFirst = false
      check(transaction)
    }
    transaction
  }

  def createChild(): TransactionExecutionObserver = this
  def preparingCommit[T](prepare: => T): T = prepare
  def beginDoCommit(): Unit = ()
  def beginBackfill(): Unit = ()
  def beginPostCommit(): Unit = ()
  def transactionCommitted(): Unit = ()
  def transactionAborted(): Unit = ()
}
