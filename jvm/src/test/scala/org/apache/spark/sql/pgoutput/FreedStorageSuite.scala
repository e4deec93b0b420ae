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
        val before = shuffles
        val other = shuffled
        assert(other.count() == 100)
        val others = shuffles
        val rows = shuffled
        assert(rows.count() == 100)
        assert(others != before && shuffles != others)
        FreedStorage.removeShuffles(rows)
        assert(shuffles == others)
        FreedStorage.removeShuffles(other)
        assert(shuffles == before)
      }
    }
}
