package io.sparkpgoutput.lake.job

import org.apache.spark.sql.catalyst.plans.logical.{LocalRelation, Window}
import org.apache.spark.sql.catalyst.util.CharVarcharUtils
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec
import org.apache.spark.sql.execution.joins.BroadcastNestedLoopJoinExec
import org.apache.spark.sql.execution.window.WindowExecBase
import org.apache.spark.sql.functions.{lit, timestamp_micros}
import org.apache.spark.sql.pgoutput.RowsOfRdd
import org.apache.spark.sql.types._
import org.apache.spark.sql.{DataFrame, Row}

import io.sparkpgoutput.TableTests
import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.lake.catalog._
import io.sparkpgoutput.lake.core.FormerDefinition
import io.sparkpgoutput.types.registry.TypeRegistry

/** Copies of tables that keep rows which the server does not have any more. */
class MergedCopySuite extends TableTests {
  private val lsn = 100L
  private val id = column(1, "id")
  private val email = column(2, "email")
  private val remark = column(3, "note")
  private val plain = table(Seq("id"), id -> IntegerType, email -> StringType, remark -> StringType)

  private def column(number: Int, name: String) =
    TableColumn(number, name, 23, -1, version = 7, hasMissing = false)

  private def hashed(column: TableColumn, salt: String = "one") = column.copy(hash = Some(salt))

  private def table(key: Seq[String], columns: (TableColumn, DataType)*): MirroredTable =
    MirroredTable(
      SourceTable(
        16400,
        TableName("public", "users"),
        columns.map(_._1),
        Nil,
        key,
        ReplicaIdentity.Default,
        SourceTable.Operations,
        None,
        1,
        isPartitioned = false,
        Nil,
        8
      ),
      "users",
      StructType(columns.map { case (column, dataType) => StructField(column.name, dataType) }),
      TypeRegistry()
    )

  private def joined(one: Row, other: Row) = Row.fromSeq(one.toSeq ++ other.toSeq)

  /** The rows of a target, in these columns and those of a mode. */
  private def stored(columns: String, mode: TableMode)(rows: Row*): DataFrame = {
    val schema = RowsOfRdd.withTexts(StructType(StructType.fromDDL(columns) ++ mode.columns))
    spark.createDataFrame(java.util.Arrays.asList(rows: _*), schema)
  }

  private def copy(
      table: MirroredTable,
      mode: TableMode,
      target: DataFrame,
      former: Option[MirroredTable],
      hashes: Map[String, String] = Map.empty,
      renamed: Map[Int, String] = Map.empty
  )(rows: Row*): MergedCopy = {
    val before = former.map(FormerDefinition(_, 1, renamed))
    val snapshot = spark
      .createDataFrame(java.util.Arrays.asList(rows: _*), RowsOfRdd.withTexts(table.schema))
    val at = timestamp_micros(lit(0L))
    new MergedCopy(table.copy(mode = mode), lsn, at, snapshot, target, before, hashes)
  }

  /** The rows without the times. */
  private def shown(rows: DataFrame, columns: String*): Set[Row] =
    rows.select(columns.head, columns.tail: _*).collect().toSet

  private val live = Row(null, null)
  private val marked = Row(null, 50L)
  private val current = Row(10L, null, null, null, true)
  private val ended = Row(5L, null, 10L, null, false)

  private val order = column(1, "order_id")
  private val renamed = table(Seq("order_id"), order -> IntegerType, email -> StringType)

  test("columns keep their comments and the lengths of their texts") {
    val types = Seq(email -> VarcharType(9), remark -> ArrayType(VarcharType(5)))
    val made = table(Seq("id"), (id -> IntegerType) +: types: _*)
    val short = made.copy(schema = StructType(made.schema.map(_.withComment("what it is"))))
    for ((mode, kept) <- Seq(TableMode.Marking -> marked, TableMode.Versions -> ended)) {
      val columns = "id INT, email VARCHAR(7), note ARRAY<VARCHAR(5)>, mine VARCHAR(2)"
      val target = stored(columns, mode)(joined(Row(1, "a", Seq("b"), "c"), kept))
      val merged = copy(short, mode, target, Some(short))(Row(2, "x", Seq("y")))
      val rows =
        if (mode == TableMode.Marking) merged.marked(areMarked = true) else merged.versions
      val found = CharVarcharUtils.getRawSchema(rows.schema)
      val wanted = short.schema.map(field => (field.name, field.dataType, field.getComment()))
      assert(found.take(3).map(field => (field.name, field.dataType, field.getComment())) == wanted)
      assert(found("mine").dataType == VarcharType(2))
      assert(shown(rows, "id", "email", "note", "mine") ==
        Set(Row(1, "a", Seq("b"), "c"), Row(2, "x", Seq("y"), null)))
    }
  }

  test("marked rows stay if the key has another name that the target does not have yet") {
    val target = stored("id INT, email STRING, mine INT", TableMode.Marking)(
      joined(Row(1, "a", 7), live),
      joined(Row(2, "b", 8), live),
      joined(Row(3, "c", 9), marked)
    )
    val merged = copy(renamed, TableMode.Marking, target, Some(plain))(Row(1, "z"))
    assert(merged.hasKey)
    val rows = merged.marked(areMarked = true)
    assert(shown(rows, "order_id", "email", "mine", "id", "_deleted_lsn") == Set(
      Row(1, "z", null, null, null),
      Row(2, "b", 8, null, lsn - 1),
      Row(3, "c", 9, null, 50L)
    ))
    assert(!copy(renamed, TableMode.Marking, target, None)(Row(1, "z")).hasKey)
  }

  test(
    "rows that stay keep the values of a column whose rename was interrupted before another one"
  ) {
    val former = Some(table(Seq("id"), id -> IntegerType, column(2, "a") -> StringType))
    val now = table(Seq("id"), id -> IntegerType, column(2, "d") -> StringType)
    for ((name, other) <- Seq("b" -> "a", "a" -> "b")) {
      val target = stored(s"id INT, $name STRING", TableMode.Marking)(joined(Row(1, "x"), marked))
      val rows = copy(now, TableMode.Marking, target, former, renamed = Map(2 -> "b"))()
        .marked(areMarked = true)
      assert(shown(rows, "id", "d", name) == Set(Row(1, "x", null)), s"not $other")
    }
  }

  test("each marked row without a key stays") {
    val target = stored("id INT, email STRING, note STRING", TableMode.Marking)(
      joined(Row(null, "a", null), marked),
      joined(Row(null, "b", null), marked)
    )
    val merged = copy(plain, TableMode.Marking, target, Some(plain))(Row(1, "z", null))
    val expected = Set(Row(1, "z"), Row(null, "a"), Row(null, "b"))
    assert(shown(merged.marked(areMarked = true), "id", "email") == expected)
  }

  test("a version goes on if a column has another name that the target does not have yet") {
    val mail = column(2, "mail")
    val target = stored("id INT, email STRING", TableMode.Versions)(
      joined(Row(1, "a"), current),
      joined(Row(2, "b"), current),
      joined(Row(1, "old"), ended)
    )
    val now = table(Seq("order_id"), order -> IntegerType, mail -> StringType)
    val rows = copy(now, TableMode.Versions, target, Some(plain))(Row(1, "a"), Row(2, "c")).versions
    assert(shown(rows, "order_id", "mail", "_from_lsn", "_to_lsn", "_is_current") == Set(
      Row(1, "a", 10L, null, true),
      Row(2, "b", 10L, lsn - 1, false),
      Row(2, "c", lsn - 1, null, true),
      Row(1, "old", 5L, 10L, false)
    ))
  }

  test("two columns that have changed their names keep their values, and a new column has none") {
    val target = stored("id INT, email STRING, note STRING, gone STRING", TableMode.Marking)(
      joined(Row(1, "a", "n", "g"), marked)
    )
    val now = table(
      Seq("id"),
      id -> IntegerType,
      column(2, "note") -> StringType,
      column(4, "email") -> StringType,
      column(5, "gone") -> StringType
    )
    val rows = copy(now, TableMode.Marking, target, Some(plain))().marked(areMarked = true)
    assert(shown(rows, "id", "note", "email", "gone") == Set(Row(1, "a", null, "g")))
  }

  private def decimal(text: String) = new java.math.BigDecimal(text)

  test("rows that stay have the values of a dropped column under a new column of its name") {
    val before = table(Seq("id"), id -> IntegerType, column(2, "price") -> IntegerType)
    val now = table(Seq("id"), id -> IntegerType, column(3, "price") -> DecimalType(10, 2))
    val columns = "id INT, price INT"
    val rows = stored(columns, TableMode.Versions)(
      joined(Row(1, 7), current),
      joined(Row(1, 6), ended)
    )
    val marks = stored(columns, TableMode.Marking)(joined(Row(2, 5), marked))
    // If another copy has come since the drop, its definition does not have the dropped column any more.
    for (former <- Seq(before, table(Seq("id"), id -> IntegerType))) {
      val versions =
        copy(now, TableMode.Versions, rows, Some(former))(Row(1, decimal("7.00"))).versions
      assert(shown(versions, "id", "price", "_is_current") ==
        Set(Row(1, decimal("7.00"), true), Row(1, decimal("6.00"), false)))
      val kept = copy(now, TableMode.Marking, marks, Some(former))().marked(areMarked = true)
      assert(shown(kept, "id", "price") == Set(Row(2, decimal("5.00"))))
    }
  }

  test("rows that stay have no values of a column that the server has under another name") {
    val before = table(Seq("id"), id -> IntegerType, column(2, "price") -> IntegerType)
    val added = column(3, "price") -> IntegerType
    val marks = stored("id INT, price INT", TableMode.Marking)(joined(Row(1, 5), marked))
    val renamed = table(Seq("id"), id -> IntegerType, column(2, "cost") -> IntegerType, added)
    val rows = copy(renamed, TableMode.Marking, marks, Some(before))().marked(areMarked = true)
    assert(shown(rows, "id", "price", "cost") == Set(Row(1, null, 5)))
    val left = table(Seq("id"), id -> IntegerType, added)
    for (
      source <- Seq(
        left.source.copy(unsent = Seq(2)),
        left.source.copy(excluded = Seq(column(2, "cost")))
      )
    ) {
      val now = left.copy(source = source)
      val kept = copy(now, TableMode.Marking, marks, Some(before))().marked(areMarked = true)
      assert(shown(kept, "id", "price") == Set(Row(1, null)), source)
    }
  }

  test("rows that stay keep their key if the key is a new column of the same name") {
    val before = table(Seq("id"), id -> IntegerType, remark -> StringType)
    val now = table(Seq("id"), column(5, "id") -> LongType, remark -> StringType)
    val columns = "id INT, note STRING"
    val marks = stored(columns, TableMode.Marking)(joined(Row(1, "x"), marked))
    val merged = copy(now, TableMode.Marking, marks, Some(before))(Row(2L, "y"))
    assert(merged.hasKey)
    assert(shown(merged.marked(areMarked = true), "id", "note", "_deleted_lsn") ==
      Set(Row(1L, "x", 50L), Row(2L, "y", null)))
    val versions = stored(columns, TableMode.Versions)(
      joined(Row(1, "x"), current),
      joined(Row(1, "w"), ended)
    )
    val rows = copy(now, TableMode.Versions, versions, Some(before))(Row(1L, "x")).versions
    assert(shown(rows, "id", "note", "_from_lsn", "_to_lsn") ==
      Set(Row(1L, "x", 10L, null), Row(1L, "w", 5L, 10L)))
  }

  test("a column that replaces another one has its own values first, and then those of the other") {
    val before = table(
      Seq("id"),
      id -> IntegerType,
      column(2, "key") -> IntegerType,
      column(5, "key2") -> LongType
    )
    val now = table(Seq("key"), id -> IntegerType, column(5, "key") -> LongType)
    val marks = stored("id INT, key INT, key2 BIGINT", TableMode.Marking)(
      joined(Row(1, 1, null), marked),
      joined(Row(2, 2, null), marked),
      joined(Row(3, 3, 33L), marked)
    )
    val merged = copy(now, TableMode.Marking, marks, Some(before))()
    assert(merged.hasKey)
    assert(shown(merged.marked(areMarked = true), "id", "key", "key2") ==
      Set(Row(1, 1L, null), Row(2, 2L, null), Row(3, 33L, null)))
    // A column of a user is not a dropped one.
    val mail = table(Seq("id"), id -> IntegerType, column(2, "mail") -> StringType)
    val users = stored("id INT, email STRING, mail STRING", TableMode.Marking)(
      joined(Row(1, null, "of a user"), marked)
    )
    val rows = copy(mail, TableMode.Marking, users, Some(plain))().marked(areMarked = true)
    assert(shown(rows, "id", "mail") == Set(Row(1, null)))
  }

  test("a new column continues a dropped one only if it is hashed in the same way") {
    val marks = stored("id INT, email STRING", TableMode.Marking)(joined(Row(1, "a"), marked))
    def users(email: TableColumn) = table(Seq("id"), id -> IntegerType, email -> StringType)
    val again = column(4, "email")
    for (
      (before, now, isKept) <- Seq(
        (email, again, true),
        (hashed(email), hashed(again), true),
        (hashed(email), hashed(again, "two"), false),
        (email, hashed(again), false),
        (hashed(email), again, false)
      )
    ) {
      val rows = copy(users(now), TableMode.Marking, marks, Some(users(before)))()
        .marked(areMarked = true)
      assert(shown(rows, "id", "email") == Set(Row(1, if (isKept) "a" else null)), now)
    }
  }

  test("versions that have ended are not sorted") {
    val target = stored("id INT, email STRING, note STRING", TableMode.Versions)(
      joined(Row(1, "a", "x"), current),
      joined(Row(1, "b", "x"), ended),
      joined(Row(null, "c", "x"), ended),
      joined(Row(null, "d", "x"), ended)
    )
    val rows = copy(plain, TableMode.Versions, target, Some(plain))(Row(1, "a", "y")).versions
    val sorted = rows.queryExecution.optimizedPlan.collect { case window: Window => window }
      .flatMap(_.collectLeaves()).collect { case local: LocalRelation => local.data.length }
    assert(sorted == Seq(1), rows.queryExecution.optimizedPlan)
    assert(shown(rows, "id", "email", "note", "_from_lsn", "_to_lsn") == Set(
      Row(1, "a", "x", 10L, lsn - 1),
      Row(1, "a", "y", lsn - 1, null),
      Row(1, "b", "x", 5L, 10L),
      Row(null, "c", "x", 5L, 10L),
      Row(null, "d", "x", 5L, 10L)
    ))
  }

  test("marked rows stay if the target has the new name of the key before the job knows it") {
    val target =
      stored("order_id INT, email STRING", TableMode.Marking)(joined(Row(1, "a"), marked))
    val merged = copy(renamed, TableMode.Marking, target, Some(plain))(Row(2, "b"))
    assert(merged.hasKey)
    assert(shown(merged.marked(areMarked = true), "order_id") == Set(Row(1), Row(2)))
  }

  test("versions of rows without the key of the table end, and no row is compared with another") {
    val now = table(Seq("code"), column(4, "code") -> StringType, remark -> StringType)
    val target = stored("id INT, email STRING, note STRING", TableMode.Versions)(
      joined(Row(1, "a", "x"), current),
      joined(Row(1, "b", "y"), ended)
    )
    val rows = copy(now, TableMode.Versions, target, Some(plain))(Row("k", "x"), Row("l", "y"))
      .versions
    val expected = Set(
      Row(null, "x", 1, 10L, lsn - 1, false),
      Row(null, "y", 1, 5L, 10L, false),
      Row("k", "x", null, lsn - 1, null, true),
      Row("l", "y", null, lsn - 1, null, true)
    )
    assert(shown(rows, "code", "note", "id", "_from_lsn", "_to_lsn", "_is_current") == expected)
    val plan = rows.queryExecution.executedPlan match {
      case adaptive: AdaptiveSparkPlanExec => adaptive.inputPlan
      case other                           => other
    }
    def isPairing(node: SparkPlan) =
      node.isInstanceOf[BroadcastNestedLoopJoinExec] || node.isInstanceOf[WindowExecBase]
    assert(!plan.exists(isPairing), plan)
    // A key whose new type takes no value of the old one is missing, too.
    val typed = table(Seq("id"), id -> BinaryType, remark -> StringType)
    val dates = stored("id DATE, note STRING", TableMode.Versions)(joined(Row(null, "x"), current))
    val other = copy(typed, TableMode.Versions, dates, Some(plain))(Row(Array[Byte](1), "x"))
    assert(shown(other.versions, "note", "_to_lsn") == Set(Row("x", lsn - 1), Row("x", null)))
  }

  test("rows that stay have no values of columns that the options exclude now") {
    val now = {
      val shown = table(Seq("id"), id -> IntegerType, remark -> StringType)
      shown.copy(source = shown.source.copy(excluded = Seq(column(2, "mail"))))
    }
    val columns = "id INT, email STRING, note STRING"
    for (former <- Seq(plain, plain.copy(source = now.source))) {
      // The column was renamed, or it was excluded by an earlier release, which has left its values.
      val name = if (former eq plain) "email" else "mail"
      val has = columns.replace("email", name)
      val marks =
        stored(
          has,
          TableMode.Marking
        )(joined(Row(1, "secret", "x"), live), joined(Row(2, "secret", "y"), marked))
      val kept = copy(now, TableMode.Marking, marks, Some(former))().marked(areMarked = true)
      assert(shown(kept, "id", name, "note") == Set(Row(1, null, "x"), Row(2, null, "y")))
      val versions = stored(has, TableMode.Versions)(
        joined(Row(1, "secret", "x"), current),
        joined(Row(1, "secret", "y"), ended)
      )
      val rows = copy(now, TableMode.Versions, versions, Some(former))(Row(1, "x")).versions
      assert(shown(rows, "id", name, "note", "_is_current") ==
        Set(Row(1, null, "x", true), Row(1, null, "y", false)))
    }
  }

  test("rows that stay have no values of columns that are hashed in another way now") {
    val rows =
      stored(
        "id INT, email STRING",
        TableMode.Marking
      )(Row(1, "a", null, null), Row(2, "b", null, 50L))
    val versions = stored("id INT, email STRING", TableMode.Versions)(
      joined(Row(1, "a"), current),
      joined(Row(2, "b"), ended)
    )
    def users(email: TableColumn) =
      table(Seq("id"), id -> IntegerType, email -> StringType)
    for (
      (before, now, isKept) <- Seq(
        (email, hashed(email), false),
        (hashed(email), hashed(email, "two"), false),
        (email, hashed(column(2, "mail")), false),
        (hashed(email), email, false),
        (hashed(email), hashed(email), true),
        (hashed(email), hashed(column(2, "mail")), true)
      )
    ) {
      val former = Some(users(before))
      def value(text: String) = if (isKept) text else null
      val marked = copy(users(now), TableMode.Marking, rows, former)(Row(3, "c"))
        .marked(areMarked = true)
      assert(shown(marked, "id", now.name, "_deleted_lsn") ==
        Set(Row(1, value("a"), lsn - 1), Row(2, value("b"), 50L), Row(3, "c", null)))
      val merged = copy(users(now), TableMode.Versions, versions, former)(Row(1, "a")).versions
      val expected = Set(Row(2, value("b"), false), Row(1, "a", true)) ++
        Option.unless(isKept)(Row(1, null, false))
      assert(shown(merged, "id", now.name, "_is_current") == expected)
      if (now.name != "email")
        for (found <- Seq(marked, merged))
          assert(shown(found, "email") == Set(Row(null)), "the column with the former name")
    }
    // Without the definition of the rows, only the salts of their hashes are known, or nothing.
    val unknown =
      Seq(
        Map("EMAIL" -> "one") -> true,
        Map("email" -> "two") -> false,
        Map("other" -> "one") -> false,
        Map.empty[String, String] -> false
      )
    for ((hashes, isKept) <- unknown) {
      val rows = copy(users(hashed(email)), TableMode.Versions, versions, None, hashes)().versions
      val values = if (isKept) Seq("a", "b") else Seq(null, null)
      assert(shown(rows, "id", "email") == Set(Row(1, values.head), Row(2, values.last)))
    }
  }

  test("rows do not have the key of the table if it is hashed in another way now") {
    def keyed(email: TableColumn) = table(Seq("email"), email -> StringType, remark -> StringType)
    val target = stored("email STRING, note STRING", TableMode.Versions)(
      joined(Row("hash1", "x"), current),
      joined(Row("hash1", "w"), ended)
    )
    for ((before, now) <- Seq(hashed(email) -> hashed(email, "two"), email -> hashed(email))) {
      val merged =
        copy(keyed(now), TableMode.Versions, target, Some(keyed(before)))(Row("hash2", "x"))
      assert(!merged.hasKey)
      assert(shown(merged.versions, "email", "note", "_from_lsn", "_to_lsn") == Set(
        Row(null, "x", 10L, lsn - 1),
        Row(null, "w", 5L, 10L),
        Row("hash2", "x", lsn - 1, null)
      ))
    }
    val same = keyed(hashed(email))
    assert(copy(same, TableMode.Versions, target, Some(same))(Row("hash1", "x")).hasKey)
  }
}
