package io.sparkpgoutput.lake.target

import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.errors.LakeException
import io.sparkpgoutput.lake.catalog.TableMode

class TargetNamesSuite extends AnyFunSuite {
  private val orders = TableName("public", "orders")
  private val sales = TableName("sales", "orders")

  private def error(body: => Any): String = {
    val caught = intercept[LakeException](body)
    assert(caught.getCondition == "PGOUTPUT_TARGET_NAME")
    caught.getMessage
  }

  test("a table of public keeps its name, and others get their schema in front") {
    assert(
      TargetNames.of(Seq(orders, sales), None, Map.empty) ==
        Map(orders -> "orders", sales -> "sales_orders")
    )
  }

  test("a template names all tables, whatever is in their names") {
    val odd = TableName("{table}", "$1{schema}")
    assert(
      TargetNames.of(Seq(orders, odd), Some("{schema}.{table}"), Map.empty) ==
        Map(orders -> "public.orders", odd -> "{table}.$1{schema}")
    )
  }

  test("an entry names one table, in each notation") {
    val quoted = TableName("Sales", "a.b c")
    Seq("orders", "public.orders", "PUBLIC.Orders").foreach { key =>
      assert(TargetNames.of(Seq(orders, sales), None, Map(key -> "o"))(orders) == "o")
    }
    Seq("Sales.a.b c", "\"Sales\".\"a.b c\"").foreach { key =>
      assert(TargetNames.of(Seq(quoted), None, Map(key -> "o")) == Map(quoted -> "o"))
    }
  }

  test(
    "two tables whose names differ only in case are an error, which names an entry that works"
  ) {
    val upper = TableName("public", "Sales_Orders")
    for (tables <- Seq(Seq(upper, sales), Seq(orders, TableName("public", "Orders")))) {
      val text = error(TargetNames.of(tables, None, Map.empty))
      assert(text.contains(s"${tables(0)} and ${tables(1)}"))
      val entry = """names\.(\S+)=(\w+)""".r.findFirstMatchIn(text).get
      val names = TargetNames.of(tables, None, Map(entry.group(1) -> entry.group(2)))
      assert(names.values.map(_.toLowerCase).toSet.size == 2)
    }
  }

  test("a name that the target cannot have is an error, which names an entry that works") {
    val odd = TableName("public", "a b😀")
    val problem = (name: String) => Option.when(!name.matches("\\w+"))("Only letters.")
    assert(error(TargetNames.of(
      Seq(odd),
      None,
      Map.empty,
      problem
    )).contains("names.public.a b😀=a_b"))
  }

  test("the entry in the error is not the name of another table") {
    val odd = TableName("public", "Sales orders")
    val problem = (name: String) => Option.when(!name.matches("\\w+"))("Only letters.")
    // The names in the target count, not those at the server.
    val tables = Seq(odd, sales, TableName("public", "SALES_ORDERS_2"))
    val text = error(TargetNames.of(tables, None, Map.empty, problem))
    assert(text.contains("names.public.Sales orders=Sales_orders_3"))
  }

  test("the history beside a mirror has a name, too, which no other table can have") {
    val history = TableName("public", "Orders_History")
    val both = TableMode.Both(TableMode.Mirror, TableMode.History("_"))
    val modes = Map(orders -> both).withDefaultValue(TableMode.Mirror)
    def names(tables: Seq[TableName], entries: (String, String)*) =
      TargetNames.of(tables, None, entries.toMap, modes = modes)
    assert(names(Seq(orders, sales))(orders) == "orders")
    for (tables <- Seq(Seq(orders, history), Seq(history, orders))) {
      val text = error(names(tables))
      assert(text.contains(s"tables ${tables(0)} and ${tables(1)} would both be"))
      val entry = """names\.(\S+)=(\w+)""".r.findFirstMatchIn(text).get
      assert(entry.group(1) == tables(1).unambiguous)
      assert(names(tables, entry.group(1) -> entry.group(2)).size == 2)
    }
    val problem = (name: String) => Option.when(name.endsWith("_history"))("It is a view.")
    assert(error(TargetNames.of(Seq(orders), None, Map.empty, problem, modes = modes))
      .contains("cannot be 'orders_history'"))
  }

  test("columns that differ only in case are an error") {
    val text = error(TargetNames.checkColumns(orders, Seq("id", "Id")))
    assert(text.contains("'id' and 'Id'") && text.contains("excludeColumns.public.orders=Id,"))
    TargetNames.checkColumns(orders, Seq("id", "v"))
    // What compares names compares their letters one by one, or whole names in lower case.
    for (names <- Seq(Seq("sınıf", "sinif"), Seq("İd", "id"), Seq("İd", "i\u0307d")))
      error(TargetNames.checkColumns(orders, names))
    TargetNames.checkColumns(orders, Seq("sınıf", "sinifs"))
  }

  test("a column that the job adds to the target is an error, and names the option") {
    def taken(mode: TableMode, column: String) =
      error(TargetNames.checkColumns(orders, Seq("id", column), mode))
    assert(taken(TableMode.Marking, "_DELETED_AT").contains("onDelete.public.orders=delete"))
    assert(taken(TableMode.Marking, "_deleted_lsn").contains("has a column '_deleted_lsn'"))
    assert(taken(TableMode.Versions, "_is_current").contains("mode.public.orders"))
    assert(taken(TableMode.History("_"), "_xid").contains("historyPrefix"))
    val both = TableMode.Both(TableMode.Marking, TableMode.History("_"))
    assert(taken(both, "_xid").contains("historyPrefix"))
    assert(taken(both, "_deleted_at").contains("onDelete.public.orders=delete"))
    Seq(TableMode.Marking -> "_deleted_at", TableMode.Versions -> "_is_current").foreach {
      case (mode, column) =>
        assert(taken(mode, column).contains(s"excludeColumns.public.orders=$column,"))
    }
    assert(taken(
      TableMode.History("a,"),
      "a,xid"
    ).contains("excludeColumns.public.orders=\"a,xid\","))
    TargetNames.checkColumns(orders, Seq("id", "_deleted_at"))
  }

  test("a column that the target cannot have is an error") {
    val problem = (name: String) => Option.when(name == "_deleted")("It has one itself.")
    val columns = Seq("id", "_deleted")
    assert(error(TargetNames.checkColumns(orders, columns, problem = problem)).contains(
      "'_deleted', and the target cannot have it. It has one itself. Rename"
    ))
  }
}
