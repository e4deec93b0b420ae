package io.sparkpgoutput.lake.catalog

import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.lake.core.SimTable

class MirroredTablesSuite extends AnyFunSuite {
  private val orders = SimTable(16385, "orders", Vector("price")).definition.source

  private def unused(names: String*) =
    MirroredTables.unusedTypes(Seq(orders), names.map(_ -> "STRING").toMap).map(_.getMessage)

  test("a type is given for a column in each spelling of its table") {
    assert(unused("price", "public.orders.price", "\"public\".\"orders\".price").isEmpty)
    assert(unused("amount", "public.order.price").length == 2)
  }
}
