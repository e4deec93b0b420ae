package io.sparkpgoutput.changes.streaming

import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.expressions.GenericRowWithSchema
import org.apache.spark.sql.types.StructType

import org.scalatest.funsuite.AnyFunSuite

class OldStateSuite extends AnyFunSuite {
  private val follower = OldState.schema("follower").dataType.asInstanceOf[StructType]
  private val transaction = follower("begun").dataType.asInstanceOf[StructType]

  private def row(schema: StructType, values: (String, Any)*): Row = {
    val byName = values.toMap
    new GenericRowWithSchema(schema.fieldNames.map(byName.getOrElse(_, null)), schema)
  }

  private def openSince(position: Long) = row(transaction, "firstPosition" -> position)

  private def state(last: Any, open: (String, Any)*): Row = {
    val none = Seq("streamed" -> Nil, "prepared" -> Nil, "greatestCommit" -> 0x1600000028L)
    row(
      OldState.schema,
      "lastPosition" -> last,
      "follower" -> row(follower, none ++ open: _*)
    )
  }

  test("the error names the first message that a new checkpoint needs, and the last commit") {
    val positions = Seq(
      state(last = 90L) -> 91,
      state(last = null) -> 0,
      state(90L, "begun" -> openSince(80)) -> 80,
      state(90L, "begun" -> openSince(80), "streamed" -> Seq(openSince(70), openSince(60))) -> 60,
      state(90L, "streamed" -> Seq(openSince(70)), "prepared" -> Seq(openSince(5))) -> 5
    )
    for ((kept, next) <- positions) {
      val error = OldState.error(kept)
      assert(error.getCondition == "PGOUTPUT_OLD_CHECKPOINT")
      assert(
        error.getMessage.contains(s"Read the messages from position $next on, and name a view")
      )
      assert(error.getMessage.contains("set the option 'after' to '16/28'"))
    }
  }
}
