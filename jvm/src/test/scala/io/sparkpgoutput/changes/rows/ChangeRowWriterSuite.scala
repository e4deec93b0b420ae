package io.sparkpgoutput.changes.rows

import org.apache.spark.sql.catalyst.CatalystTypeConverters
import org.apache.spark.sql.types._
import org.apache.spark.sql.{Row => SparkRow}
import org.apache.spark.types.variant.VariantUtil
import org.apache.spark.unsafe.types.VariantVal

import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.TakesLong
import io.sparkpgoutput.changes.batch.BatchChanges
import io.sparkpgoutput.changes.{Positioned, StreamMessages, TablePattern}
import io.sparkpgoutput.errors.Errors.raised
import io.sparkpgoutput.protocol.TextEncoding

class ChangeRowWriterSuite extends AnyFunSuite {
  import ChangeSchema._
  import StreamMessages._

  private val columns =
    Seq(Column("id", isKey = true, 23), Column("n", typeId = 20), Column("body", typeId = 25))
  private val typed = StructType.fromDDL("id INT, n BIGINT, body STRING")

  private def columnsOf(
      schema: StructType,
      ignoreOthers: Boolean = false,
      caseSensitive: Boolean = false
  ) =
    TableFormat.Columns(schema, ignoreOthers, caseSensitive)

  /** The rows of one transaction's messages. */
  private def rows(format: ChangeFormat, messages: Array[Byte]*): Seq[SparkRow] = {
    val transaction = begin(7, 100) +: messages :+ commit(100)
    val converter = CatalystTypeConverters.createToScalaConverter(format.rowType)
    BatchChanges.whole(Positioned.all(transaction), format = format).rows
      .map(converter(_).asInstanceOf[SparkRow])
  }

  private def changes(table: TableFormat, messages: Array[Byte]*): Seq[String] =
    rows(BatchChanges.format(table, Seq(CHANGE_TYPE, MISSING)), messages: _*).map(shown)

  private def shown(row: SparkRow): String = row.toSeq.map {
    case names: scala.collection.Seq[_] => names.mkString("{", " ", "}")
    case map: scala.collection.Map[_, _] =>
      map.toSeq.map { case (key, value) => s"$key=$value" }.sorted.mkString("{", " ", "}")
    case variant: VariantVal => variant.toString
    case value               => String.valueOf(value)
  }.mkString(" ")

  private def fails(condition: String, texts: String*)(body: => Any): Unit = {
    val error = raised(condition)(body)
    texts.foreach(text => assert(error.getMessage.contains(text)))
  }

  private val u = Unchanged
  private val full = columns.map(_.copy(isKey = true))

  test("each change gives its images, with the columns that the message carries") {
    val messages = Seq(
      relation(columns),
      insert(Seq("1", "2", null)),
      insert(Seq("1", u, "b")), // a row filter made it of an update
      update(Seq("1", "3", "b")),
      update(Seq("1", "3", u)),
      update(Seq("2", "3", u), key = Seq("1", null, null)),
      update(Seq(u, "3", "c"), key = Seq("9", null, null)), // a TOASTed key
      delete(key = Seq("2", null, null)),
      relation(full),
      update(Seq("2", u, u), old = Seq("1", "3", "b")),
      // A TOASTed value is not NULL: the partition of the row has another replica identity than its root.
      update(Seq("2", u, "c"), old = Seq("1", null, "b")),
      delete(old = Seq("2", null, "b")),
      truncate(Seq(Table))
    )
    assert(
      changes(columnsOf(typed), messages: _*) == Seq(
        "1 2 null insert {}",
        "1 null b insert {n}",
        "1 3 b update_postimage {}",
        "1 3 null update_postimage {body}",
        "1 null null update_preimage {n body}",
        "2 3 null update_postimage {body}",
        "9 null null update_preimage {n body}",
        "9 3 c update_postimage {}",
        "2 null null delete {n body}",
        "1 3 b update_preimage {}",
        "2 3 b update_postimage {}",
        "1 null b update_preimage {}",
        "2 null c update_postimage {n}",
        "2 null b delete {}",
        "null null null truncate {}"
      )
    )
    assert(
      changes(TableFormat.AsMap, messages: _*) == Seq(
        "{body=null id=1 n=2} insert {}",
        "{body=b id=1} insert {n}",
        "{body=b id=1 n=3} update_postimage {}",
        "{id=1 n=3} update_postimage {body}",
        "{id=1} update_preimage {n body}",
        "{id=2 n=3} update_postimage {body}",
        "{id=9} update_preimage {n body}",
        "{body=c id=9 n=3} update_postimage {}",
        "{id=2} delete {n body}",
        "{body=b id=1 n=3} update_preimage {}",
        "{body=b id=2 n=3} update_postimage {}",
        "{body=b id=1 n=null} update_preimage {}",
        "{body=c id=2} update_postimage {n}",
        "{body=b id=2 n=null} delete {}",
        "null truncate {}"
      )
    )
    assert(
      changes(TableFormat.AsVariant, messages: _*) == Seq(
        """{"body":null,"id":1,"n":2} insert {}""",
        """{"body":"b","id":1} insert {n}""",
        """{"body":"b","id":1,"n":3} update_postimage {}""",
        """{"id":1,"n":3} update_postimage {body}""",
        """{"id":1} update_preimage {n body}""",
        """{"id":2,"n":3} update_postimage {body}""",
        """{"id":9} update_preimage {n body}""",
        """{"body":"c","id":9,"n":3} update_postimage {}""",
        """{"id":2} delete {n body}""",
        """{"body":"b","id":1,"n":3} update_preimage {}""",
        """{"body":"b","id":2,"n":3} update_postimage {}""",
        """{"body":"b","id":1,"n":null} update_preimage {}""",
        """{"body":"c","id":2} update_postimage {n}""",
        """{"body":"b","id":2,"n":null} delete {}""",
        "null truncate {}"
      )
    )
  }

  test("each row says where it comes from") {
    val format = BatchChanges.format(fields = BatchChanges.allFields)
    val messages = Seq(
      origin("elsewhere"),
      relation(columns),
      relation(full, oid = 5, name = "pg_x", namespace = ""),
      insert(Seq("1", "2", "a")),
      update(Seq("2", "2", "a"), key = Seq("1", null, null)),
      truncate(Seq(5, Table)),
      insert(Seq("1", "2", "a"), oid = 5)
    )
    val found = rows(format, messages: _*)
    def column(field: Int) = found.map(_.get(1 + field))
    assert(
      column(TABLE) == Seq("t", "t", "t").map(name => s"public.$name") ++
        Seq("pg_catalog.pg_x", "public.t", "pg_catalog.pg_x")
    )
    assert(column(COMMIT_VERSION).toSet == Set(100L))
    assert(column(XID).toSet == Set(7L))
    assert(column(GID).toSet == Set(null))
    assert(column(ORIGIN).toSet == Set("elsewhere"))
    assert(column(POSITION) == Seq(4L, 5L, 5L, 6L, 6L, 7L))
    val ordinals = column(ORDINAL).map(_.asInstanceOf[Long])
    assert(ordinals.distinct.sorted == ordinals)
    assert(column(KEYS).map(_.toString).distinct.size == 2)
    val times =
      rows(BatchChanges.format(fields = Seq(COMMIT_TIMESTAMP)), messages: _*).map(_.get(1))
    val expected = CatalystTypeConverters.convertToScala(timestamp(100), TimestampType)
    assert(times.toSet == Set(expected))
  }

  test("a change of a table without columns has no values") {
    val messages = Seq(relation(Nil), insert(Nil))
    assert(changes(TableFormat.AsMap, messages: _*) == Seq("{} insert {}"))
    assert(changes(TableFormat.AsVariant, messages: _*) == Seq("{} insert {}"))
    assert(changes(columnsOf(typed), messages: _*) == Seq("null null null insert {}"))
  }

  test("columns are found by name, in any case, unless the session distinguishes case") {
    val messages =
      Seq(relation(Seq(Column("BODY"), Column("Id", isKey = true, 23))), insert(Seq("a", "1")))
    assert(changes(columnsOf(typed), messages: _*) == Seq("1 null a insert {}"))
    fails("PGOUTPUT_SCHEMA_EVOLUTION", "position 2", "public.t", "'BODY'") {
      changes(columnsOf(typed, caseSensitive = true), messages: _*)
    }
    val twice = Seq(relation(Seq(Column("id"), Column("ID"))), insert(Seq("a", "b")))
    fails("PGOUTPUT_SCHEMA_MISMATCH", "public.t", "'ID'")(changes(columnsOf(typed), twice: _*))
    assert(changes(TableFormat.AsMap, twice: _*) == Seq("{ID=b id=a} insert {}"))
  }

  test("a column that the schema lacks, or whose type does not convert, is an error or left out") {
    val lacking = Seq(relation(columns :+ Column("more")), insert(Seq("1", "2", "a", "x")))
    val other =
      Seq(relation(columns.updated(1, Column("n", typeId = 600))), insert(Seq("1", "(1,2)", "a")))
    fails("PGOUTPUT_SCHEMA_EVOLUTION", "position 2", "public.t", "'more'") {
      changes(columnsOf(typed), lacking: _*)
    }
    fails("PGOUTPUT_SCHEMA_EVOLUTION", "position 2", "public.t", "'n'", "point", "BIGINT") {
      changes(columnsOf(typed), other: _*)
    }
    val ignoring = columnsOf(typed, ignoreOthers = true)
    assert(changes(ignoring, lacking: _*) == Seq("1 2 a insert {}"))
    assert(changes(ignoring, other: _*) == Seq("1 null a insert {n}"))
  }

  test("a change is read by its own definition, and values of another one leave no trace") {
    val messages = Seq(
      relation(columns),
      insert(Seq("1", "2", "a")),
      relation(columns.take(1), xid = 0),
      insert(Seq("2")),
      relation(columns.reverse),
      insert(Seq("c", "4", "3"))
    )
    assert(
      changes(columnsOf(typed), messages: _*) ==
        Seq("1 2 a insert {}", "2 null null insert {}", "3 4 c insert {}")
    )
  }

  test("a domain is read as the type that its Type message names") {
    val messages = Seq(
      pgType(70000, "", "int4"),
      pgType(70001, "public", "mood"),
      relation(Seq(Column("id", typeId = 70000), Column("body", typeId = 70001))),
      insert(Seq("1", "happy"))
    )
    assert(changes(columnsOf(typed), messages: _*) == Seq("1 null happy insert {}"))
    assert(changes(
      TableFormat.AsVariant,
      messages: _*
    ) == Seq("""{"body":"happy","id":1} insert {}"""))
  }

  test("a tuple of another width than its table is an error") {
    Seq(
      insert(Seq("1", "2")),
      insert(Seq("1", "2", "3", "4")),
      update(Seq("1", "2", "3"), key = Seq("1")),
      update(Seq("1", "2"), old = Seq("1", "2", "3")),
      delete(key = Seq("1", "2", "3", "4"))
    ).foreach { message =>
      fails("PGOUTPUT_SCHEMA_MISMATCH", "position 2", "public.t", s"oid $Table") {
        changes(TableFormat.AsMap, relation(columns), message)
      }
    }
  }

  test("a change of an unknown table is an error, even if its rows are not wanted") {
    val ofOthers = ChangeFilter(tables = Some(Seq(TablePattern("other", None))))
    Seq(insert(Seq("1"), oid = 9), truncate(Seq(Table, 9))).foreach { message =>
      val format = BatchChanges.format(TableFormat.AsMap)
      Seq(format, format.copy(filter = ofOthers)).foreach { format =>
        fails("PGOUTPUT_UNKNOWN_RELATION", "position 2", "oid 9")(rows(format, relation(), message))
      }
    }
  }

  test("malformed changes are errors") {
    val short = insert(Seq("1", "2", "3")).dropRight(1)
    fails("PGOUTPUT_MALFORMED_MESSAGE", "position 2")(changes(
      TableFormat.AsMap,
      relation(columns),
      short
    ))
  }

  test("a value that does not fit is an error, or NULL") {
    val messages = Seq(relation(columns), insert(Seq("1", "two", "a")))
    val format = BatchChanges.format(columnsOf(typed), Seq(CHANGE_TYPE))
    fails("PGOUTPUT_INVALID_VALUE", "position 2", "public.t", "'n'")(rows(format, messages: _*))
    assert(rows(format.copy(failFast = false), messages: _*).map(shown) == Seq("1 null a insert"))
    val variant = BatchChanges.format(TableFormat.AsVariant, Seq(CHANGE_TYPE))
    fails("PGOUTPUT_INVALID_VALUE", "position 2", "public.t", "'n'")(rows(variant, messages: _*))
    assert(
      rows(variant.copy(failFast = false), messages: _*).map(shown) ==
        Seq("""{"body":"a","id":1,"n":null} insert""")
    )
  }

  test("an error of a value in a VARIANT names a type of the result that takes the value") {
    def of(typeId: Long, value: String) =
      raised("PGOUTPUT_INVALID_VALUE") {
        changes(
          TableFormat.AsVariant,
          relation(Seq(Column("v", typeId = typeId))),
          insert(Seq(value))
        )
      }.getMessage
    val (numeric, numerics, json, date) = (1700L, 1231L, 114L, 1082L)
    Seq(
      numeric -> "NaN",
      numeric -> "1" * 39,
      numerics -> "{NaN}",
      json -> "{",
      json -> "1e100",
      date -> "0044-03-15 BC"
    ).foreach { case (typeId, value) =>
      assert(of(typeId, value).contains("; use a schema, or the option row 'map'; "), value)
    }
    assert(of(date, "infinity").contains("; set the option infinity to null or clamp; "))
  }

  test(
    "a row that is too large for VARIANT is an error, even if its last value is not valid",
    TakesLong
  ) {
    val most = "x" * (VariantUtil.SIZE_LIMIT - 5) // after its header, no byte is left
    val messages = Seq(relation(columns.reverse.take(2)), insert(Seq(most, "two")))
    val format = BatchChanges.format(TableFormat.AsVariant).copy(failFast = false)
    fails("PGOUTPUT_INVALID_VALUE", "position 2", "public.t", "too large for VARIANT") {
      rows(format, messages: _*)
    }
  }

  test("unwanted tables and changes give no rows, and do not affect the others") {
    val messages = Seq(
      relation(columns),
      relation(columns, oid = 5, name = "other"),
      insert(Seq("1", "2", "a")),
      update(Seq("2", "2", "a"), key = Seq("1", null, null)),
      insert(Seq("1", "2", "a"), oid = 5),
      truncate(Seq(5, Table)),
      delete(key = Seq("2", null, null))
    )
    val format = BatchChanges.format()
    val all = rows(format, messages: _*)
    def kept(filter: ChangeFilter) = rows(format.copy(filter = filter), messages: _*)
    val table = Some(Seq(TablePattern("public", Some("t"))))
    assert(all.size == 7)
    assert(kept(ChangeFilter(tables = table)) == all.filter(_.get(1) == "public.t"))
    assert(
      kept(ChangeFilter(tableNames = Some(Set("public.other")))) ==
        all.filter(_.get(1) == "public.other")
    )
    Seq(
      Set("insert"),
      Set("update_preimage", "truncate"),
      Set("delete"),
      Set.empty[String]
    ).foreach {
      types =>
        assert(
          kept(ChangeFilter(changeTypes = Some(types))) ==
            all.filter(row => types(row.getString(2)))
        )
    }
  }

  test("only required columns are read, whichever they are") {
    val messages = Seq(
      relation(columns),
      insert(Seq("1", "2", "a")),
      update(Seq("2", "3", u), key = Seq("1", null, null)),
      truncate(Seq(Table))
    )
    Seq(columnsOf(typed), TableFormat.AsMap, TableFormat.AsVariant).foreach { table =>
      val format = BatchChanges.format(table)
      val all = rows(format, messages: _*).map(_.toSeq.map(String.valueOf))
      val width = table.columns.length
      for {
        required <- table.columns.indices.toSet.subsets().map(_.toSeq.sorted)
        fields <- Seq(Nil, Seq(MISSING), Seq(CHANGE_TYPE, ORDINAL), BatchChanges.allFields)
      } {
        val part = format.copy(requiredColumns = required, requiredFields = fields)
        val found = rows(part, messages: _*).map(_.toSeq.map(String.valueOf))
        assert(found == all.map(row =>
          required.map(row) ++ fields.map(field => row(width + field))
        ))
      }
    }
    // A column that is not read has no value that does not fit.
    val id =
      BatchChanges.format(columnsOf(typed)).copy(requiredColumns = Seq(0), requiredFields = Nil)
    assert(rows(id, relation(columns), insert(Seq("1", "two", "a"))) == Seq(SparkRow(1)))
  }

  test("text and names can be in another encoding") {
    val latin1 = TextEncoding.of("LATIN1").get // each byte of UTF-8's is a character
    val assembler = BatchChanges.options.copy(encoding = latin1)
    val format = BatchChanges.format(fields = Seq(TABLE, MISSING))
    val options = format.options.copy(encoding = latin1)
    val messages = Positioned.all(
      Seq(
        begin(7, 100),
        relation(Seq(Column("é"), Column("ü")), name = "ß"),
        insert(Seq("ö", u))
      ) :+
        commit(100)
    )
    val read = BatchChanges.whole(messages, assembler, format.copy(options = options))
    assert(
      BatchChanges.text(read.rows, format).mkString.replace("ArraySeq", "List") ==
        "[Map(Ã© -> Ã¶),public.Ã\u009f,List(Ã¼)]"
    )
  }
}
