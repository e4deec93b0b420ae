package io.sparkpgoutput.lake.catalog

import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.changes.TableName

class MirroredTablesSuite extends AnyFunSuite {
  private val orders = SourceTable(
    oid = 16385,
    name = TableName("public", "orders"),
    columns = IndexedSeq(TableColumn(1, "price", 1700, -1, 738, hasMissing = false)),
    unsent = Nil,
    key = Seq("price"),
    identity = ReplicaIdentity.Default,
    publish = SourceTable.Operations,
    rowFilter = None,
    fileNode = 16385,
    isPartitioned = false,
    leaves = Nil,
    horizon = 745,
    attributes = 1
  )

  private def unused(names: String*) =
    MirroredTables.unusedTypes(Seq(orders), names.map(_ -> "STRING").toMap).map(_.getMessage)

  test("a type is given for a column in each spelling of its table") {
    assert(unused("price", "public.orders.price", "\"public\".\"orders\".price").isEmpty)
    assert(unused("amount", "public.order.price").length == 2)
  }
}
