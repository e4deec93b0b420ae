package io.sparkpgoutput.lake.apply

import java.nio.file.Files

import org.apache.spark.sql.Row
import org.apache.spark.sql.functions.{col, unix_micros}

import io.sparkpgoutput.changes.StreamMessages
import io.sparkpgoutput.errors.LakeException
import io.sparkpgoutput.lake.catalog.{ReplicaIdentity, TableMode}
import io.sparkpgoutput.lake.target._
import io.sparkpgoutput.{DeltaTests, TakesLong}

/**
 * The versions of rows: written directly, and by a MERGE into a table in memory. [[DirectHistoriesSuite]]
 * compares both in each format.
 */
class VersionedRowsSuite extends DeltaTests {
  private lazy val targets: Seq[Target] = Seq(
    Targets.of(spark, Files.createTempDirectory("versioned").toString, Some("delta")),
    IcebergTables.in(spark, "versioned"),
    new MemoryTarget(spark)
  )

  /** A table of a target, into which cuts are written. */
  final private class Written(target: Target, identity: ReplicaIdentity)
      extends WrittenTable(spark, target, identity, TableMode.Versions) {

    /** Writes a cut, directly if the target has files. */
    def direct(transactions: (Long, Seq[Array[Byte]])*): Unit =
      assert(cut(transactions: _*).byMerge.isEmpty == !target.isInstanceOf[MemoryTarget])

    /** The versions with their LSNs. Checks that their times belong to these LSNs. */
    def versions: Seq[Row] = target.read(spark, server.name)
      .select(
        Seq("id", "v", "big", "_from_lsn", "_to_lsn", "mine", "_is_current").map(col) ++
          Seq("_from_timestamp", "_to_timestamp").map(name => unix_micros(col(name))): _*
      )
      .orderBy("id", "_from_lsn").collect().toSeq.map { row =>
        def time(at: Int) =
          if (row.isNullAt(at)) null else StreamMessages.timestamp(row.getLong(at))
        assert(row.get(7) == time(3) && row.get(8) == time(4), row)
        assert(row.getBoolean(6) == row.isNullAt(4), row)
        Row.fromSeq(row.toSeq.take(6))
      }
  }

  /** Runs a test with each target. A target does not see the identity, so only one has all identities. */
  private def each(identities: ReplicaIdentity*)(test: Written => Unit): Unit = for {
    target <- targets
    identity <- if (target.format == "memory") identities else identities.take(1)
  } withClue(s"${target.format}, $identity: ")(test(new Written(target, identity)))

  test(
    "each transaction that changes a row begins a version, which keeps the values that were not sent",
    TakesLong
  ) {
    each(ReplicaIdentity.Default, ReplicaIdentity.Full) { table =>
      import table.row
      import table.server._
      table.direct(10L -> (1 to 3).map(id => insert(row(id, "a", s"T$id"))))
      table.sql("UPDATE {} SET mine = 7 WHERE id = 1")
      table.direct(
        20L -> Seq(
          update(row(1, "a", "T1"), row(1, "b", "T1")),
          update(row(1, "b", "T1"), row(1, "c", "T1"))
        ),
        30L -> Seq(update(row(1, "c", "T1"), row(1, "d", "T1")), delete(row(2, "a", "T2"))),
        40L -> Seq(insert(row(4, "x", "y")), delete(row(4, "x", "y")), delete(row(1, "d", "T1"))),
        50L -> Seq(insert(row(1, "e", null)), update(row(3, "a", "T3"), row(5, "a", "T3"))),
        60L -> Seq(
          update(row(5, "a", "T3"), row(6, "b", "T3")),
          update(row(1, "e", null), row(1, "e", null))
        )
      )
      val ended = Seq(
        Row(1, "a", "T1", 10L, 20L, 7),
        Row(1, "c", "T1", 20L, 30L, null),
        Row(1, "d", "T1", 30L, 40L, null),
        Row(1, "e", null, 50L, 60L, null)
      )
      val others = Seq(
        Row(2, "a", "T2", 10L, 30L, null),
        Row(3, "a", "T3", 10L, 50L, null),
        Row(5, "a", "T3", 50L, 60L, null)
      )
      assert(table.versions == ended ++
        (Row(1, "e", null, 60L, null, null) +: others :+ Row(6, "b", "T3", 60L, null, null)))
      // The next cut finds the current version among those of its key.
      table.direct(70L -> Seq(delete(row(1, "e", null)), insert(row(2, "z", "z"))))
      assert(table.versions == ended ++ (Row(1, "e", null, 60L, 70L, null) +: others.head +:
        Row(2, "z", "z", 70L, null, null) +: others.tail :+ Row(6, "b", "T3", 60L, null, null)))
    }
  }

  test("a TRUNCATE ends all versions, also those of its own cut", TakesLong) {
    each(ReplicaIdentity.Default, ReplicaIdentity.Full) { table =>
      import table.row
      import table.server._
      table.cut(10L -> (1 to 3).map(id => insert(row(id, "a", s"T$id"))))
      table.cut(20L -> Seq(delete(row(1, "a", "T1"))))
      table.cut(
        30L -> Seq(insert(row(5, "a", "b")), update(row(2, "a", "T2"), row(2, "b", "T2"))),
        40L -> Seq(insert(row(6, "a", "b")), table.truncate(), insert(row(3, "c", "d"))),
        50L -> Seq(table.truncate(), insert(row(3, "e", "f")))
      )
      assert(table.versions == Seq(
        Row(1, "a", "T1", 10L, 20L, null),
        Row(2, "a", "T2", 10L, 30L, null),
        Row(2, "b", "T2", 30L, 40L, null),
        Row(3, "a", "T3", 10L, 40L, null),
        Row(3, "c", "d", 40L, 50L, null),
        Row(3, "e", "f", 50L, null, null),
        Row(5, "a", "b", 30L, 40L, null)
      ))
    }
  }

  test(
    "a change that does not fit the current version is drift, and a repair needs all values",
    TakesLong
  ) {
    each(ReplicaIdentity.Default) { table =>
      import table.server._
      import table.{drift, row}
      table.cut(10L -> Seq(insert(row(1, "a", "T1")), insert(row(2, "a", "T2"))))
      table.cut(20L -> Seq(delete(row(1, "a", "T1"))))
      val before = table.versions
      val missing = "{\"id\":1} was updated or deleted at the server, and is not in the target"
      rows += row(1, "a", "T1")
      drift(missing)(30L -> Seq(StreamMessages.delete(key = Seq("1", null, null), oid = oid)))
      drift(missing)(30L -> Seq(StreamMessages.update(Seq("1", "b", "c"), oid = oid)))
      drift("{\"id\":2} was inserted")(30L -> Seq(insert(row(2, "b", "c"))))
      val partial = StreamMessages.update(Seq("1", "b", StreamMessages.Unchanged), oid = oid)
      drift(missing)(30L -> Seq(partial))
      val error = intercept[LakeException](table.repair(30L -> Seq(partial)))
      assert(error.getMessage.contains(missing))
      assert(table.versions == before)
      val repaired = table.repair(
        30L -> Seq(
          StreamMessages.update(Seq("1", "b", "c"), oid = oid),
          StreamMessages.insert(Seq("2", "d", "e"), oid = oid),
          StreamMessages.delete(key = Seq("3", null, null), oid = oid)
        )
      )
      assert(repaired.repaired == 3)
      assert(table.versions == Seq(
        Row(1, "a", "T1", 10L, 20L, null),
        Row(1, "b", "c", 30L, null, null),
        Row(2, "a", "T2", 10L, 30L, null),
        Row(2, "d", "e", 30L, null, null)
      ))
    }
  }
}
