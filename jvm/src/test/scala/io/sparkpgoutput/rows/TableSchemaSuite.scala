package io.sparkpgoutput.rows

import org.apache.spark.sql.types.StructType

import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.PropertySuite
import io.sparkpgoutput.decode.MessageDecoder
import io.sparkpgoutput.protocol.Fields.Fields
import io.sparkpgoutput.protocol.{
  Fields,
  Message,
  MessageSchema,
  MessageType,
  Messages,
  RelationSchema,
  TextEncoding
}
import io.sparkpgoutput.types.registry.{BuiltInTypes, TypeRegistry}

class TableSchemaSuite extends PropertySuite {
  private val decoder = new MessageDecoder(TextEncoding.Utf8)

  private def ddl(message: Message): String = {
    val row = decoder.decode(message.bytes, message.context)
    val relation = row.getStruct(MessageSchema.RELATION, RelationSchema.schema.length)
    TableSchema.ddl(TableSchema.of(relation, TypeRegistry()))
  }

  private def columns(message: Message) =
    message.fields("relation").asInstanceOf[Fields]("columns").asInstanceOf[Seq[Fields]]

  /** A table with one column. */
  private def table(name: String, oid: Long, modifier: Int): Message =
    Message.outsideOfStream(
      Fields(
        "type" -> "RELATION",
        "relation_id" -> 1L,
        "relation" -> Fields(
          "namespace" -> "public",
          "name" -> "t",
          "replica_identity" -> "d",
          "columns" ->
            Seq(Fields(
              "key" -> true,
              "name" -> name,
              "type_id" -> oid,
              "type_modifier" -> modifier
            ))
        )
      )
    )

  test("Spark parses the DDL to the columns' names and default types") {
    val relations = new Messages().ofType(MessageType.all.find(_.name == "RELATION").get)
    forAll(relations) { message =>
      val found = columns(message)
      whenever(found.nonEmpty && found.forall(_("name") != "")) {
        val read = StructType.fromDDL(ddl(message))
        assert(read.fieldNames.toSeq == found.map(_("name")))
        read.zip(found).foreach { case (field, column) =>
          val oid = column("type_id").asInstanceOf[Long]
          val modifier = column("type_modifier").asInstanceOf[Int]
          val pgType = TypeRegistry().byOid(oid)
          assert(field.dataType == pgType.sparkType(modifier))
          assert(field.nullable)
        }
      }
    }
  }

  test("unusual names and all types are the same after the DDL is parsed") {
    val names =
      Seq("1e5", "12", "1d", "a b", "a`b", "select", "a.b", "timestamp", "Ä", "'", "--", "a\nb")
    BuiltInTypes.byOid.keys.zipWithIndex.foreach { case (oid, index) =>
      val name = names(index % names.size)
      val read = StructType.fromDDL(ddl(table(name, oid, -1)))
      assert(read.fieldNames.toSeq == Seq(name))
      assert(read.head.dataType == BuiltInTypes.byOid(oid).sparkType(-1))
      assert(read.head.getComment().contains(BuiltInTypes.byOid(oid).name))
    }
  }

  test("a table without columns has the DDL of an empty struct") {
    val message = table("a", 23, -1)
    val relation = message.fields("relation").asInstanceOf[Fields] + ("columns" -> Nil)
    val none = ddl(message.copy(fields = message.fields + ("relation" -> relation)))
    assert(org.apache.spark.sql.types.DataType.fromDDL(none) == new StructType)
  }

  test("the comments name the types as format_type does, in short form") {
    Seq(
      (1700L, 786438, "amount DECIMAL(12,2) COMMENT 'numeric(12,2)'"),
      (1700L, (3 << 16 | 5) + 4, "amount DECIMAL(5,5) COMMENT 'numeric(3,5)'"),
      (1700L, (5 << 16 | (-3 & 0x7ff)) + 4, "amount DECIMAL(8,0) COMMENT 'numeric(5,-3)'"),
      (1700L, -1, "amount STRING COMMENT 'numeric'"),
      (1231L, 786438, "amount ARRAY<DECIMAL(12,2)> COMMENT 'numeric(12,2)[]'"),
      (1043L, 14, "amount STRING COMMENT 'varchar(10)'"),
      (1560L, 3, "amount STRING COMMENT 'bit(3)'"),
      (1184L, 3, "amount TIMESTAMP COMMENT 'timestamptz(3)'"),
      (1114L, -1, "amount TIMESTAMP_NTZ COMMENT 'timestamp'"),
      (1186L, 0x7fffffff, "amount STRING COMMENT 'interval'"),
      (1186L, 0x7fff0003, "amount STRING COMMENT 'interval(3)'"),
      (16402L, -1, "amount STRING COMMENT 'type with oid 16402'")
    ).foreach { case (oid, modifier, expected) =>
      assert(ddl(table("amount", oid, modifier)) == expected)
    }
  }
}

class MergedSchemaSuite extends AnyFunSuite {
  private def merged(caseSensitive: Boolean)(schemas: String*): String =
    TableSchema.ddl(MergedSchema.of(schemas.map(StructType.fromDDL), caseSensitive))

  private def merged(schemas: String*): String = merged(caseSensitive = false)(schemas: _*)

  test("the columns come in the order in which they first appear") {
    assert(merged("b INT, a INT", "a INT", "c DATE, b INT") == "b INT, a INT, c DATE")
    assert(merged() == "STRUCT<>")
  }

  test("a column has a type that takes the values of both exactly, or STRING") {
    Seq(
      ("TINYINT", "BIGINT", "BIGINT"),
      ("INT", "SMALLINT", "INT"),
      ("FLOAT", "DOUBLE", "DOUBLE"),
      ("DOUBLE", "INT", "STRING"),
      ("DECIMAL(6,2)", "DECIMAL(5,4)", "DECIMAL(8,4)"),
      ("DECIMAL(6,2)", "INT", "DECIMAL(12,2)"),
      ("DECIMAL(38,19)", "BIGINT", "DECIMAL(38,19)"),
      ("DECIMAL(38,20)", "BIGINT", "STRING"),
      ("DATE", "TIMESTAMP", "STRING"),
      ("ARRAY<INT>", "ARRAY<BIGINT>", "STRING"),
      ("ARRAY<INT>", "ARRAY<INT>", "ARRAY<INT>")
    ).foreach { case (one, other, expected) =>
      assert(merged(s"a $one", s"a $other") == s"a $expected", s"$one, $other")
      assert(merged(s"a $other", s"a $one") == s"a $expected", s"$other, $one")
    }
  }

  test("the comment is the last one, unless the types differ") {
    val one = "a STRING COMMENT 'varchar(5)'"
    assert(merged(one, "a STRING COMMENT 'text'") == "a STRING COMMENT 'text'")
    assert(merged(one, "a INT COMMENT 'int4'") == "a STRING")
  }

  test("the setting for case decides whether names are the same") {
    assert(merged("A INT", "a BIGINT") == "A BIGINT")
    assert(merged(caseSensitive = true)("A INT", "a BIGINT") == "A INT, a BIGINT")
  }
}
