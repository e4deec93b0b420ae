package io.sparkpgoutput.lake.copy

import scala.util.Using

import org.apache.spark.sql.types.StructType

import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.errors.{LakeException, PgOutputException}
import io.sparkpgoutput.lake.catalog.TableColumn
import io.sparkpgoutput.lake.core.SimTable
import io.sparkpgoutput.source.connection.FakeServer
import io.sparkpgoutput.source.connection.FakeServer._

class CopyReaderSuite extends AnyFunSuite {
  private val table = SimTable(7, "orders", Vector("id")).definition
  private val range = CopyRange(7, TableName("public", "a \"b\".c"), 70, 0, None, 0)

  /** What a task of a copy meets if its name leads to a table with an oid and a file once it is locked. */
  private def errorOf(oid: String, file: String): Throwable = {
    val server = new FakeServer({
      case (_, sql) if sql.contains("to_regclass") =>
        if (sql.contains("\"public\".\"a \"\"b\"\".c\"")) Rows(Seq("oid" -> oid, "file" -> file))
        else Failure("42601")
      // Another session has given the table another name, and its file is the same.
      case (_, sql) if sql.contains("pg_relation_filenode") => Rows(Seq("file" -> "70"))
      case (_, sql) if sql.contains("pg_current_snapshot")  => Rows(Seq("sees" -> "9:9:"))
      case (_, sql) if sql.startsWith("COPY")               => Failure("58030")
      case (_, sql)
          if sql.startsWith("SET") || sql.startsWith("BEGIN") || sql.contains("LIMIT 0") =>
        Rows(Seq("done" -> ""))
    })
    val snapshot = SharedSnapshot("a snapshot", sees = "9:9:")
    val settings = CopySettings(CopySource(server.address, "test", Nil), snapshot, table)
    Using.resource(server)(_ => intercept[Throwable](new CopyReader(settings, range)))
  }

  test("a text that is not valid UTF-8 is an error that names the column") {
    val columns = Seq("id" -> 23L, "kind" -> 18L, "kinds" -> 1002L).zipWithIndex.map {
      case ((name, oid), number) => TableColumn(number, name, oid, -1, 0, hasMissing = false)
    }
    val schema = StructType.fromDDL("id INT, kind STRING, kinds STRING")
    val copied = table.copy(source = table.source.copy(columns = columns), schema = schema)
    val settings = CopySettings(CopySource(null, "test", Nil), SharedSnapshot("", ""), copied)
    val rows = new CopyRows(settings)
    // The letter X stands for a byte that PostgreSQL 14 prints as it is.
    def bytesOf(text: String) =
      s"$text\n".getBytes("UTF-8").map(byte => if (byte == 'X') -23.toByte else byte)
    assert(rows.row("1\ta\t{ä}\n".getBytes("UTF-8")).getString(2) == "{ä}")
    assert(rows.row(bytesOf("1\tX\t{ä}")).getString(1) == "\\351")
    for (text <- Seq("1\ta\t{X}", "1\tX\t{ä,X}")) {
      val error = intercept[PgOutputException](rows.row(bytesOf(text)))
      assert(error.getCondition == "PGOUTPUT_INVALID_VALUE")
      assert(error.getMessage.contains("excludeColumns.public.orders=kinds"), error.getMessage)
    }
  }

  test(
    "a task reads no other table that has got the name, and no file that the snapshot did not see"
  ) {
    assert(errorOf("7", "70").getMessage.contains("58030"), "it reads the right table")
    for ((oid, file) <- Seq("8" -> "70", "8" -> "80", "7" -> "80", (null, null)))
      errorOf(oid, file) match {
        case found: LakeException => assert(found.getCondition == "PGOUTPUT_COPY_INTERRUPTED")
        case other                => fail(other)
      }
  }
}
