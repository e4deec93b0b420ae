package org.apache.spark.sql.pgoutput

import org.apache.spark.sql.functions.col
import org.apache.spark.{MapOutputTrackerMaster, SparkEnv}

import io.sparkpgoutput.SparkSessionTests

class FreedStorageSuite extends SparkSessionTests {
  private def shuffles: Set[Int] = SparkEnv.get.mapOutputTracker
    .asInstanceOf[MapOutputTrackerMaster].shuffleStatuses.keySet.toSet

  for (isAdaptive <- Seq(true, false))
    test(s"only the shuffles of these rows are removed; adaptive execution: $isAdaptive") {
      val session = ClonedSession.of(spark)
      session.conf.set("spark.sql.adaptive.enabled", isAdaptive)
      ClonedSession.within(session) {
        def shuffled = RowsOfRdd.of(session.range(100).repartition(col("id")).sort("id").toDF())
        // Spark can remove shuffles of earlier tests at any time.
        val before = shuffles
        def made = shuffles -- before
        val other = shuffled
        assert(other.count() == 100)
        val others = made
        val rows = shuffled
        assert(rows.count() == 100)
        assert(others.nonEmpty && made != others)
        FreedStorage.removeShuffles(rows)
        assert(made == others)
        FreedStorage.removeShuffles(other)
        assert(made.isEmpty)
      }
    }
}
