package io.sparkpgoutput.lake.state

import java.time.Instant

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.functions.{col, lit}
import org.apache.spark.sql.types.{LongType, StringType}

import io.sparkpgoutput.SparkSessionTests
import io.sparkpgoutput.lake.LakeException
import io.sparkpgoutput.lake.apply.MemoryTarget
import io.sparkpgoutput.lake.table.{ReplicaIdentity, TableMode}

class StateTableSuite extends SparkSessionTests {
  private lazy val target = new MemoryTarget(spark)
  private lazy val name = target.sqlName(StateTable.Name)

  /** The rows that a version wrote, which every later version must read. */
  private def written(version: Int) =
    spark.read.schema(StateTable.schema).json(s"tests/data/lake-state/$version.jsonl")
  private lazy val kept = written(1).cache()

  private def store(change: (String, org.apache.spark.sql.Column)*): StateTable =
    store(kept, change: _*)

  private def store(
      kept: DataFrame,
      change: (String, org.apache.spark.sql.Column)*
  ): StateTable = {
    if (target.exists(StateTable.Name)) spark.sql(s"DELETE FROM $name")
    else target.create(StateTable.Name, StateTable.schema, Nil, Map.empty)
    change.foldLeft(kept) { case (rows, (column, value)) => rows.withColumn(column, value) }
      .writeTo(name).append()
    new StateTable(spark, target)
  }

  test("the state that an earlier version wrote is read") {
    val (job, tables) = store().read().get
    assert(
      job == JobState(
        "198348ad-b2eb-4c1f-80b1-3fd46e32532d",
        "7710982159958800053",
        "postgres",
        "lake",
        firstLsn = 0x174c960L,
        end = Some(0x1781be8L)
      )
    )
    assert(tables.map(_.target) == Seq("orders", "order_lines", "root", "readings", "late"))
    val Seq(orders, lines, root, readings, late) = tables

    assert(orders.status == TableStatus.Live)
    assert((orders.generation, orders.mark) == ((1, Some(0x1781be8L))))
    assert(orders.lastChange.map(_.toString).contains("2026-11-22T13:12:25.247Z"))
    assert(orders.formerNames == Map("state" -> "status"))
    assert(orders.table.source.columns.map(_.number) == Seq(1, 2, 3, 4))
    assert(orders.table.schema.map(_.name) == Seq("id", "status", "price", "größe"))
    assert(orders.table.schema.map(_.dataType) ==
      Seq(LongType, StringType, StringType, StringType))
    assert(orders.table.types.declarations == Map(16385L -> "enum"))

    assert(lines.table.source.name.namespace == "other \"schema")
    assert(lines.table.source.key == Seq("a", "b ``x"))
    assert(lines.table.source.unsent == Seq(4))
    assert(lines.table.source.rowFilter.exists(_.startsWith("((a > 3) AND")))

    assert(root.table.source.isPartitioned)
    assert(root.table.source.leaves.map(_.name.name).toSet == Set("low", "high"))
    assert(readings.table.source.identity == ReplicaIdentity.Full)
    assert(late.status.name == "stopped" && late.mark.isEmpty)
  }

  test("what is read is what is written") {
    val state = store()
    val (job, tables) = state.read().get
    state.write(job, tables)
    def rows = spark.table(name).drop("written").orderBy("oid").collect().toSeq
    assert(rows == kept.drop("written").orderBy("oid").collect().toSeq)
    assert(new StateTable(spark, target).read().contains((job, tables)))
  }

  test("the time up to which everything is applied is kept") {
    val state = store()
    val (job, tables) = state.read().get
    val applied = job.copy(appliedUpTo = Some(Instant.parse("2026-11-22T13:12:25.247001Z")))
    state.write(applied, tables)
    assert(new StateTable(spark, target).read().contains((applied, tables)))
  }

  test("what the catalog tells of a table's publications and of its number of columns is kept") {
    val state = store()
    val (job, tables) = state.read().get
    val members = tables.map { table =>
      val source = table.table.source.copy(
        memberships = Seq(16401L, 4294967295L),
        publications = Map(16400L -> 751L, 4294967295L -> 4294967294L),
        attributes = 7
      )
      table.copy(table = table.table.copy(source = source))
    }
    state.write(job, members)
    assert(new StateTable(spark, target).read().contains((job, members)))
  }

  test("the state of a later version is an error") {
    val error = intercept[LakeException](store("version" -> lit(5)).read())
    assert(error.getCondition == "PGOUTPUT_CHECKPOINT_VERSION")
    assert(error.getMessage.contains("has the version 5, and this version of spark-pgoutput reads"))
  }

  test("requests stay until the job takes them, and older versions refuse to read them") {
    val state = store()
    val (job, tables) = state.read().get
    state.request(Seq("public.orders", "public.readings"))
    state.request(Seq("public.orders"))
    val asked = state.requests()
    val names = asked.collect { case request: ResyncRequest => request.table }
    assert(names.sorted == Seq("public.orders", "public.orders", "public.readings"))
    assert(asked.map(_.id).distinct.length == 2)
    assert(asked.forall(_.id < 0))
    assert(new StateTable(spark, target).read().contains((job, tables)))
    assert(spark.table(name).where("kind = 'request' AND version = 2").count() == 3)
    state.write(job, tables)
    assert(state.requests().toSet == asked.toSet)
    val taken = asked.collectFirst { case ResyncRequest(id, "public.readings") => id }.get
    state.write(job, tables, Set(taken))
    assert(state.requests() == asked.filterNot(_.id == taken))
  }

  test("requests tell what is wanted, and those of later versions are left out") {
    val state = store()
    val id = state.request(Seq("public.orders"), StateTable.Verify)
    state.request(Seq("public.orders"), "something of a later version")
    assert(state.requests() == Seq(VerifyRequest(id, "public.orders")))
  }

  test("a table that is copied while the stream runs has the second version") {
    val state = store()
    val (job, tables) = state.read().get
    val waiting = tables.head.copy(
      status = TableStatus.Waiting("A resync was requested."),
      generation = 2,
      copied = Some(0x1781be9L)
    )
    state.write(job, waiting +: tables.tail)
    assert(new StateTable(spark, target).read().get._2.find(_.isWaiting).contains(waiting))
    val versions =
      spark.table(name).orderBy("oid").select("version").collect().map(_.getInt(0)).toSeq
    assert(versions.sorted == Seq(1, 1, 1, 1, 1, 2))
  }

  test("version 3 has histories, and other rows keep the version that can read them") {
    val rows = written(3).cache()
    val state = store(rows)
    val (job, Seq(orders, readings)) = state.read().get
    assert(orders.table.mode == TableMode.History("cdc_"))
    assert(readings.table.mode == TableMode.Mirror)
    assert(Seq(orders, readings).map(_.copied) == Seq.fill(2)(Some(0x1781be9L)))
    assert(state.requests() == Seq(ResyncRequest(-77, "public.orders")))
    state.write(job, Seq(orders, readings))
    def sorted(rows: DataFrame) = rows.drop("written").orderBy("oid").collect().toSeq
    assert(sorted(spark.table(name)) == sorted(rows))
  }

  test("a job that begins anew has the fourth version, as has the request for it") {
    val state = store()
    val (job, tables) = state.read().get
    state.requestAll()
    val asked = state.requests()
    assert(asked == Seq(ResyncAllRequest(asked.head.id)))
    assert(spark.table(name).where("version = 4").count() == 1)
    val anew = job.copy(end = None, generation = 2, needsSlot = true, timeline = Some(3))
    state.write(anew, tables, asked.map(_.id).toSet)
    assert(state.requests().isEmpty)
    assert(new StateTable(spark, target).read().contains((anew, tables)))
    assert(spark.table(name).where("kind = 'job'").select("version").head().getInt(0) == 4)
  }

  test("version 4 has jobs that began anew, and the request for that") {
    val rows = written(4).cache()
    val state = store(rows)
    val (job, Seq(orders, readings)) = state.read().get
    assert((job.generation, job.needsSlot, job.end) == ((2, false, Some(0x1781be8L))))
    assert((orders.generation, readings.generation) == ((3, 4)))
    assert(state.requests().toSet ==
      Set(ResyncAllRequest(-78), VerifyRequest(-79, "public.orders")))
    state.write(job, Seq(orders, readings))
    def sorted(rows: DataFrame) = rows.drop("written").orderBy("oid").collect().toSeq
    assert(sorted(spark.table(name)) == sorted(rows))
  }

  test("columns that a user has added are left out") {
    store("reason" -> col("reason"))
    spark.sql(s"ALTER TABLE $name ADD COLUMNS (mine STRING)")
    assert(new StateTable(spark, target).read().map(_._2.length).contains(5))
  }
}
