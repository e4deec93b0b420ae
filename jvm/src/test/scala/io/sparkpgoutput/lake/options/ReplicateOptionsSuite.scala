package io.sparkpgoutput.lake.options

import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.lake.LakeException

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

  test("a property of the tables is one that Spark lets users set") {
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
}
