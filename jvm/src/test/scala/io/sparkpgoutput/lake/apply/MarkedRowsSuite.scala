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
 * Rows that are deleted at the server and stay in the target: written directly, and by a MERGE into a table
 * in memory. [[DirectHistoriesSuite]] compares both in each format.
 */
class MarkedRowsSuite extends DeltaTests {
  private lazy val targets: Seq[Target] = Seq(
    Targets.of(spark, Files.createTempDirectory("marked").toString, Some("delta")),
    IcebergTables.in(spark, "marked"),
    new MemoryTarget(spark)
  )

  /** A table of a target, into which cuts are written. */
  final private class Written(target: Target, identity: ReplicaIdentity)
      extends WrittenTable(spark, target, identity, TableMode.Marking) {

    /** The rows with the LSNs of their deletions. Checks that the times belong to these LSNs. */
    def rows: Seq[Row] = target.read(spark, server.name)
      .select(
        Seq(
          "id",
          "v",
          "big",
          "_deleted_lsn",
          "mine"
        ).map(col) :+ unix_micros(col("_deleted_at")): _*
      )
      .orderBy("id").collect().toSeq.map { row =>
        val time = if (row.isNullAt(3)) null else StreamMessages.timestamp(row.getLong(3))
        assert(row.get(5) == time, row)
        Row.fromSeq(row.toSeq.dropRight(1))
      }
  }

  /**
   * Runs a test with each target and identity. Delta, whose commits take longest, has only the first
   * identity, because a target does not see the identity.
   */
  private def each(identities: ReplicaIdentity*)(test: Written => Unit): Unit = for {
    target <- targets
    identity <- if (target.format == "delta") identities.take(1) else identities
  } withClue(s"${target.format}, $identity: ")(test(new Written(target, identity)))

  test("a deleted row stays with its last values, and an insert of its key revives it", TakesLong) {
    each(ReplicaIdentity.Default, ReplicaIdentity.Full) { table =>
      import table.row
      import table.server._
      table.cut(10L -> (1 to 3).map(id => insert(row(id, "a", s"T$id"))))
      table.sql("UPDATE {} SET mine = 7 WHERE id = 1")
      table.cut(
        20L -> Seq(update(row(1, "a", "T1"), row(1, "b", "T1")), delete(row(1, "b", "T1"))),
        30L -> Seq(insert(row(4, "a", "T4")), delete(row(4, "a", "T4"))),
        40L -> Seq(insert(row(5, "a", "T5"))),
        50L -> Seq(delete(row(5, "a", "T5")), insert(row(5, "b", "x")), delete(row(5, "b", "x"))),
        60L -> Seq(update(row(2, "a", "T2"), row(6, "a", "T2"))),
        70L -> Seq(delete(row(6, "a", "T2")))
      )
      val moved = Seq(Row(2, "a", "T2", 60L, null), Row(3, "a", "T3", null, null))
      assert(table.rows == Row(1, "b", "T1", 20L, 7) +: moved ++: Seq(
        Row(5, "a", "T5", 50L, null),
        Row(6, "a", "T2", 70L, null)
      ))
      table.cut(
        80L -> Seq(insert(row(1, "c", null)), insert(row(5, "c", "d"))),
        90L -> Seq(delete(row(5, "c", "d")))
      )
      assert(table.rows == Row(1, "c", null, null, 7) +: moved ++: Seq(
        Row(5, "c", "d", 90L, null),
        Row(6, "a", "T2", 70L, null)
      ))
    }
  }

  test("a TRUNCATE marks all rows, also those of its own cut", TakesLong) {
    each(ReplicaIdentity.Default, ReplicaIdentity.Full) { table =>
      import table.row
      import table.server._
      table.cut(10L -> (1 to 4).map(id => insert(row(id, "a", s"T$id"))))
      table.cut(20L -> Seq(delete(row(1, "a", "T1"))))
      table.cut(
        30L -> Seq(insert(row(5, "a", "b")), update(row(2, "a", "T2"), row(2, "b", "T2"))),
        40L -> Seq(insert(row(6, "a", "b")), table.truncate(), insert(row(3, "c", "d"))),
        50L -> Seq(table.truncate(), insert(row(4, "e", "f")))
      )
      assert(table.rows == Seq(
        Row(1, "a", "T1", 20L, null),
        Row(2, "b", "T2", 40L, null),
        Row(3, "c", "d", 50L, null),
        Row(4, "e", "f", null, null),
        Row(5, "a", "b", 40L, null)
      ))
      table.cut(60L -> Seq(table.truncate()))
      assert(table.rows.map(_.get(3)) == Seq(20L, 40L, 50L, 60L, 40L))
    }
  }

  test("a change of a marked row is drift, and takes no value from the row") {
    each(ReplicaIdentity.Default) { table =>
      import table.server._
      import table.{drift, row}
      val marked = "{\"id\":1} was updated or deleted at the server, and is marked as deleted"
      table.cut(10L -> Seq(insert(row(1, "a", "T1")), insert(row(2, "a", "T2"))))
      table.cut(20L -> Seq(delete(row(1, "a", "T1"))))
      rows += row(1, "a", "T1")
      drift(marked)(30L -> Seq(StreamMessages.delete(key = Seq("1", null, null), oid = oid)))
      drift(marked)(30L -> Seq(update(row(1, "a", "T1"), row(1, "b", "T1"))))
      drift("{\"id\":2} was inserted")(30L -> Seq(insert(row(2, "b", "c"))))
      val partial = StreamMessages.update(Seq("1", "b", StreamMessages.Unchanged), oid = oid)
      val error = intercept[LakeException](table.repair(30L -> Seq(partial)))
      assert(error.getMessage.contains(marked))
      assert(table.rows == Seq(Row(1, "a", "T1", 20L, null), Row(2, "a", "T2", null, null)))
      // A repair needs a message with all values, or a DELETE.
      val repaired = table.repair(
        30L -> Seq(
          StreamMessages.update(Seq("1", "b", "c"), oid = oid),
          StreamMessages.insert(Seq("2", "d", "e"), oid = oid),
          StreamMessages.delete(key = Seq("3", null, null), oid = oid)
        )
      )
      assert(repaired.repaired == 3)
      assert(table.rows == Seq(Row(1, "b", "c", null, null), Row(2, "d", "e", null, null)))
    }
  }
}
