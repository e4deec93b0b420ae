package io.sparkpgoutput.changes.streaming

import java.lang.reflect.Proxy

import org.apache.spark.sql.Row
import org.apache.spark.sql.streaming.{StatefulProcessorHandle, ValueState}

import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.changes.StreamMessages._
import io.sparkpgoutput.changes.transactions.AssemblerOptions
import io.sparkpgoutput.protocol.TextEncoding

class InitialStateSuite extends AnyFunSuite {
  private val options = AssemblerOptions(0, skipIncomplete = false, TextEncoding.Utf8)

  /** The state of one source in memory. */
  private class StoredState {
    private val variables = Map("state" -> new Variable, "chunks" -> new KeptInMemory) ++
      Map("xids" -> new KeptInMemory, "lsns" -> new KeptInMemory)

    private class Variable extends ValueState[Array[Byte]] {
      private var value = Option.empty[Array[Byte]]
      override def exists(): Boolean = value.isDefined
      override def get(): Array[Byte] = value.get
      override def update(now: Array[Byte]): Unit = value = Some(now)
      override def clear(): Unit = value = None
    }

    private val handle = Proxy.newProxyInstance(
      getClass.getClassLoader,
      Array(classOf[StatefulProcessorHandle]),
      (_, _, arguments) => variables.getOrElse(arguments(0).toString, new Variable)
    )

    val store = new SourceStore(handle.asInstanceOf[StatefulProcessorHandle])

    /** The messages that one micro-batch commits. */
    def batch(messages: (Long, Array[Byte])*): Seq[(Long, Array[Byte])] = {
      val batch = new SourceBatch("s", options, Set.empty, store)
      val found = messages.iterator.flatMap { case (position, message) =>
        batch.message(position, message)
      }
      val all = found.map(row => row.getLong(0) -> row.getAs[Array[Byte]](1)).toList
      batch.end()
      all
    }
  }

  private def row(position: Long, name: String, source: String = "s") =
    Row(position, relation(name = name), source)

  private def changed(rows: Row*) = InitialState.changesOf(rows.iterator, TextEncoding.Utf8).toSeq

  test("the initial state has each definition that a table had, without repetitions") {
    val rows = Seq("v", "v", "w", "w", "v").zipWithIndex.map { case (name, at) =>
      row(at.toLong, name)
    }
    assert(changed(rows: _*).map(_.getLong(0)) == Seq(0, 2, 4))
    assert(changed(row(1, "v"), row(2, "v"), row(1, "v", "other")).map(_.getLong(0)) == Seq(1, 1))
  }

  test("a stream takes no definition that comes after its first message") {
    val rows = Seq(row(200, "new"), row(50, "old"), row(10, "oldest"))
    val stored = new StoredState
    val state = InitialState.state(Row("s", rows), TextEncoding.Utf8)
    stored.store.update(SourceState(assembler = state))
    val first = stored.batch(100L -> begin(1, 10), 101L -> insert("1"), 102L -> commit(10))
    assert(first.map(_._1) == Seq(50, 101))
    val second = stored.batch(
      198L -> begin(2, 20),
      199L -> insert("2"),
      200L -> relation(name = "new"),
      201L -> insert("3"),
      202L -> commit(20)
    )
    assert(second.map(_._1) == Seq(50, 199, 200, 201))
  }
}
