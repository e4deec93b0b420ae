package io.sparkpgoutput.rows.sql

import java.util.concurrent.Executors

import scala.concurrent.duration.DurationInt
import scala.concurrent.{Await, ExecutionContext, Future}

import org.apache.spark.SparkFunSuite
import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.SQLHelper
import org.apache.spark.sql.catalyst.util.{GenericArrayData, toPrettySQL}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

import io.sparkpgoutput.JavaSerialization
import io.sparkpgoutput.decode.sql.MessageFunctionTests
import io.sparkpgoutput.errors.PgOutputException
import io.sparkpgoutput.protocol.Messages.Cell
import io.sparkpgoutput.protocol.{MessageSchema, RelationSchema, TupleSchema}
import io.sparkpgoutput.sql.{FunctionCall, SqlFunction}
import io.sparkpgoutput.types.registry.TypedTuples

/** `pgoutput_row` and `try_pgoutput_row`: their arguments, and how they are evaluated. */
class RowFunctionsSuite extends SparkFunSuite with ExpressionEvalHelper with SQLHelper {
  private type Function = (Expression, Expression, Expression, Expression) => FunctionCall
  private def call(function: SqlFunction): Function = (tuple, schema, typeIds, options) =>
    function.call(Seq(tuple, schema, typeIds, options)).asInstanceOf[FunctionCall]
  private val row = call(RowFunctions.row)
  private val tryRow = call(RowFunctions.tryRow)
  private val both = Seq(row, tryRow)

  private val tuple = BoundReference(0, TupleSchema.schema, nullable = true)
  private val idsColumn = BoundReference(1, ArrayType(LongType), nullable = true)
  private val unknown = Literal.create(null, ArrayType(LongType))
  private val noOptions = Literal(null)

  private def evaluator(call: FunctionCall) = call.replacement.asInstanceOf[ReadTuple]
  private val schema = Literal("a INT, b STRING")

  private def ids(oids: Long*): Expression = CreateArray(oids.map(Literal(_)))

  private def options(entries: (String, String)*): Expression =
    CreateMap(entries.flatMap { case (name, value) => Seq(Literal(name), Literal(value)) })

  private def text(values: String*): Seq[Cell] = values.map {
    case null  => ("n", null, null)
    case value => ("t", value, null)
  }

  private def input(cells: Seq[Cell], oids: Any*): InternalRow =
    InternalRow(TypedTuples.row(cells), new GenericArrayData(oids.toArray[Any]))

  private def out(values: Any*): InternalRow = InternalRow(values.map {
    case text: String => UTF8String.fromString(text)
    case other        => other
  }: _*)

  private def refused(
      tuple: Expression = tuple,
      schema: Expression = schema,
      typeIds: Expression = unknown,
      options: Expression = noOptions,
      functions: Seq[Function] = both
  )(texts: String*): Unit =
    functions.foreach { function =>
      val error = intercept[AnalysisException](function(tuple, schema, typeIds, options))
      assert(error.getCondition.startsWith("DATATYPE_MISMATCH."))
      texts.foreach(part => assert(error.getMessage.contains(part)))
    }

  private def accepted(call: FunctionCall): Unit = assert(call.checkInputDataTypes().isSuccess)

  test("each argument but the schema can be NULL") {
    def check(
        function: Function,
        tuple: Expression = tuple,
        typeIds: Expression = unknown,
        options: Expression = noOptions
    ): Unit = {
      val expression = function(tuple, schema, typeIds, options)
      accepted(expression)
      val cells = InternalRow(TypedTuples.row(text("7", "x")), null)
      val expected = if (tuple == this.tuple) out(7, "x") else null
      checkEvaluation(expression, expected, cells)
    }
    both.foreach { function =>
      check(function)
      Seq(Literal(null), Literal.create(null, TupleSchema.schema))
        .foreach(tuple => check(function, tuple = tuple))
      Seq(
        Literal(null),
        idsColumn,
        ids(23, 25),
        CreateArray(Seq(Literal(23L), Literal.create(null, LongType))),
        CreateArray(Seq(Literal(null), Literal(null))),
        CreateArray(Seq(Literal(23), Literal(25)))
      ).foreach(typeIds => check(function, typeIds = typeIds))
      Seq(Literal(null), options(), options("timeZone" -> "Asia/Tokyo"))
        .foreach(options => check(function, options = options))
      check(function, Literal(null), Literal(null), Literal(null))
    }
  }

  test("other types of arguments are refused") {
    refused(tuple = Literal("42"))("must be a tuple", "d.new", "STRING")
    refused(tuple = Literal.create(null, StructType(TupleSchema.schema.take(2))))("must be a tuple")
    refused(typeIds = Literal(23L))("ARRAY<BIGINT>", "r.relation.columns.type_id", "not BIGINT")
    refused(typeIds = CreateArray(Seq(Literal("23"))))("ARRAY<BIGINT>", "not ARRAY<STRING>")
    refused(options = Literal("mode"))("map of strings", "STRING")
    refused(options = BoundReference(1, MapType(StringType, StringType), nullable = true))(
      "must be constant"
    )
    refused(options = options("modus" -> "x"))("There is no option 'modus'")
  }

  test(
    "constant type_ids of another number, or that cannot be read as the schema says, are refused"
  ) {
    refused(typeIds = ids(23))("there are 1 type_ids, the schema has 2 columns")
    refused(typeIds = CreateArray(Nil))("there are 0 type_ids, the schema has 2 columns")
    refused(typeIds = CreateArray(Seq(Literal(null))))("there are 1 type_ids")
    refused(typeIds = ids(16, 25))(
      "column 'a' has type bool (oid 16), which cannot be read as INT; use BOOLEAN"
    )
    refused(schema = Literal("a VARIANT"))("column 'a' has a type that is not known", "VARIANT")
    accepted(row(tuple, schema, ids(16402, 25), options("type.16402" -> "int8")))
    refused(typeIds = ids(16402, 25), options = options("type.16402" -> "bool"))("(oid 16402)")
  }

  test("a text that is not a schema is refused") {
    Seq(
      BoundReference(0, StringType, nullable = true),
      Literal.create(null, StringType),
      Literal(1),
      Literal("INT"),
      Literal("a INTT"),
      Literal("a INT,"),
      Literal("a CHAR(3), b INT"),
      Literal("a STRUCT<b: VARCHAR(3)>, b INT")
    ).foreach { schema =>
      both.foreach { function =>
        Seq(unknown, idsColumn).foreach { typeIds =>
          intercept[AnalysisException](function(tuple, schema, typeIds, noOptions))
        }
      }
    }
  }

  test("a mode that the function does not have is refused") {
    refused(options = options("mode" -> "FAILFAST"), functions = Seq(tryRow))(
      "The valid values are: PERMISSIVE"
    )
    accepted(tryRow(tuple, schema, unknown, options("mode" -> "PERMISSIVE")))
    accepted(row(tuple, schema, unknown, options("mode" -> "FAILFAST")))
  }

  test("everything in the type of a row is nullable, whatever the schema says") {
    val strict =
      "a INT NOT NULL COMMENT 'x', s STRUCT<b: INT NOT NULL, c: ARRAY<STRUCT<d: INT NOT NULL>>>"
    both.foreach { function =>
      val expression = function(tuple, Literal(strict), unknown, noOptions)
      assert(expression.nullable)
      assert(expression.dataType ==
        StructType.fromDDL("a INT COMMENT 'x', s STRUCT<b: INT, c: ARRAY<STRUCT<d: INT>>>"))
      val cells = text(null, """(,"{""(,)""}")""")
      checkEvaluation(
        function(tuple, Literal("a INT NOT NULL"), unknown, noOptions),
        out(null),
        input(text(null))
      )
      val one =
        function(tuple, Literal(strict.replace("d: INT", "d: INT, e: INT")), unknown, noOptions)
      checkEvaluation(
        one,
        InternalRow(
          null,
          InternalRow(null, new GenericArrayData(Array[Any](InternalRow(null, null))))
        ),
        input(cells)
      )
    }
  }

  test("a schema can have no columns, or columns with the same name") {
    both.foreach { function =>
      val none = function(tuple, Literal("STRUCT<>"), unknown, noOptions)
      checkEvaluation(none, InternalRow(), input(Nil))
      checkEvaluation(IsNull(none), true, InternalRow(null, null))
      val alike = function(tuple, Literal("a INT, A STRING, a DOUBLE"), unknown, noOptions)
      checkEvaluation(alike, out(1, "x", 2.5), input(text("1", "x", "2.5")))
    }
  }

  test("cells of each kind are read") {
    val cells = Seq[Cell](
      ("t", "7", null),
      ("n", null, null),
      ("u", null, null),
      ("b", null, "0000002a"),
      ("b", null, "616263")
    )
    val schema = Literal("a INT, b INT, c INT, d INT, e STRING")
    both.foreach { function =>
      checkEvaluation(
        function(tuple, schema, ids(23, 23, 23, 23, 25), noOptions),
        out(7, null, null, 42, "abc"),
        input(cells)
      )
    }
  }

  test("each row can have its own type_ids; without them, binary values are BINARY only") {
    val expression = row(tuple, Literal("a BIGINT"), idsColumn, noOptions)
    val binary = Seq[Cell](("b", null, "0000000000000001"))
    checkEvaluation(expression, out(1L), input(binary, 20L))
    checkEvaluation(expression, out(5L), input(text("5"), null))
    checkExceptionInExpression[PgOutputException](
      expression,
      InternalRow(TypedTuples.row(binary), null),
      "column 'a', unknown as BIGINT: '\\x0000000000000001' is binary, and its type is not known; " +
        "give the type_ids; try_pgoutput_row gives NULL instead. SQLSTATE: 22018"
    )
    Seq(idsColumn, ids(16402)).foreach { typeIds =>
      checkExceptionInExpression[PgOutputException](
        row(tuple, Literal("a BIGINT"), typeIds, noOptions),
        input(binary, 16402L),
        "use BINARY, or the option type.16402"
      )
    }
    val declared = row(tuple, Literal("a BIGINT"), idsColumn, options("type.16402" -> "int8"))
    checkEvaluation(declared, out(1L), input(binary, 16402L))
    Seq(unknown, idsColumn).foreach { typeIds =>
      checkEvaluation(
        row(tuple, Literal("a BINARY"), typeIds, noOptions),
        InternalRow(Array[Byte](0, 0, 0, 0, 0, 0, 0, 1)),
        input(binary, null)
      )
    }
  }

  test("a tuple, type_ids and a schema of different lengths are an error, in every mode") {
    both.foreach { function =>
      val expression = function(tuple, schema, idsColumn, noOptions)
      def mismatch(input: InternalRow, text: String): Unit =
        checkExceptionInExpression[PgOutputException](
          expression,
          input,
          s"[PGOUTPUT_SCHEMA_MISMATCH] $text. SQLSTATE: 42804"
        )
      mismatch(
        input(text("1", "x", "y"), 23L, 25L),
        "the tuple has 3 columns, the schema has 2 columns"
      )
      mismatch(
        InternalRow(TypedTuples.row(text("1", "x", "y")), null),
        "the tuple has 3 columns, the schema has 2 columns"
      )
      mismatch(
        input(text("1"), 23L, 25L),
        "the tuple has 1 column, the schema has 2 columns"
      )
      mismatch(
        input(text("1", "x"), 23L),
        "there are 1 type_ids, the schema has 2 columns"
      )
      mismatch(
        input(text("1", "x"), 16L, 25L),
        "column 'a' has type bool (oid 16), which cannot be read as INT; use BOOLEAN"
      )
      checkEvaluation(expression, null, InternalRow(null, new GenericArrayData(Array[Any](16L))))
    }
  }

  test("a value that does not fit is an error that names it, or NULL if the query asks for that") {
    val cells = input(text("x" * 1000, "y"))
    val strict = row(tuple, schema, ids(23, 25), noOptions)
    checkExceptionInExpression[PgOutputException](
      strict,
      cells,
      s"[PGOUTPUT_INVALID_VALUE] column 'a', int4 as INT: '${"x" * 100}…' is not a valid int4; " +
        "use STRING; try_pgoutput_row gives NULL instead. SQLSTATE: 22018"
    )
    checkEvaluation(evaluator(strict).withColumns(Seq(1)), out("y"), cells)
    val permissive = options("mode" -> "permissive")
    checkEvaluation(row(tuple, schema, unknown, permissive), out(null, "y"), cells)
    checkEvaluation(tryRow(tuple, schema, unknown, noOptions), out(null, "y"), cells)
    checkExceptionInExpression[PgOutputException](
      strict,
      input(Seq(("b", null, "ff" * 200), ("n", null, null))),
      s"'\\x${"ff" * 49}…' has 200 bytes"
    )
  }

  test("an error does not cut a character in two") {
    checkExceptionInExpression[PgOutputException](
      row(tuple, schema, unknown, noOptions),
      input(text("\ud83d\ude00" * 101, "y")),
      s"'${"\ud83d\ude00" * 100}…'"
    )
    checkExceptionInExpression[PgOutputException](
      row(tuple, schema, unknown, noOptions),
      input(text("\ud83d\ude00" * 100, "y")),
      s"'${"\ud83d\ude00" * 100}' "
    )
  }

  test("the time zone is the option's, else the session's at the analysis") {
    val cells = input(text("2024-01-01 00:00:00"))
    val midnight = 1704067200000000L
    Seq("UTC" -> 0, "Asia/Tokyo" -> 9).foreach { case (zone, hours) =>
      both.foreach { function =>
        def analyzed(session: String, options: Expression) =
          withSQLConf("spark.sql.session.timeZone" -> session) {
            function(tuple, Literal("a TIMESTAMP"), ids(1114), options)
          }
        val expected = out(midnight - hours * 3600000000L)
        checkEvaluation(analyzed(zone, noOptions), expected, cells)
        checkEvaluation(analyzed("America/New_York", options("timeZone" -> zone)), expected, cells)
      }
    }
  }

  test("the schema is read with the settings at the analysis") {
    both.foreach { function =>
      def read() = function(tuple, Literal("a TIMESTAMP"), unknown, noOptions)
      val analyzed = read()
      withSQLConf("spark.sql.timestampType" -> "TIMESTAMP_NTZ") {
        val copied = analyzed.withNewChildren(analyzed.children).clone()
        assert(copied.dataType == new StructType().add("a", TimestampType))
        assert(read().dataType == new StructType().add("a", TimestampNTZType))
      }
    }
  }

  test("a schema and type_ids can be calls of functions that Spark replaces") {
    def replaced(value: Expression) = FunctionCall("a_function", Nil, value)
    both.foreach { function =>
      val call = function(tuple, replaced(schema), replaced(ids(23, 25)), noOptions)
      checkEvaluation(call, out(1, "x"), input(text("1", "x")))
    }
    refused(typeIds = replaced(ids(23)))("there are 1 type_ids")
  }

  test("some of the columns can be read, in their order") {
    both.foreach { function =>
      val whole =
        evaluator(function(tuple, Literal("a INT, b STRING, c DOUBLE"), unknown, noOptions))
      val part = whole.withColumns(Seq(0, 2))
      assert(part.dataType == StructType.fromDDL("a INT, c DOUBLE"))
      checkEvaluation(part, out(1, 2.5), input(text("1", "x", "2.5")))
      assert(part.withColumns(Seq(1)).rowType.fieldNames.toSeq == Seq("b"))
    }
  }

  test("the same call is the same expression, also with declared types") {
    both.foreach { function =>
      def read = function(tuple, schema, unknown, options("type.16402" -> "array:range:int4"))
      assert(read.canonicalized == read.canonicalized)
    }
  }

  test("column names do not have the arguments that were left out") {
    both.zip(Seq("pgoutput_row", "try_pgoutput_row")).foreach { case (function, name) =>
      val column = AttributeReference("t", TupleSchema.schema)()
      assert(toPrettySQL(function(column, schema, unknown, noOptions)) ==
        s"$name(t, a INT, b STRING)")
      assert(toPrettySQL(function(column, schema, ids(23, 25), Literal(null))) ==
        s"$name(t, a INT, b STRING, array(23, 25))")
      assert(toPrettySQL(function(column, schema, unknown, options("mode" -> "PERMISSIVE"))) ==
        s"$name(t, a INT, b STRING, NULL, map(mode, PERMISSIVE))")
      val read = evaluator(function(column, schema, unknown, noOptions))
      assert(read.withColumns(Seq(1)).toString == s"$name($column, a INT,b STRING)[b]")
    }
  }

  test("an evaluator is the same on an executor as on the driver") {
    both.foreach { function =>
      val sent = evaluator(function(tuple, schema, idsColumn, options("type.16402" -> "int4")))
      val cells = input(text("1", "x"), 16402L, null)
      sent.eval(cells) // Its state must not be sent.
      val expression = JavaSerialization.copied(sent)
      assert(expression == sent)
      assert(expression.eval(cells) == sent.eval(cells))
    }
  }

  test("several threads can use one evaluator, and its rows do not change") {
    val threads = Executors.newFixedThreadPool(4)
    implicit val context: ExecutionContext = ExecutionContext.fromExecutor(threads)
    try {
      val expression = evaluator(row(tuple, Literal("a ARRAY<INT>"), idsColumn, noOptions))
      def evaluated(number: Int) =
        expression.eval(input(text(s"{$number,$number}"), if (number % 2 == 0) 1007L else null))
          .asInstanceOf[InternalRow]
      val runs = Future.traverse((1 to 4).toList) { number =>
        Future {
          val first = evaluated(number)
          val others = (1 to 10000).count { _ =>
            evaluated(number).getArray(0).toIntArray().toSeq != Seq(number, number)
          }
          others + (if (first == evaluated(number)) 0 else 1)
        }
      }
      assert(Await.result(runs, 1.minute).sum == 0)
    } finally threads.shutdown()
  }
}

class SchemaFunctionSuite extends MessageFunctionTests {
  private def schema(arguments: Expression*): Expression = SchemaFunction.schema.call(arguments)

  private val relation = BoundReference(0, RelationSchema.schema, nullable = true)

  /** public.orders: id int8, amount numeric(12,2), state of a type with oid 16402. */
  private val orders = "52 0000404a 7075626c696300 6f726465727300 64 0003" +
    "01 696400 00000014 ffffffff" + "00 616d6f756e7400 000006a4 000c0006" +
    "00 737461746500 00004012 ffffffff"

  private val input = InternalRow(
    decoded(orders).getStruct(MessageSchema.RELATION, RelationSchema.schema.length)
  )

  private val known =
    "id BIGINT COMMENT 'int8', amount DECIMAL(12,2) COMMENT 'numeric(12,2)', state "

  test("the DDL has the columns' names and types, and PostgreSQL's types as comments") {
    val unknown = s"${known}STRING COMMENT 'type with oid 16402'"
    checkEvaluation(schema(relation), unknown, input)
    checkEvaluation(schema(relation, Literal(null)), unknown, input)
    checkEvaluation(schema(relation, options()), unknown, input)
  }

  test("an option names the type behind an oid") {
    checkEvaluation(
      schema(relation, options("type.16402" -> "int4")),
      s"${known}INT COMMENT 'int4'",
      input
    )
    checkEvaluation(
      schema(relation, options("type.16402" -> "array:enum")),
      s"${known}ARRAY<STRING> COMMENT 'enum[]'",
      input
    )
  }

  test("a NULL relation gives NULL") {
    checkEvaluation(schema(relation), null, InternalRow(null))
    checkEvaluation(schema(Literal(null)), null, InternalRow())
  }

  test("the DDL is NULL if the columns, one of them or its name is NULL") {
    val column = InternalRow(true, null, 20L, -1)
    Seq(null, new GenericArrayData(Seq(null)), new GenericArrayData(Seq(column))).foreach {
      columns =>
        val relation = InternalRow(UTF8String.fromString("public"), null, null, columns)
        checkEvaluation(schema(this.relation), null, InternalRow(relation))
    }
  }

  private def refused(arguments: Expression*)(texts: String*): Unit = {
    val error = intercept[AnalysisException](schema(arguments: _*))
    assert(error.getCondition.startsWith("DATATYPE_MISMATCH."))
    texts.foreach(part => assert(error.getMessage.contains(part)))
  }

  test("wrong arguments are refused") {
    refused(Literal("orders"))("relation", "STRING")
    refused(relation, Literal("mode"))("map of strings", "STRING")
    refused(relation, options("modus" -> "x"))("There is no option 'modus'")
    refused(relation, BoundReference(1, MapType(StringType, StringType), nullable = true))(
      "must be constant"
    )
  }
}
