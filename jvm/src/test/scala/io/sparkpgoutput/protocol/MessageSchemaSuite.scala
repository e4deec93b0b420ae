package io.sparkpgoutput.protocol

import org.apache.spark.sql.types._

import org.scalatest.funsuite.AnyFunSuite

class MessageSchemaSuite extends AnyFunSuite {

  test("the struct of a message does not change, because queries and tables rely on it") {
    val tuple = "struct<kinds:string,text:array<string>,binary:array<binary>>"
    val column = "struct<key:boolean,name:string,type_id:bigint,type_modifier:int>"
    val expected = Seq(
      "type" -> "string",
      "xid" -> "bigint",
      "subxid" -> "bigint",
      "lsn" -> "bigint",
      "end_lsn" -> "bigint",
      "timestamp" -> "timestamp",
      "prepare_timestamp" -> "timestamp",
      "gid" -> "string",
      "origin" -> "string",
      "transactional" -> "boolean",
      "first_segment" -> "boolean",
      "cascade" -> "boolean",
      "restart_identity" -> "boolean",
      "prefix" -> "string",
      "content" -> "binary",
      "relation_id" -> "bigint",
      "relation_ids" -> "array<bigint>",
      "relation" ->
        s"struct<namespace:string,name:string,replica_identity:string,columns:array<$column>>",
      "pg_type" -> "struct<id:bigint,namespace:string,name:string>",
      "key" -> tuple,
      "old" -> tuple,
      "new" -> tuple
    )
    val fields = MessageSchema.schema.map(field => field.name -> field.dataType.catalogString)
    assert(fields == expected)
  }

  test("every field can be NULL") {
    assert(MessageSchema.schema.forall(_.nullable))
  }

  test("every field, at any depth, has a comment") {
    allFields(MessageSchema.schema).foreach { field =>
      assert(field.getComment().exists(_.trim.nonEmpty), field.name)
    }
  }

  test("the comment on the type names every message") {
    val comment = MessageSchema.schema("type").getComment().get
    MessageType.all.foreach(messageType => assert(comment.contains(messageType.name)))
  }

  test("comments name only messages that exist") {
    val names = MessageType.all.map(_.name).toSet
    val spokenOf = "\\b[A-Z]+(_[A-Z]+)*(?=[,:])".r
    val found = for {
      field <- MessageSchema.schema
      name <- spokenOf.findAllIn(field.getComment().get)
    } yield field.name -> name
    assert(found.nonEmpty)
    found.foreach { case (field, name) => assert(names(name), field) }
  }

  test("a field's constant is its ordinal") {
    import MessageSchema._
    assert(schema.fieldIndex("type") == TYPE)
    assert(schema.fieldIndex("relation_ids") == RELATION_IDS)
    assert(schema.fieldIndex("new") == NEW)
    assert(schema.length == NEW + 1)
  }

  private def allFields(dataType: DataType): Seq[StructField] = dataType match {
    case struct: StructType    => struct ++ struct.flatMap(field => allFields(field.dataType))
    case ArrayType(element, _) => allFields(element)
    case _                     => Nil
  }
}
