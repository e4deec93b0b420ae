package io.sparkpgoutput.lake.job

import java.time.Duration

import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.errors.LakeException
import io.sparkpgoutput.lake.catalog.{HiddenColumns, TableMode}

class ReplicateOptionsSuite extends AnyFunSuite {

  private def parsed(entries: (String, String)*) =
    ReplicateOptions.parse(
      Seq(
        "url" -> "jdbc:postgresql://localhost/shop",
        "slot" -> "lake",
        "publication" -> "shop",
        "target" -> "lakehouse.shop",
        "checkpoint" -> "/tmp/shop"
      ) ++ entries
    )

  test("a property of the tables must be one that Spark lets users set") {
    val properties = Map("delta.appendOnly" -> "it's \\ ${x}", "team" -> "mine")
    assert(parsed(properties.toSeq.map { case (name, value) => s"property.$name" -> value }: _*)
      .tableProperties == properties)
    for (name <- Seq("owner", "location", "provider", "external")) {
      val error = intercept[LakeException](parsed(s"property.$name" -> "x"))
      assert(error.getMessage.contains(
        s"The option 'property.$name' is a property that Spark sets itself. Leave it out."
      ))
    }
  }

  private def refused(entries: (String, String)*) =
    intercept[LakeException](parsed(entries: _*)).getMessage

  test("a property that would make Delta forget a mark is refused") {
    assert(refused("property.delta.setTransactionRetentionDuration" -> "interval 1 hour")
      .contains("Delta would remove the mark"))
  }

  test("two entries of an option that can mean one table are refused") {
    for (option <- Seq("names", "mode", "onDelete", "partition", "cluster")) {
      val value = Map("mode" -> "both", "onDelete" -> "mark").getOrElse(option, "x")
      for (other <- Seq("public.orders", "PUBLIC.Orders", "\"orders\"")) {
        val text = refused(s"$option.orders" -> value, s"$option.$other" -> value)
        assert(text.contains(s"'$option.orders'") && text.contains(s"'$option.$other'"), text)
        assert(text.contains("can both mean the table public.orders. Leave one out"), text)
      }
    }
    val options =
      parsed("names.\"a.b\".c" -> "x", "names.a.\"b.c\"" -> "y", "mode.orders" -> "both")
    assert(options.names.size == 2)
    parsed("names.orders" -> "x", "names.\"Orders\"" -> "y", "names.sales.orders" -> "z")
  }

  test("a request that can mean two tables is refused, and shows their names in quotes") {
    val tables = Seq(TableName("a.b", "c"), TableName("a", "b.c"), TableName("public", "Orders"))
    def named(text: String*) = ResyncCommand.named(text, tables)
    assert(named("\"a.b\".\"c\"", "a.\"b.c\"") == tables.take(2))
    assert(tables.forall(table => named(table.unambiguous) == Seq(table)))
    assert(intercept[LakeException](named("a.b.c")).getMessage.contains(
      "The name a.b.c can mean several tables of the job. Write one of \"a\".\"b.c\", \"a.b\".\"c\"."
    ))
    assert(named("Orders") == tables.drop(2))
    val cases = tables :+ TableName("public", "orders")
    assert(ResyncCommand.named(Seq("public.Orders", "orders"), cases) == cases.drop(2))
    assert(intercept[LakeException](ResyncCommand.named(Seq("Orders"), cases))
      .getMessage.contains("several tables"))
    assert(intercept[LakeException](named("x")).getMessage.contains(
      "The job has no table x. Its tables are \"a\".\"b.c\", \"a.b\".\"c\", \"public\".\"Orders\"."
    ))
  }

  test("the defaults are those that the list describes") {
    val declared = ReplicateOptions.list.specs.map(spec => spec.name -> spec.default)
    // A default that is not a value of the option is in words, such as "no file".
    val values = declared.filterNot { case (_, default) =>
      default == "required" || default.contains(' ')
    }
    assert(values.length > 20)
    values.foreach(entry => assert(parsed(entry) == parsed(), entry))
    val options = parsed()
    assert(options.maxHeldWal == 10L * 1024 * 1024 * 1024)
    assert(options.queueDisk == 20L * 1024 * 1024 * 1024)
    assert(options.maxBytesPerCommit == 1024L * 1024 * 1024)
    assert(options.interval == Duration.ofSeconds(1) && options.retryFor == Duration.ofMinutes(10))
    assert(options.skips)
  }

  test("a table has the shape of its options, which can name it in each notation") {
    val options = parsed(
      "partition.events" -> "days(at), bucket(16, id)",
      "cluster.public.events" -> "id,at",
      "cluster.\"S\".a" -> "x"
    )
    val shape = options.shapeOf(TableName("public", "events"))
    assert(shape.toString == "partition days(at), bucket(16, id); cluster id, at")
    assert(options.shapeOf(TableName("S", "a")).cluster == Seq("x"))
    assert(options.shapeOf(TableName("x", "events")).isNone)
    assert(options.ofTables == Seq(
      "partition" -> "events",
      "cluster" -> "\"S\".a",
      "cluster" -> "public.events"
    ))
    assert(refused("partition.events" -> "days(").contains("'days(' is not valid for the option"))
    assert(refused("cluster.events" -> "days(at)").contains("columns, with commas between them"))
    assert(refused("cluster." -> "a").contains("lacks a name after the point"))
  }

  test("patterns of excluded tables match the schema and the name of a table") {
    val options =
      parsed("excludeTables" -> "staging.*, public.tmp_*,log,*.t?st, \"public.a b,c\", s.a+(x)")
    def excludes(namespace: String, name: String) = options.excludes(TableName(namespace, name))
    for (
      table <- Seq("staging.a", "public.tmp_1", "public.log", "x.test", "public.a b,c", "s.a+(x)")
    ) {
      val Array(namespace, name) = table.split("\\.", 2)
      assert(excludes(namespace, name), table)
    }
    assert(excludes("staging", "a\nb"))
    for (
      table <- Seq("public.a", "stagings.a", "x.log", "x.tst", "public.tmp", "Staging.a", "s.aa(x)")
    ) {
      val Array(namespace, name) = table.split("\\.", 2)
      assert(!excludes(namespace, name), table)
    }
    assert(!parsed().excludes(TableName("public", "a")))
    assert(
      refused("excludeTables" -> "a,,b").contains("is not valid for the option 'excludeTables'")
    )
  }

  test("hashed columns need a salt, and no column can be both excluded and hashed") {
    val variable = sys.env.find(_._2.nonEmpty).get._1
    val options = parsed(
      "excludeColumns.users" -> "ssn, \"a,b\"",
      "hashColumns.public.users" -> "email",
      "hashSaltVariable" -> variable
    )
    val users = options.hiding.of(TableName("public", "users")).get
    assert(users == HiddenColumns(Seq("ssn", "a,b"), Seq("email")))
    assert(options.hiding.of(TableName("sales", "users")).isEmpty)
    assert(options.source.hiding == options.hiding)
    assert(refused("hashColumns.users" -> "email").contains("needs a salt"))
    assert(refused(
      "excludeColumns.users" -> "ssn",
      "hashColumns.users" -> "ssn",
      "hashSaltVariable" -> variable
    ).contains("exclude and hash the column 'ssn'"))
    assert(refused("excludeColumns.users" -> "a,").contains("not valid"))
    assert(refused("hashSaltFile" -> "/no/such/file").contains("has no salt: "))
    assert(refused("hashSaltVariable" -> "NO_SUCH_VARIABLE_1").contains("is not set"))
  }

  test(
    "the options mode and onDelete of a table decide its mode, and onDelete of all tables otherwise"
  ) {
    val options = parsed(
      "onDelete" -> "mark",
      "onDelete.orders" -> "delete",
      "mode.log" -> "history",
      "mode.people" -> "Versions",
      "mode.sales.lines" -> "both",
      "mode.sales.orders" -> "Both",
      "onDelete.sales.orders" -> "delete",
      "onDelete.sales.lines" -> "Mark"
    )
    def mode(namespace: String, name: String) = options.modeOf(TableName(namespace, name))
    assert(mode("public", "customers") == TableMode.Marking)
    assert(mode("public", "orders") == TableMode.Mirror)
    assert(mode("public", "log") == TableMode.History("_"))
    assert(mode("public", "people") == TableMode.Versions)
    assert(options.namesMode(TableName("public", "people")))
    assert(!options.namesMode(TableName("sales", "people")))
    val history = TableMode.History("_")
    assert(mode("sales", "lines") == TableMode.Both(TableMode.Marking, history))
    assert(mode("sales", "orders") == TableMode.Both(TableMode.Mirror, history))
    assert(options.asksToMark(TableName("sales", "lines")))
    assert(!options.asksToMark(TableName("public", "customers")))
    assert(parsed().modeOf(TableName("public", "orders")) == TableMode.Mirror)
    assert(refused("onDelete.orders" -> "keep").contains("delete, mark"))
  }

  test("times and sizes have units") {
    val options = parsed(
      "interval" -> "500ms",
      "retryFor" -> "0s",
      "maxHeldWal" -> "512m",
      "queueDisk" -> "3g",
      "maxBytesPerCommit" -> "1"
    )
    assert(options.interval == Duration.ofMillis(500) && options.retryFor.isZero)
    assert(options.maxHeldWal == 512L << 20 && options.queueDisk == 3L << 30)
    assert(options.maxBytesPerCommit == 1)
    for (wrong <- Seq("5", "-5s", "soon", "", "5 parsecs", "9999999999999999d"))
      assert(
        refused("interval" -> wrong).contains(s"'$wrong' is not valid for the option 'interval'")
      )
    for (wrong <- Seq("0", "-1g", "much", "", "20%"))
      assert(
        refused("queueDisk" -> wrong).contains(s"'$wrong' is not valid for the option 'queueDisk'")
      )
  }

  test("numbers have ranges") {
    for ((name, least, most) <- Seq(("parallelTables", 1, 100), ("retainVersions", 100, 1000000))) {
      for (right <- Seq(least, most)) parsed(name -> right.toString): Unit
      for (wrong <- Seq(least - 1, most + 1))
        assert(refused(name -> wrong.toString).contains(s"$least to $most"))
    }
    assert(parsed("retainVersions" -> "100").retainVersions == 100)
  }

  test("the memory of the queues is a size or a share of the heap") {
    val heap = Runtime.getRuntime.maxMemory
    assert(parsed("queueMemory" -> "64m").queueMemory == 64L << 20)
    assert(parsed("queueMemory" -> "50%").queueMemory == heap / 100 * 50)
    assert(parsed().queueMemory == heap / 100 * 20)
    for (wrong <- Seq("0%", "100%", "120%", "0", "-5%", "half"))
      assert(refused("queueMemory" -> wrong).contains("or a share such as 20%"))
  }

  test("an error of a table isolates the table, or stops the job") {
    assert(refused("onTableError" -> "ignore").contains("isolate, stop"))
    assert(!parsed("onTableError" -> "STOP").skips && parsed("onTableError" -> "Isolate").skips)
  }

  test("the server's options need no target and no checkpoint") {
    val entries =
      java.util.Map.of("url", "jdbc:postgresql://h/shop", "slot", "s", "publication", "p")
    assert(ReplicateOptions.ofServer(entries).slot == "s")
  }
}
