package io.sparkpgoutput.rows.sql

import java.time.ZoneId

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.analysis.TypeCheckResult
import org.apache.spark.sql.catalyst.analysis.TypeCheckResult.{TypeCheckFailure, TypeCheckSuccess}
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.Block._
import org.apache.spark.sql.catalyst.expressions.codegen._
import org.apache.spark.sql.catalyst.util.{ArrayData, MapData}
import org.apache.spark.sql.pgoutput.NullableSchema
import org.apache.spark.sql.types._

import io.sparkpgoutput.options.{
  FunctionOptions,
  OptionList,
  RowOptions,
  SchemaArgument,
  ShownCall,
  StructShape
}
import io.sparkpgoutput.protocol.TupleSchema
import io.sparkpgoutput.rows.{RowSchema, TupleReader}

/**
 * A function that reads a tuple to a row of a schema: what `pgoutput_row` and `try_pgoutput_row` have
 * in common. NULL for a NULL tuple only.
 */
abstract class RowFunction
    extends QuaternaryExpression
    with TypedRow
    with TimeZoneAwareExpression {
  import RowFunction._

  def tuple: Expression
  def schema: Expression
  def typeIds: Expression
  def options: Expression

  /** The positions of the columns that are wanted; None for all. */
  def required: Option[Seq[Int]]
  override def withRequired(positions: Seq[Int]): RowFunction

  /** Whether the optimizer has put the tuple's bytes, as they stand in the message, in its place. */
  def fromCells: Boolean
  def ofCells(cells: Expression): RowFunction

  /** Whether a value that does not fit is an error, or NULL. */
  def failFast: Boolean

  /** The options that it has. */
  def optionList: OptionList[RowOptions] = RowOptions.row

  final override def first: Expression = tuple
  final override def second: Expression = schema
  final override def third: Expression = typeIds
  final override def fourth: Expression = options
  final override def nullable: Boolean = true

  /** Not evaluated twice where Spark 4.2 and later can avoid it (no `override`: 4.0 has it not). */
  def expensive: Boolean = true

  /** What the schema is, once it has been analyzed. */
  def analyzedRow: Option[StructType]

  /**
   * Read with the session's settings, by which TIMESTAMP may be another type. So it is kept from the
   * analysis on, in which a view has its own settings; executors may have none.
   */
  @transient final override lazy val wholeRow: StructType =
    analyzedRow.getOrElse(NullableSchema.of(SchemaArgument.parse(schema, "the argument 'schema'")))

  final override def withTimeZone(timeZoneId: String): TimeZoneAwareExpression =
    analyzed(timeZoneId, Option.when(schema.resolved)(wholeRow))

  protected def analyzed(timeZoneId: String, row: Option[StructType]): RowFunction

  final override def dataType: DataType =
    required.fold(wholeRow)(positions => StructType(positions.map(wholeRow(_))))

  final override def checkInputDataTypes(): TypeCheckResult =
    firstProblem.fold[TypeCheckResult](TypeCheckSuccess)(TypeCheckFailure)

  private def firstProblem: Option[String] =
    Option
      .when(!fromCells && !isTuple(tuple.dataType))(
        "the first argument must be a tuple, such as d.new of a row d of pgoutput_decode, and not " +
          tuple.dataType.sql
      )
      .orElse(Option.when(!isTypeIds(typeIds.dataType))(TypeIdsHint + typeIds.dataType.sql))
      .orElse(Option.when(!options.foldable)("the options must be constant"))
      .orElse(
        Option.when(!FunctionOptions.isOptions(options.dataType))(
          s"the options must be a map of strings to strings, and not ${options.dataType.sql}"
        )
      )
      .orElse(parsedOptions.left.toOption)
      .orElse(constantTypeIds.flatMap(ids => wholeSchema.conversions(ids).left.toOption))

  @transient private lazy val parsedOptions: Either[String, RowOptions] =
    optionList.parse(FunctionOptions.entries(options.eval().asInstanceOf[MapData]))

  /** The options, which the analysis has checked. */
  def rowOptions: RowOptions =
    parsedOptions.fold(problem => throw new IllegalArgumentException(problem), identity)

  /** The oids that are the same in each row; None where a column has them. */
  def constantTypeIds: Option[Seq[Long]] =
    Option.when(typeIds.foldable)(typeIds.eval()).map {
      case ids: ArrayData => TupleReader.oids(ids).toSeq
      case _              => wholeSchema.unknown
    }

  private def wholeSchema: RowSchema = {
    // Before the analyzer has set the session's, any time zone serves to find the conversions.
    val sessionZone = if (timeZoneId.isDefined) zoneId else ZoneId.of("UTC")
    val options = rowOptions
    RowSchema(
      wholeRow,
      wholeRow.indices,
      options.conversionIn(sessionZone),
      options.types,
      failFast
    )
  }

  /** What its rows are and how they are read. */
  def rowSchema: RowSchema =
    required.fold(wholeSchema)(positions => wholeSchema.copy(required = positions))

  /** A reader for one task; generated code calls it. */
  def newReader(): Any = new TupleReader(rowSchema)

  /** One a thread, for nothing keeps Spark from sharing an interpreted expression. */
  @transient private lazy val readers: ThreadLocal[TupleReader] =
    ThreadLocal.withInitial(() => new TupleReader(rowSchema))

  final override def eval(row: InternalRow): Any = {
    def ids = typeIds.eval(row).asInstanceOf[ArrayData]
    tuple.eval(row) match {
      case cells: InternalRow => readers.get.read(cells, ids).copy()
      case cells: Array[Byte] => readers.get.read(cells, ids).copy()
      case _                  => null
    }
  }

  /** Hands on the reader's own row, which the next tuple overwrites, as `DecodeFunction` does. */
  final override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val function = ctx.addReferenceObj("function", this, classOf[RowFunction].getName)
    val readerClass = classOf[TupleReader].getName
    val reader = ctx.addMutableState(
      readerClass,
      "tupleReader",
      name => s"$name = ($readerClass) $function.newReader();"
    )
    val tupleClass = if (fromCells) "byte[]" else "InternalRow"
    val cells = tuple.genCode(ctx)
    val ids = typeIds.genCode(ctx)
    val idsOrNull = s"${ids.isNull} ? null : (ArrayData) ${ids.value}"
    ev.copy(code = code"""
      ${cells.code}
      InternalRow ${ev.value} = null;
      if (!${cells.isNull}) {
        ${ids.code}
        ${ev.value} = $reader.read(($tupleClass) ${cells.value}, $idsOrNull);
      }
      boolean ${ev.isNull} = ${ev.value} == null;""")
  }

  final override def sql: String = call(_.sql)
  override def toString: String =
    call(_.toString) + required.fold("")(_.map(wholeRow(_).name).mkString("[", ", ", "]"))

  private def call(show: Expression => String): String =
    ShownCall.of(prettyName, Seq(tuple, schema), Seq(typeIds, options))(show)
}

object RowFunction {
  private val TypeIdsType = ArrayType(LongType)

  private val TypeIdsHint =
    "the type_ids must be an ARRAY<BIGINT> with the oid of each column's type, such as " +
      "r.relation.columns.type_id, and not "

  val noTypeIds: Literal = Literal.create(null, TypeIdsType)

  private def isTypeIds(dataType: DataType) = dataType match {
    case ArrayType(LongType | NullType, _) | NullType => true
    case _                                            => false
  }

  private def isTuple(dataType: DataType) =
    dataType == NullType || StructShape.same(dataType, TupleSchema.schema)
}
