package io.sparkpgoutput.lake.job

import scala.util.{Try, Using}

import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.lake.catalog.TableChange.PartitionRewritten
import io.sparkpgoutput.lake.catalog.{Leaf, ReplicaIdentity, TableMode}
import io.sparkpgoutput.lake.core.{JobState, SimTable, TableFailure, TableState, TableStatus}
import io.sparkpgoutput.source.connection.FakeServer._
import io.sparkpgoutput.source.connection.{FakeServer, ServerClient}
import io.sparkpgoutput.source.slot.Server

class ServerCatalogSuite extends AnyFunSuite {
  private val state = JobState("job", "7", 1, "shop", "slot", Seq("all"), "lake", "delta", 100)

  private def asking(server: FakeServer, inRecovery: Boolean = false)(
      body: ServerCatalog => Unit
  ): Unit =
    Using.resources(server, new ServerClient(server.address, "test")) { (_, client) =>
      val known = Server("7", 1, "shop", 18, 8192, inRecovery, "2026-01-01")
      body(new ServerCatalog(client, known, ReplicateOptions(), null))
    }

  /** Its timeline 2 branched off at the LSN 200. */
  private def branched = new FakeServer({
    case (_, "TIMELINE_HISTORY 2") => Rows(Seq("content" -> "1\t0/C8\tno recovery target\n"))
    case (_, sql) if sql.contains("pg_current_wal_flush_lsn") => Rows(Seq("lsn" -> "0/FFFF"))
  })

  test("each look finds a new timeline until the reader has noted it") {
    val server = branched
    server.timeline = 2
    asking(server) { catalog =>
      // The reader can go on with the old timeline, above the switch at 200, after the look has asked how far it is.
      var sessions = 0
      def error(lsn: Long) = Try(catalog.moved(state, lsn)(sessions += 1)).failed.get
      assert(TableFailures.isPassing(error(200)) && TableFailures.isPassing(error(200)))
      assert(sessions == 2 && TableFailures.endsJob(error(300)))
      assert(catalog.moved(state.copy(timeline = 2), 300)(fail()).isEmpty)
    }
  }

  test("a standby that is read has what was read, if it is promoted or follows another primary") {
    val server = branched
    asking(server, inRecovery = true) { catalog =>
      def read(started: String) = state.copy(serverStarted = Some(started))
      assert(catalog.moved(read("2026-01-01"), 300)(fail()).isEmpty)
      server.timeline = 2
      assert(catalog.moved(read("2026-01-01"), 300)(fail()).exists(_.timeline == 2))
      for (other <- Seq(read("2025-12-31"), state))
        assert(TableFailures.endsJob(Try(catalog.moved(other, 300)(fail())).failed.get))
    }
    // A primary does not change its timeline, and a new connection can lead to another server.
    val primary = branched
    asking(primary) { catalog =>
      assert(catalog.moved(state, 300)(fail()).isEmpty)
      primary.timeline = 2
      assert(catalog.moved(state, 300)(fail()).isEmpty)
    }
  }

  test("a name in the target belongs to its owner, and else to the older table") {
    def live(oid: Long, name: String, mode: TableMode) = TableState(
      SimTable(oid, name, Vector("id"), mode = mode).definition,
      TableStatus.Live,
      generation = 1,
      mark = Some(100L)
    )
    for ((orders, others) <- Seq(1L -> 2L, 2L -> 1L)) {
      val names =
        Map(
          orders -> Seq("orders", "orders_history"),
          others -> Seq("orders_history"),
          3L -> Seq("c")
        )
      def rivals(state: JobState) = names.keys.flatMap(oid =>
        ServerCatalog.rival(oid, names, state).map(oid -> _)
      ).toMap
      assert(rivals(state) == Map(2L -> 1L))
      val mirror = live(orders, "orders", TableMode.Mirror)
      // The options give a history to the mirror, and another table has the name of the history.
      val owned = state.put(mirror).put(live(others, "orders_history", TableMode.History("_")))
      assert(rivals(owned) == Map(orders -> others))
      val both = live(orders, "orders", TableMode.Both(TableMode.Mirror, TableMode.History("_")))
      assert(rivals(state.put(both)) == Map(others -> orders))
      assert(rivals(state.put(mirror)) == Map(2L -> 1L))
    }
  }

  test("a partition that is dropped before its rows are looked at does not fail the table") {
    val name = TableName("public", "part")
    val leaf = Leaf(2, name, 3, ReplicaIdentity.Default, attached = true)
    val table = SimTable(1, "orders", Vector("id")).definition.source
    for (problem <- Seq("42P01", "3F000")) {
      val server = new FakeServer({
        // A table that is gone has no rights.
        case (_, sql) if sql.contains("has_table_privilege") => Rows(Seq("can" -> "t"))
        case (_, sql) if sql.contains("FROM ONLY")           => Failure(problem)
      })
      asking(server) { catalog =>
        val error = Try(catalog.reason(table, Seq(PartitionRewritten(leaf)))).failed.get
        assert(TableFailures.of(error).kind == TableFailure.Waits, error)
      }
    }
  }
}
