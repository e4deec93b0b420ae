package io.sparkpgoutput.lake.target

import java.nio.file.Files
import java.time.ZoneOffset.UTC

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.util.{CharVarcharUtils, DateTimeUtils}
import org.apache.spark.sql.pgoutput.{LocalRows, RowsOfRdd}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

import io.sparkpgoutput.DeltaTests
import io.sparkpgoutput.lake.core.MarkName
import io.sparkpgoutput.lake.direct._

/** The files of tables of Delta, with their bounds. */
class DeltaFilesSuite extends DeltaTests {
  private val name = MarkName("job", 1, 0)

  private def text(json: String) = DeltaBounds.Reader.readTree(json)

  /** Returns whether the bounds of a file allow a value. */
  private def allows(dataType: DataType, bounds: Option[(Any, Any)], value: Any) =
    bounds.forall(KeyColumn.of(dataType).get.among(Vector(InternalRow(value)), 0).get.tupled)

  test("bounds of numbers and times are moved out by more than their error") {
    def bounds(dataType: DataType, json: String) = for {
      least <- DeltaBounds.of(dataType, text(json), -1)
      most <- DeltaBounds.of(dataType, text(json), 1)
    } yield (least, most)
    def micros(time: String) = DateTimeUtils.stringToTimestamp(UTF8String.fromString(time), UTC).get
    def isExact(dataType: DataType, json: String, inside: Seq[Any], outside: Seq[Any]): Unit = {
      val found = bounds(dataType, json)
      assert(found.nonEmpty, json)
      inside.foreach(value => assert(allows(dataType, found, value), s"$json $value"))
      outside.foreach(value => assert(!allows(dataType, found, value), s"$json $value"))
    }
    def decimals(dataType: DecimalType, values: String*) =
      values.map(value => Decimal(BigDecimal(value), dataType.precision, dataType.scale))
    val long = DecimalType(38, 4)
    isExact(
      DecimalType(9, 2),
      "-5.1",
      decimals(DecimalType(9, 2), "-5.10"),
      decimals(DecimalType(9, 2), "-5.11", "-5.09", "5.1")
    )
    isExact(
      DecimalType(9, 2),
      "0",
      decimals(DecimalType(9, 2), "0"),
      decimals(DecimalType(9, 2), "0.01", "-0.01")
    )
    isExact(
      DecimalType(18, 0),
      "999999999999",
      decimals(DecimalType(18, 0), "999999999999"),
      decimals(DecimalType(18, 0), "999999999998", "1000000000000")
    )
    // As a double, this number is another one.
    val digits = "9999999999999999999999999999999999.9999"
    for (json <- Seq(digits, digits.toDouble.toString, s"-$digits", s"-${digits.toDouble}")) {
      val value = if (json.startsWith("-")) s"-$digits" else digits
      isExact(long, json, decimals(long, value), decimals(long, "0", value.dropRight(30)))
    }
    Seq("\"1.5\"", "null", "{}").foreach(json => assert(bounds(long, json).isEmpty))
    assert(DeltaBounds.of(long, text("{}").path("a"), 1).isEmpty)

    for (dataType <- Seq(TimestampType, TimestampNTZType)) {
      val zone = if (dataType == TimestampType) "Z" else ""
      val now = micros("2026-01-01T00:00:00.123Z")
      isExact(
        dataType,
        s""""2026-01-01T00:00:00.123$zone"""",
        Seq(now, now + 999),
        if (dataType == TimestampType) Seq(now - 60000001, now + 60001001)
        else Seq(now - 1, now + 1001)
      )
      val before = micros("1969-12-31T23:59:59.999Z")
      isExact(
        dataType,
        s""""1969-12-31T23:59:59.999$zone"""",
        Seq(before, before + 999),
        Seq(-70000000L, 70000000L)
      )
      val early = micros("-0043-03-15T12:00:00Z")
      isExact(
        dataType,
        s""""-0043-03-15T12:00:00.000$zone"""",
        Seq(early, early + 999),
        Seq(early - 70000000L, 0L)
      )
      isExact(
        dataType,
        s""""+12026-01-01T00:00:00.000$zone"""",
        Seq(micros("+12026-01-01T00:00:00.000999Z")),
        Seq(now)
      )
      // Infinity is the greatest value.
      isExact(dataType, s""""+294247-01-10T04:00:54.775$zone"""", Seq(Long.MaxValue), Seq(now))
      // The least value is less than the text of its millisecond.
      assert(allows(
        dataType,
        bounds(dataType, s""""-290308-12-21T19:59:05.224$zone""""),
        Long.MinValue
      ))
      Seq("1767225600", "\"infinity\"", "\"2026-13-01T00:00:00.000Z\"", "null")
        .foreach(json => assert(bounds(dataType, json).isEmpty, json))
    }
    val now = micros("2026-01-01T00:00:00Z")
    isExact(
      TimestampType,
      "\"2026-01-01T01:00:00.000+01:00\"",
      Seq(now),
      Seq(now - 60000001, now + 60001001)
    )
    // The zone of a session can be off UTC by seconds, as +00:00:59 is.
    isExact(TimestampType, "\"2026-01-01T00:00:59.000Z\"", Seq(now), Seq(now - 1001000))
    // Before 1893, Berlin was 53 minutes and 28 seconds ahead of UTC.
    isExact(
      TimestampType,
      "\"1800-01-01T00:53:28.000+00:53\"",
      Seq(micros("1800-01-01T00:00:00Z")),
      Seq(now)
    )
    // The texts of a time and of a time with a zone are different.
    assert(bounds(TimestampType, "\"2026-01-01T00:00:00.000\"").isEmpty)
    assert(bounds(TimestampNTZType, "\"2026-01-01T00:00:00.000Z\"").isEmpty)
  }

  test(
    "the bounds of a file allow the values of its rows only, in each zone, also after a deletion"
  ) {
    val large = DecimalType(38, 12)
    val schema = new StructType().add("d", large).add("t", TimestampType).add("n", TimestampNTZType)
    val zone = spark.conf.get("spark.sql.session.timeZone")
    def micros(time: String) = DateTimeUtils.stringToTimestamp(UTF8String.fromString(time), UTC).get
    val rows = Seq(
      "-99999999999999999999999999.999999999999" -> "-4000-01-01T00:00:00.0015Z",
      "-12345678901234567890.123456789012" -> "0001-01-01T00:00:00.000001Z",
      "-0.000000000001" -> "1890-01-01T00:00:00.000999Z",
      "0" -> "1969-12-31T23:59:59.999999Z",
      "0.1" -> "2026-06-01T00:00:00.000999Z",
      "12345678901234567890.123456789012" -> "9999-12-31T23:59:59.999999Z",
      "99999999999999999999999999.999999999999" -> "+20000-01-01T00:00:00.123456Z"
    ).map { case (number, time) =>
      InternalRow(Decimal(BigDecimal(number), 38, 12), micros(time), micros(time))
    }
    try
      Seq("Europe/Berlin", "Africa/Monrovia").foreach { name =>
        spark.conf.set("spark.sql.session.timeZone", name)
        val target = Targets.of(spark, Files.createTempDirectory("bounds").toString, Some("delta"))
        target.create("t", schema, Nil, Map.empty)
        var found = Seq.empty[DirectFile]
        def commit(lsn: Long)(change: DirectTable => DirectChange): Unit =
          target.commit(spark, "t", this.name, Option.when(lsn > 1)(lsn - 1), lsn)(
            TargetWrite.Direct { table =>
              found = table.files
              change(table)
            }
          )
        val pairs = rows.map(row => Vector(row, row)) ++ rows.zip(rows.tail).map { case (a, b) =>
          Vector(a, b)
        }
        pairs.zipWithIndex.foreach { case (pair, at) =>
          commit(at + 1L)(_ => DirectChange(Map.empty, pair))
        }
        commit(pairs.length + 1L)(table =>
          DirectChange(table.files.map(_.path -> Array(0L)).toMap, Vector.empty)
        )
        def check(): Unit = {
          assert(found.length == pairs.length)
          for (at <- schema.indices) {
            val dataType = schema(at).dataType
            val allowed = found.map(file =>
              rows.map(_.get(at, dataType)).filter(allows(dataType, file.bounds(at), _)).toSet
            )
            val expected = pairs.map(_.map(_.get(at, dataType)).toSet)
            def counted(sets: Seq[Set[Any]]) = sets.groupBy(identity).view.mapValues(_.length).toMap
            if (dataType == TimestampType && name != "UTC") {
              // The text of an early time can have an offset with seconds, which is not read. Such a file has no
              // bounds.
              val late = counted(expected.filter(_.forall(_.asInstanceOf[Long] > 0)))
              assert(
                late.forall { case (values, count) =>
                  counted(allowed).get(values).contains(count)
                },
                name
              )
              assert(expected.forall(values => allowed.exists(values.subsetOf(_))), name)
            } else assert(counted(allowed) == counted(expected), name)
          }
        }
        check()
        commit(pairs.length + 2L)(_ => DirectChange(Map.empty, Vector.empty))
        assert(found.forall(_.deletedRows == 1))
        check()
      }
    finally spark.conf.set("spark.sql.session.timeZone", zone)
  }

  test("a VARCHAR is the same column in each copy") {
    val target =
      Targets.of(spark, Files.createTempDirectory("varchar").toString, Some("delta"))
    val schema = new StructType().add("id", IntegerType).add("v", VarcharType(9))
      .add("a", ArrayType(VarcharType(5)))
    target.create("t", schema, Nil, Map.empty)
    def changes = {
      val has = CharVarcharUtils.getRawSchema(target.read(spark, "t").schema).toNullable
      TableEvolution.keep(has, schema, 2)(_ => true)
    }
    assert(changes.isEmpty)
    def row(id: Int) = InternalRow(id, UTF8String.fromString(s"v$id"), null)
    val local = LocalRows.toDataFrame(spark, Vector(row(1)), schema)
    val copied = RowsOfRdd.toDataFrame(spark, spark.sparkContext.parallelize(Seq(row(2))), schema)
    target.commit(spark, "t", name, None, 1)(TargetWrite.Append(local.unionAll(copied)))
    def texts = target.read(spark, "t").orderBy("id").collect().map(_.getString(1)).toSeq
    assert(texts == Seq("v1", "v2"))
    target.commit(spark, "t", name, Some(1), 2)(TargetWrite.Replace(copied, None))
    assert(texts == Seq("v2") && changes.isEmpty)
  }
}
