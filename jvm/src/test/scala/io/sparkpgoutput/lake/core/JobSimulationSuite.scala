package io.sparkpgoutput.lake.core

import java.util.concurrent.Executors

import scala.concurrent.duration.DurationInt
import scala.concurrent.{Await, ExecutionContext, Future}

import org.scalatest.funsuite.AnyFunSuite

/**
 * Random histories of a job. `-Dspark-pgoutput.seed=` gives the first seed, and `-Dspark-pgoutput.histories=`
 * a tenth of their number, because a history takes only a millisecond. By default, there are 1,000.
 */
class JobSimulationSuite extends AnyFunSuite {
  private val first = java.lang.Long.getLong("spark-pgoutput.seed", 1L).longValue
  private val count = 10 * Integer.getInteger("spark-pgoutput.histories", 100).intValue

  /**
   * The seed of the first history that does not end as it must, how many commits were compared, and how many copies
   * followed on all changes before them.
   */
  private def search(
      seeds: Iterator[Long],
      mutation: Mutation
  ): (Option[(Long, String)], Long, Long) = {
    var commits, caughtUp = 0L
    val found = seeds.flatMap { seed =>
      val simulation = new JobSimulation(seed, mutation)
      val failure = simulation.run()
      commits += simulation.commits
      caughtUp += simulation.caughtUp
      failure.map(seed -> _)
    }.nextOption()
    (found, commits, caughtUp)
  }

  test("each history ends with tables that are equal to those of the server") {
    val pool = Executors.newFixedThreadPool(2)
    implicit val threads: ExecutionContext = ExecutionContext.fromExecutor(pool)
    try {
      val halves = Seq(0, 1).map(half =>
        Future(search((half until count by 2).iterator.map(first + _), Mutation.Nothing))
      )
      val ends = halves.map(Await.result(_, 10.minutes))
      for ((seed, failure) <- ends.flatMap(_._1).headOption) {
        val again = new JobSimulation(seed, Mutation.Nothing, isTraced = true)
        again.run(): Unit
        fail(s"Seed $seed: $failure Its last steps:\n${again.steps.takeRight(80).mkString("\n")}")
      }
      // The histories have commits and copies.
      assert(ends.map(_._2).sum > 2L * count)
      assert(ends.map(_._3).sum > count / 100)
    } finally pool.shutdown()
  }

  /** A history that has shown a rare fault. Others are tried only if the simulation has changed. */
  private val rare = Map[Mutation, Long](
    Mutation.OldCopy -> 744,
    Mutation.OwnerWithoutClosing -> 474,
    Mutation.SlotMovedUnnoticed -> 309,
    Mutation.CatalogBehind -> 269,
    Mutation.TimelineUnchecked -> 131
  )

  Mutation.all.foreach { mutation =>
    test(s"the simulation finds a job with the fault $mutation") {
      val (found, _, _) = search(rare.get(mutation).iterator ++ (1L until 8000L), mutation)
      assert(found.nonEmpty)
      info(s"found by the history ${found.get._1}")
    }
  }
}
