package io.sparkpgoutput.changes.batch

import scala.util.Random

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.PropertySuite
import io.sparkpgoutput.changes.rows.{ChangeFormat, ChangeSchema}
import io.sparkpgoutput.changes.transactions.CommitList.Entry
import io.sparkpgoutput.changes.transactions.{AssemblerState, ControlMessageDecoder}
import io.sparkpgoutput.changes.{Captures, Histories, Positioned}
import io.sparkpgoutput.protocol.{StreamContext, TextEncoding}

/** Streams that are read in parts, each by itself. */
class AssembledStreamSuite extends PropertySuite {
  import ChangeSchema._

  /** Cuts at random places into up to 50 parts. */
  private def cut(messages: Seq[Positioned], random: Random): Seq[Seq[Positioned]] = {
    val cuts = Seq.fill(random.nextInt(50))(random.nextInt(messages.size + 1))
    val places = (0 +: cuts :+ messages.size).distinct.sorted
    places.zip(places.drop(1)).map { case (from, until) => messages.slice(from, until) }
  }

  private def assertSame(
      found: BatchChanges,
      expected: BatchChanges,
      format: ChangeFormat
  ): Unit = {
    if (found.rows != expected.rows) {
      assert(BatchChanges.text(found.rows, format) == BatchChanges.text(expected.rows, format))
    }
    assert(found.openShown == expected.openShown)
  }

  /** A format with all fields that do not depend on the position of a message in the stream. */
  private val placeless = BatchChanges.format(fields =
    BatchChanges.allFields.filterNot(Set(ORDINAL, POSITION))
  )
  private val version = placeless.rowType.fieldIndex("_commit_version")

  /** Sorts rows by their commits, and keeps the order of the rows of a commit. */
  private def byCommit(rows: Seq[UnsafeRow]): Seq[UnsafeRow] =
    rows.sortWith((a, b) =>
      java.lang.Long.compareUnsigned(a.getLong(version), b.getLong(version)) < 0
    )

  private def assertSameCommits(found: BatchChanges, expected: BatchChanges): Unit = {
    val (one, other) = (byCommit(found.rows), byCommit(expected.rows))
    if (one != other) {
      assert(BatchChanges.text(one, placeless) == BatchChanges.text(other, placeless))
    }
  }

  test("a stream cut anywhere gives the same changes and open transactions") {
    val format = BatchChanges.format()
    forAll(minSuccessful(200)) { seed: Long =>
      val random = new Random(seed)
      val (_, data) = new Histories(random).streams()
      val end = if (random.nextBoolean()) data.size else random.nextInt(data.size + 1)
      val messages = Positioned.all(data.take(end))
      assertSame(BatchChanges(cut(messages, random)), BatchChanges.whole(messages), format)
    }
  }

  test("a stream read with breaks gives the changes of its history") {
    forAll(minSuccessful(200)) { seed: Long =>
      val (clean, data) = new Histories(new Random(seed)).streams()
      val expected = BatchChanges.whole(Positioned.all(clean), format = placeless)
      assert(expected.open.isEmpty)
      assertSameCommits(BatchChanges.whole(Positioned.all(data), format = placeless), expected)
    }
  }

  /** The relations that are known from earlier messages. */
  private def relationsOf(messages: Seq[Positioned]): AssemblerState = {
    val fields = new ControlMessageDecoder(TextEncoding.Utf8)
    val sent = messages.filter(_.bytes.headOption.contains('R'.toByte)).map {
      case Positioned(position, bytes) =>
        fields.definition(position, bytes, StreamContext.UNKNOWN)
    }
    AssemblerState(definitions = sent.groupBy(_.oid).values.map(_.maxBy(_.position)).toSeq)
  }

  test("a stream that is read in two batches, one after the other, gives the same changes") {
    val format = BatchChanges.format()
    val version = format.rowType.fieldIndex("_commit_version")
    def sorted(rows: Seq[UnsafeRow]) =
      rows.sortWith((a, b) => a.getLong(version) < b.getLong(version))
    forAll(minSuccessful(200)) { seed: Long =>
      val random = new Random(seed)
      // A commit without rows leaves no _commit_version, so its repetition cannot be recognized.
      val histories = new Histories(random, handedOver = true)
      val messages = Positioned.all(histories.streams()._2)
      val (before, behind) = messages.splitAt(random.nextInt(messages.size + 1))
      val first = BatchChanges.whole(before)
      val start = first.open.map(_.transaction.firstPosition).minOption
      val (earlier, again) = before.partition(message => start.forall(message.position < _))
      val second = BatchChanges(
        Seq(again ++ behind),
        BatchChanges.options.copy(after =
          first.rows.map(_.getLong(version)).maxOption.getOrElse(0)
        ),
        format,
        relationsOf(earlier)
      )
      val whole = BatchChanges.whole(messages)
      val both = first.copy(rows = sorted(first.rows ++ second.rows), open = second.open)
      assertSame(both, whole.copy(rows = sorted(whole.rows)), format)
    }
  }

  Captures.names.foreach { name =>
    test(s"$name cut anywhere gives the same changes") {
      val messages = Captures.messages(name)
      // The binary format of a user's type is not known.
      val format = BatchChanges.format().copy(failFast = false)
      val whole = BatchChanges.whole(messages, format = format)
      assert(whole.rows.nonEmpty)
      val random = new Random(name.hashCode)
      assertSame(BatchChanges(cut(messages, random), format = format), whole, format)
    }
  }

  Captures.seams.foreach { name =>
    test(s"$name, read with breaks, gives the changes of its history, cut anywhere or not") {
      val (clean, data) = Captures.seam(name)
      val expected = BatchChanges.whole(clean, format = placeless)
      assert(expected.rows.nonEmpty)
      val whole = BatchChanges.whole(data, format = placeless)
      assertSameCommits(whole, expected)
      val random = new Random(name.hashCode)
      assertSame(BatchChanges(cut(data, random), format = placeless), whole, placeless)
    }
  }
}

class SharedCommitsSuite extends AnyFunSuite {
  private def exist(streams: Seq[Long]*): Boolean =
    SharedCommits.exist(streams.map(_.iterator.map(lsn => Entry(lsn, xid = 1, position = 0))))

  test("a commit that two streams share is found, in any number of streams") {
    assert(!exist())
    assert(!exist(Seq(1, 2)))
    assert(!exist(Seq(1, 4), Nil, Seq(2, 3), Seq(5)))
    assert(exist(Seq(1, 4), Seq(2, 3), Seq(4)))
    assert(exist(Seq(1), Seq(1)))
    assert(exist(Seq(1, 5, 9), Seq(2, 6), Seq(3, 9, 10)))
  }

  test("LSNs are compared unsigned") {
    assert(exist(Seq(1, Long.MaxValue, -2), Seq(Long.MinValue, -2)))
    assert(!exist(Seq(1, -3), Seq(-2)))
  }
}
