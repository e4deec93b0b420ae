package io.sparkpgoutput.lake.job

import java.nio.ByteBuffer

import scala.util.Using

import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.lake.catalog.{ColumnHiding, HiddenColumns}
import io.sparkpgoutput.lake.core.TableStatus.{Copying, Live}
import io.sparkpgoutput.lake.core.{SimTable, TableState, TableStatus}
import io.sparkpgoutput.source.connection.FakeServer.Rows
import io.sparkpgoutput.source.connection.{FakeServer, ServerClient}
import io.sparkpgoutput.source.slot.Server

class ColumnGuardSuite extends AnyFunSuite {
  private val users = SimTable(1, "users", Vector("id", "email", "ssn")).definition
  private val kept = users.copy(source = users.source.hiding(_.name == "ssn", _ => None))

  /** How many columns of a message are shown, if the catalog has its columns with these numbers. */
  private def shown(status: TableStatus, excluded: String*)(
      version: Int,
      columns: (Int, String)*
  ): Int = {
    val rows = columns.map { case (number, name) =>
      Seq(
        "attnum" -> number.toString,
        "attname" -> name,
        "version" -> version.toString,
        "snapshot" -> "900:900:",
        "in_recovery" -> "f"
      )
    }
    val server = new FakeServer({
      case (_, sql) if sql.contains("pg_attribute") => Rows(rows: _*)
    })
    Using.resources(server, new ServerClient(server.address, "test")) { (_, client) =>
      val known = Server("7", 1, "shop", 18, 8192, inRecovery = false, "2026-01-01")
      val guard = new ColumnGuard(
        ColumnHiding(Map("users" -> HiddenColumns(excluded))),
        new ServerCatalog(client, known, ReplicateOptions(), null),
        client,
        _ => Some(TableState(kept, status, generation = 1))
      )
      val cells = guard.cells(1, users.source.name, columns.map(_._2), Some(800)).get
      val insert = ByteBuffer.allocate(8 + columns.length).put('I'.toByte).putInt(1)
        .put('N'.toByte).putShort(columns.length.toShort)
      columns.foreach(_ => insert.put('n'.toByte))
      ByteBuffer.wrap(cells.change(insert.array)).getShort(6).toInt
    }
  }

  test("the hidden columns of a live table are those of its copy, and nobody has altered them") {
    assert(shown(Live, "ssn")(0, 0 -> "id", 1 -> "email", 2 -> "ssn") == 2)
    assert(shown(Live, "ssn")(1, 0 -> "id", 1 -> "email", 2 -> "ssn") == 0)
    assert(shown(Live, "ssn")(0, 0 -> "id", 1 -> "email", 2 -> "x") == 0)
    assert(shown(Live, "ssn")(0, 0 -> "id", 1 -> "email", 2 -> "x", 3 -> "ssn") == 0)
  }

  test("while a table waits for its snapshot, no column that was hidden shows under another name") {
    val waits = Copying("asked")
    // The column was altered, for example, and the table is copied because of that.
    assert(shown(waits, "ssn")(1, 0 -> "id", 1 -> "email", 2 -> "ssn") == 2)
    assert(shown(waits, "ssn")(0, 0 -> "id", 1 -> "email", 2 -> "x", 3 -> "ssn") == 0)
    assert(shown(waits, "ssn", "x")(0, 0 -> "id", 1 -> "email", 2 -> "x", 3 -> "ssn") == 2)
    // The column was dropped, and made again.
    assert(shown(waits, "ssn")(0, 0 -> "id", 1 -> "email", 3 -> "ssn") == 2)
    assert(shown(Copying("asked", Some(100)), "ssn")(1, 0 -> "id", 1 -> "email", 2 -> "ssn") == 0)
  }
}
