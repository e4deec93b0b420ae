package io.sparkpgoutput.lake.job

import java.time.Duration

import scala.util.Using

import io.sparkpgoutput.SparkSessionTests
import io.sparkpgoutput.errors.LakeException
import io.sparkpgoutput.lake.apply.MemoryTarget
import io.sparkpgoutput.lake.catalog.MirroredTable
import io.sparkpgoutput.lake.core.JobCommand.ApplyCut
import io.sparkpgoutput.lake.core.TableStatus.Live
import io.sparkpgoutput.lake.core.{
  CatalogEntry,
  ChangeQueue,
  JobCore,
  JobSettings,
  JobState,
  SimTable,
  TableFailure,
  TableState
}
import io.sparkpgoutput.lake.target.{OwnTables, TargetBehind}
import io.sparkpgoutput.source.connection.FakeServer
import io.sparkpgoutput.source.connection.FakeServer.{Failure, Rows}

class VerificationsSuite extends SparkSessionTests {
  private val oid = 16400L
  private val table = SimTable(oid, "orders", Vector("id")).definition
  private val name = table.source.name

  private class OneChange extends ChangeQueue {
    var position = Option.empty[Long]
    override def from = 100L
    override def oldest: Option[Long] = position
    override def changes: Long = position.size.toLong
    override def bytes: Long = changes
  }

  /** A job whose table has everything below 200, and is held there. */
  private class Held(
      options: ReplicateOptions = ReplicateOptions(),
      lookNow: () => Unit = () => (),
      versionNow: => String = "1"
  ) {
    var readsVersions = Seq.empty[Boolean]
    private val start = JobState("job", "7", 1, "shop", "slot", Seq("all"), "lake", "delta", 100)
      .put(TableState(table, Live, generation = 1, mark = Some(100L)))
    val queue = new OneChange
    val core = new JobCore(JobSettings(), start)
    core.queueBegun(oid, queue)
    look(table)
    core.take(0)
    core.applied(oid, 100, None, 0)
    core.read(200)
    core.hold(Seq(oid), 200)
    val shared = new SharedCore(core)
    val verifications: Verifications = new Verifications(
      new JobParts(
        spark,
        options,
        new OwnTables(
          spark,
          new TargetBehind(new MemoryTarget(spark)) {
            override def version(table: String): String = {
              readsVersions :+= verifications.readsVersions
              versionNow
            }
          }
        ),
        null,
        null,
        new JobLog,
        shared
      ),
      null,
      lookNow,
      Duration.ZERO,
      Duration.ofMillis(300)
    )

    def look(tables: MirroredTable*): Unit = core.published(
      tables.map(found => CatalogEntry(found, Some(found.target), None, "as it is")),
      200,
      0
    )

    def goesOn: Boolean = {
      queue.position = Some(250)
      core.read(300)
      core.take(2000).contains(ApplyCut(oid, 300))
    }
  }

  test("a table that is renamed while it is held is pinned, and its commits go on") {
    val held = new Held
    val renamed = SimTable(oid, "renamed", Vector("id")).definition
    held.core.redefined(oid, renamed, Map.empty)
    val pinned = held.verifications.pinAll(Seq(name -> Some(oid)), Seq(oid), 200)
    assert(held.goesOn, pinned)
    assert(pinned.map(_.map(_.state.name)) == Seq(Right(renamed.source.name)))
  }

  test("a table that is made again while it is held goes on, and the new one is compared later") {
    val held = new Held
    val again = SimTable(oid + 1, "orders", Vector("id")).definition
    held.queue.position = Some(250)
    held.look(again)
    val pinned = held.verifications.pinAll(Seq(name -> Some(oid)), Seq(oid), 200)
    assert(held.goesOn, pinned)

    held.queue.position = None
    held.core.applied(oid, 300, None, 3000)
    held.look(again)
    assert(!held.core.state.tables(oid).isFollowed)
    val later = held.verifications.pinAll(Seq(name -> Some(oid)), Seq(oid), 300)
    assert(later.map(_.left.map(_._2.canPass)) == Seq(Left(true)))
  }

  /** A server whose snapshots have an LSN. */
  private def server(lsn: String) = new FakeServer({
    case (_, sql) if sql.startsWith("CREATE_REPLICATION_SLOT") =>
      Rows(Seq("consistent_point" -> lsn))
    case (_, sql) if sql.contains("pg_export_snapshot")  => Rows(Seq("snapshot" -> "1"))
    case (_, sql) if sql.contains("pg_current_snapshot") => Rows(Seq("sees" -> "9:9:"))
    case (_, sql) if sql.startsWith("SET TRANSACTION")   => Failure("22023")
    case (_, sql) if sql.startsWith("SET") || sql.startsWith("BEGIN") || sql.contains("_drop_") =>
      Rows(Seq("done" -> ""))
  })

  private def of(server: FakeServer) = {
    import server.address
    ReplicateOptions(url = address.url, user = address.user, password = address.password)
  }

  test("a verification without a snapshot ends with the reason, and holds no table") {
    Using.resource(server("0/64")) { server =>
      val held = new Held(of(server))
      val error = intercept[LakeException](held.verifications.verify(Seq(name)))
      assert(error.getCondition == "PGOUTPUT_VERIFICATION_FAILED")
      assert(error.getMessage.contains("a standby that is behind"))
      assert(error.getMessage.contains("run spark-pgoutput verify again"))
      assert(held.goesOn && held.readsVersions.isEmpty && !held.verifications.readsVersions)
    }
  }

  test("an error of a verification says what to do, and that a job that runs goes on") {
    val held = new Held(lookNow = () => throw new IllegalStateException("The catalog is odd"))
    val error = intercept[LakeException](held.verifications.verify(Seq(name)))
    assert(error.getCondition == "PGOUTPUT_VERIFICATION_FAILED")
    assert(error.getMessage.contains("The catalog is odd. No change is lost"))
    assert(error.getMessage.contains("a job that runs goes on"))

    val unread = new Held(versionNow = throw new IllegalStateException("No such file"))
    val pinned = unread.verifications.pinAll(Seq(name -> Some(oid)), Seq(oid), 200)
    val reason = pinned.head.left.toOption.flatMap(_._2.outcome.left.toOption).get
    assert(reason.startsWith("[PGOUTPUT_VERIFICATION_FAILED] "))
    assert(reason.contains("the table public.orders. No such file. No change"), reason)
  }

  test("a commit that has begun before does not delay the snapshot") {
    Using.resource(server("0/C8")) { server =>
      val held = new Held(of(server))
      held.core.release(Seq(oid))
      held.queue.position = Some(150)
      assert(held.core.take(0).contains(ApplyCut(oid, 200)))
      val ends = new Thread(() => {
        Thread.sleep(2000)
        held.shared { core =>
          held.queue.position = None
          core.applied(oid, 200, None, 0)
        }
      })
      ends.start()
      val found = held.verifications.verify(Seq(name))
      ends.join()
      assert(held.readsVersions.nonEmpty, found)
      assert(held.goesOn)
    }
  }

  test("a table that has caught up for long, and waits for a moment, is not skipped") {
    val held = new Held
    held.queue.position = Some(150)
    val goesOn = new Thread(() => {
      Thread.sleep(500) // longer than a table may wait
      held.shared { core =>
        assert(core.take(1000).contains(ApplyCut(oid, 200)))
        core.failed(oid, TableFailure(TableFailure.Waits, "The store is away."), JobClock.millis)
      }
      Thread.sleep(100)
      held.shared { core =>
        assert(core.take(JobClock.millis + 60000).contains(ApplyCut(oid, 200)))
        held.queue.position = None
        core.applied(oid, 200, None, JobClock.millis)
      }
    })
    goesOn.start()
    val pinned = held.verifications.pinAll(Seq(name -> Some(oid)), Seq(oid), 200)
    goesOn.join()
    assert(pinned.forall(_.isRight), pinned)
  }

  test(
    "versions of tables stay from the first one that a verification notes to its last comparison"
  ) {
    Using.resource(server("0/C8")) { server =>
      val held = new Held(of(server))
      val found = held.verifications.verify(Seq(name))
      assert(held.readsVersions.nonEmpty && held.readsVersions.forall(identity), found)
      assert(held.goesOn && !held.verifications.readsVersions)
    }
  }
}
