package io.sparkpgoutput.lake.target

import org.apache.spark.sql.types._

import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.lake.catalog.{
  MirroredTable,
  ReplicaIdentity,
  SourceTable,
  TableChange,
  TableColumn,
  TableComparison,
  TableMode,
  TableShape
}
import io.sparkpgoutput.lake.core.{NextDefinition, TableState, TableStatus}
import io.sparkpgoutput.types.registry.TypeRegistry

class TableEvolutionSuite extends AnyFunSuite {
  private def column(number: Int, name: String) =
    TableColumn(number, name, 23, -1, version = 7, hasMissing = false)

  private def table(columns: (TableColumn, DataType)*) = MirroredTable(
    SourceTable(
      16400,
      TableName("public", "orders"),
      columns.map(_._1),
      Nil,
      Seq("id"),
      ReplicaIdentity.Default,
      SourceTable.Operations,
      None,
      1,
      isPartitioned = false,
      Nil,
      8
    ),
    "lake_orders",
    StructType(columns.map { case (column, dataType) => StructField(column.name, dataType) }),
    TypeRegistry()
  )

  private val id = column(1, "id")
  private val price = column(2, "price")
  private val remark = column(3, "remark")

  private val state = TableState(
    table(id -> IntegerType, price -> StringType, remark -> StringType),
    TableStatus.Live,
    formerNames = Map("old" -> "price"),
    generation = 1,
    mark = Some(5)
  )

  private def followed(next: NextDefinition) =
    state.copy(table = next.table, formerNames = next.formerNames)

  test("a column that was added and dropped between two looks can have the name of a later one") {
    def source(attributes: Int, columns: (TableColumn, DataType)*) = {
      val found = table(columns: _*)
      found.copy(source = found.source.copy(attributes = attributes))
    }
    val columns = Seq(id -> IntegerType, price -> StringType)
    val kept = state.copy(table = source(2, columns: _*))
    val next = TableEvolution.next(kept, source(3, columns: _*), Nil).table.source
    val later = source(4, columns :+ (column(4, "added") -> IntegerType): _*).source
    assert(TableComparison.compare(next, later, Set.empty).left.exists(_.contains(
      "dropped before the column 'added' was added"
    )))
  }

  test(
    "columns are added, renamed, widened and dropped, and others keep the types that they have"
  ) {
    val cost = price.copy(name = "cost")
    val added = column(4, "added")
    val now = table(id -> LongType, cost -> DecimalType(12, 2), added -> DateType)
    val changes = Seq(
      TableChange.ColumnDropped(remark),
      TableChange.ColumnRenamed(price, cost),
      TableChange.ColumnWidened(id, id),
      TableChange.ColumnWidened(price, cost),
      TableChange.ColumnAdded(added)
    )
    val next = TableEvolution.next(state, now, changes)
    assert(
      next.table.schema == StructType(
        Seq(
          StructField("id", LongType),
          StructField("cost", StringType), // the type that the option types asks for
          StructField("added", DateType)
        )
      )
    )
    assert(next.table.target == "lake_orders")
    assert(next.formerNames == Map("old" -> "cost", "price" -> "cost", "remark" -> "remark"))
    assert(
      TableEvolution.columns(state.table, next.table) == Seq(
        ColumnChange.Rename("price", "cost"),
        ColumnChange.Widen("id", LongType),
        ColumnChange.Add("added", DateType)
      )
    )
    assert(
      TableEvolution.columns(state.table, next.table).map(_.text) == Seq(
        "the column 'price' has the name 'cost' now",
        "the column 'id' has the type BIGINT now",
        "the column 'added' of the type DATE is new"
      )
    )
  }

  test("a table is copied if the options of a start give a column another type, or none any more") {
    def reason(price: DataType, changes: TableChange*) = {
      val now = table(id -> LongType, this.price -> price, remark -> StringType)
      TableEvolution.otherType(TableEvolution.next(state, now, changes).table, now)
    }
    val widened = TableChange.ColumnWidened(id, id)
    assert(reason(StringType, widened).isEmpty)
    assert(reason(DoubleType, widened).exists(
      _.contains("give the column 'price' the type DOUBLE, and the target has STRING")
    ))
    assert(reason(StringType).exists(_.contains("the column 'id'")))
  }

  test("a history keeps the values of columns whose type changes, under another name") {
    val has = new StructType().add("ID", IntegerType).add("price", StringType).add("gone", DateType)
    val wanted = new StructType().add("id", IntegerType).add("price", LongType).add("new", DateType)
    val expected = Seq(
      ColumnChange.Rename("price", "price_before_2"),
      ColumnChange.Add("price", LongType),
      ColumnChange.Add("new", DateType)
    )
    assert(TableEvolution.keep(has, wanted, 2)(_ => true) == expected)
    // A job that ended after the first change goes on.
    val renamed = new StructType().add("ID", IntegerType).add("price_before_2", StringType)
    assert(TableEvolution.keep(renamed, wanted, 2)(_ => true) == expected.tail)
  }

  test("a history widens a column whose new type takes all values that it has") {
    def single(dataType: DataType) = new StructType().add("n", dataType)
    for (
      (narrow, wide) <- Seq(
        ShortType -> IntegerType,
        ShortType -> LongType,
        IntegerType -> LongType,
        FloatType -> DoubleType,
        DecimalType(8, 2) -> DecimalType(9, 2)
      )
    ) {
      val widened = TableEvolution.keep(single(narrow), single(wide), 2)(_ => true)
      assert(widened == Seq(ColumnChange.Widen("n", wide)))
      val narrowed = TableEvolution.keep(single(wide), single(narrow), 2)(_ => true)
      assert(narrowed == Seq(ColumnChange.Rename("n", "n_before_2"), ColumnChange.Add("n", narrow)))
      val refused = TableEvolution.keep(single(narrow), single(wide), 2)(_ => false)
      assert(refused == Seq(ColumnChange.Rename("n", "n_before_2"), ColumnChange.Add("n", wide)))
    }
  }

  test("the table is copied again if a new column has the name of one that was dropped long ago") {
    val without = table(id -> IntegerType, price -> StringType)
    val next = TableEvolution.next(state, without, Seq(TableChange.ColumnDropped(remark)))
    Seq("remark" -> true, "Remark" -> true, "another" -> false).foreach { case (name, isCopied) =>
      val now =
        table(id -> IntegerType, price -> StringType, column(4, name) -> StringType).source
      val found = TableComparison.compare(without.source, now, followed(next).columnNames)
      assert(found.isLeft == isCopied, name)
    }
  }

  test("the table is copied again if only the case of a name changes") {
    val now = table(id -> IntegerType, price.copy(name = "Price") -> StringType).source
    val before = table(id -> IntegerType, price -> StringType).source
    assert(TableComparison.compare(before, now, state.columnNames).isLeft)
  }

  private def shape(partition: String, cluster: String*) =
    TableShape(TableShape.partition(partition).get, cluster)

  test("a table is copied if the options give it another shape") {
    val shaped = state.table.copy(shape = shape("price", "id"))
    assert(TableEvolution.otherShape(shaped, shaped).isEmpty)
    val others = Seq(shape("id", "id"), shape("price"), TableShape.none, shape("price, id", "id"))
    others.foreach { other =>
      val reason = TableEvolution.otherShape(shaped, shaped.copy(shape = other)).get
      assert(
        reason.contains(s"the shape ($other), and it has the shape (partition price; cluster id)")
      )
    }
  }

  test("the options can name columns of the shape by their earlier names, also dropped columns") {
    val kept = state.copy(table = state.table.copy(shape = shape("days(price), remark", "price")))
    val cost = price.copy(name = "cost")
    val now = table(id -> IntegerType, cost -> StringType)
    Seq("old", "price", "cost").foreach { name =>
      val wanted = shape(s"days($name), remark", name)
      val same = TableEvolution.sameShape(kept, now.source, wanted)
      assert(same.contains(shape("days(cost), remark", "cost")))
      val next = TableEvolution.next(
        kept,
        now.copy(shape = same.get),
        Seq(TableChange.ColumnRenamed(price, cost), TableChange.ColumnDropped(remark))
      )
      assert(TableEvolution.otherShape(kept.table, next.table).isEmpty)
      assert(next.table.shape == same.get)
    }
    Seq(shape("days(id), remark", "old"), shape("days(old)", "old"), TableShape.none)
      .foreach(other => assert(TableEvolution.sameShape(kept, now.source, other).isEmpty))
    // A column that has a name now is meant, even if another column had it before.
    val added = table(id -> IntegerType, cost -> StringType, column(4, "old") -> StringType)
    assert(TableEvolution.sameShape(kept, added.source, shape("days(old), remark", "old")).isEmpty)
  }

  test("a table is copied if a column of its partitioning gets a wider type") {
    def reason(wider: TableColumn) = {
      val kept = state.copy(table = state.table.copy(shape = shape("id", "price")))
      val now = table(id -> LongType, price -> StringType, remark -> StringType)
        .copy(shape = kept.table.shape)
      val next = TableEvolution.next(kept, now, Seq(TableChange.ColumnWidened(wider, wider)))
      TableEvolution.otherShape(kept.table, next.table)
    }
    assert(reason(id).exists(_.contains("partitions by the column 'id', which has another type")))
    assert(reason(price).isEmpty)
  }

  test("without changes, the definition stays the same") {
    val next = TableEvolution.next(state, state.table, Nil)
    assert(next == NextDefinition(state.table, state.formerNames))
    assert(TableEvolution.columns(state.table, next.table) == Nil)
  }

  test("a job that ended between two changes of the target makes the same changes again") {
    val cost = price.copy(name = "cost")
    val now = table(id -> LongType, cost -> StringType)
    val changes =
      Seq(
        TableChange.ColumnDropped(remark),
        TableChange.ColumnRenamed(price, cost),
        TableChange.ColumnWidened(id, id)
      )
    val next = TableEvolution.next(state, now, changes)
    // The state has both definitions until the target has all columns.
    assert(
      TableEvolution.columns(state.table, next.table) ==
        Seq(ColumnChange.Rename("price", "cost"), ColumnChange.Widen("id", LongType))
    )
    assert(TableEvolution.columns(next.table, next.table) == Nil)
  }

  test("the columns for deleted rows are added, and other changes of the mode can need a copy") {
    val marking = state.table.copy(mode = TableMode.Marking)
    val next = TableEvolution.next(state, marking, Nil)
    assert(next.table == marking)
    assert(TableEvolution.columns(state.table, next.table) == Seq(
      ColumnChange.Add("_deleted_at", TimestampType),
      ColumnChange.Add("_deleted_lsn", LongType)
    ))
    assert(TableEvolution.columns(marking, marking).isEmpty)
    assert(TableEvolution.otherMode(state.table, marking).isEmpty)
    assert(TableEvolution.otherMode(marking, marking).isEmpty)
    assert(TableEvolution.otherMode(marking, state.table).exists(_.contains("onDelete")))
    val both = state.table.copy(mode = TableMode.Both(TableMode.Mirror, TableMode.History("_")))
    assert(TableEvolution.otherMode(state.table, both).exists(_.contains("a history beside")))
    assert(TableEvolution.otherMode(both, state.table).isEmpty)
    assert(TableEvolution.columns(both, state.table).isEmpty)
  }
}
