package org.apache.spark.sql.pgoutput

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode}
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation
import org.apache.spark.sql.catalyst.util.{DateTimeUtils, TypeUtils, UnsafeRowUtils}
import org.apache.spark.sql.classic.ClassicConversions.castToImpl
import org.apache.spark.sql.classic.{ColumnNodeToExpressionConverter, ExpressionUtils}
import org.apache.spark.sql.types._
import org.apache.spark.sql.{Column, DataFrame}
import org.apache.spark.util.sketch.BloomFilter

/**
 * A condition that is true for all rows of a large table that have a key of a small one, and for few
 * others. It is what Spark's `InjectRuntimeFilter` does for tables of many gigabytes.
 */
object KeyFilter {

  /** With 10 bits for each key, one row in a hundred passes the filter by chance. */
  final private val BitsPerKey = 10

  /**
   * Reads the keys, and returns the condition. Returns None if there are no keys. Also returns None
   * if a column of the table has another type than the key, and equal values of the two types can
   * have different hashes.
   *
   * @param keys the rows with the keys
   * @param most an upper bound of the number of keys
   * @param key the columns of the keys
   * @param table the columns of the table with their types, in the same order
   * @param hasLimits
   *   true also compares columns with the least and the greatest key, because formats leave out files by
   *   such limits
   */
  def of(
      keys: DataFrame,
      most: Long,
      key: Seq[String],
      table: Seq[(Column, DataType)],
      hasLimits: Boolean
  ): Option[Column] = {
    val types = key.map(keys.schema(_).dataType)
    val (columns, columnTypes) = table.unzip
    val limited = if (hasLimits) key.indices.filter(index => isOrdered(types(index))) else Nil
    val found =
      if (!types.corresponds(columnTypes)(isComparable)) None
      else new Keys(keys, key, limited).found(most)
    found.map { found =>
      val searched = columns.map(column => ColumnNodeToExpressionConverter(column.node))
      // A value of a wider type that does not fit in the key's type is not a key.
      val comparable = searched.zip(types).map { case (column, dataType) =>
        Cast(column, dataType, None, EvalMode.TRY)
      }
      val filter = MayBeKey(new XxHash64(comparable), found.hashes)
      val ranges = limited.zip(found.limits).flatMap { case (index, (least, greatest)) =>
        Seq(
          GreaterThanOrEqual(searched(index), Literal(lowered(least, types(index)), types(index))),
          LessThanOrEqual(searched(index), Literal(greatest, types(index)))
        )
      }
      ExpressionUtils.column((ranges :+ filter).reduce(And(_, _)))
    }
  }

  /**
   * What keys have in common.
   *
   * @param limits the least and the greatest value of some columns, NULL if all values are
   */
  final private case class Found(hashes: BloomFilter, limits: Seq[(Any, Any)])

  /**
   * The keys in the rows of a DataFrame.
   *
   * @param limited the positions of the columns in the key that have limits
   */
  final private class Keys(rows: DataFrame, key: Seq[String], limited: Seq[Int]) {
    def found(most: Long): Option[Found] = castToImpl(rows).queryExecution.analyzed match {
      case local: LocalRelation => ofRows(local.data)
      case _                    => byQuery(most)
    }

    private def byQuery(most: Long): Option[Found] = {
      val columns = key.map(UnresolvedAttribute.quoted)
      val bits = Literal(math.max(64, most * BitsPerKey))
      val hashes = new BloomFilterAggregate(new XxHash64(columns), Literal(most), bits)
      val limits = limited.flatMap(index => Seq(Min(columns(index)), Max(columns(index))))
      def column(function: AggregateFunction) =
        ExpressionUtils.column(function.toAggregateExpression())
      val aggregated = rows.agg(column(hashes), limits.map(column): _*)
      val row = RowsOfRdd.of(aggregated).map(_.copy()).first()
      Option.when(!row.isNullAt(0)) {
        def limit(at: Int) = row.get(at, aggregated.schema(at).dataType)
        val found = (1 until row.numFields by 2).map(at => (limit(at), limit(at + 1)))
        Found(BloomFilter.readFrom(row.getBinary(0)), found)
      }
    }

    /** Reads keys that the driver has, without a job. */
    private def ofRows(data: Seq[InternalRow]): Option[Found] = Option.when(data.nonEmpty) {
      val columns = key.map { name =>
        val ordinal = rows.schema.fieldIndex(name)
        BoundReference(ordinal, rows.schema(ordinal).dataType, nullable = true)
      }
      val hash = new XxHash64(columns)
      val hashes =
        BloomFilter.create(data.length.toLong, math.max(64L, data.length.toLong * BitsPerKey))
      data.foreach(row => hashes.putLong(hash.eval(row).asInstanceOf[Long]))
      val limits = limited.map { index =>
        val ordering = TypeUtils.getInterpretedOrdering(columns(index).dataType)
        val values = data.iterator.map(columns(index).eval(_)).filter(_ != null).toSeq
        if (values.isEmpty) (null, null) else (values.min(ordering), values.max(ordering))
      }
      Found(hashes, limits)
    }
  }

  /**
   * Returns a limit that Spark does not raise. Spark gives Parquet a day as a `java.sql.Date`. That lacks the days from
   * 1582-10-05 to 1582-10-14, and days that the zone of the JVM has skipped, such as 2011-12-30 in Samoa. They become a
   * later day, and Parquet would leave out their rows. (The greatest key may be raised.)
   */
  private def lowered(least: Any, dataType: DataType): Any = (least, dataType) match {
    case (day: Int, DateType) =>
      def passed(day: Int) = DateTimeUtils.fromJavaDate(DateTimeUtils.toJavaDate(day))
      Iterator.iterate(day)(_ - 1).find(passed(_) <= day).get
    case _ => least
  }

  /** Returns whether equal values of both types are equal after a cast to the key's type, and so have one hash. */
  private def isComparable(key: DataType, column: DataType): Boolean = (key, column) match {
    case (_: IntegralType, _: IntegralType)       => true
    case (FloatType, DoubleType)                  => true
    case (narrow: DecimalType, wide: DecimalType) => narrow.scale == wide.scale
    // Different texts can be equal by their collation.
    case _ =>
      UnsafeRowUtils.isBinaryStable(column) && DataType.equalsIgnoreNullability(key, column)
  }

  /**
   * The types whose limits leave out no file and no row group that has a key. The limits of these
   * other types can leave one out:
   *   - DECIMAL: Spark cuts off the upper bits of a limit for a file from before the column was
   *     widened (`ParquetFilters.decimalToInt32`).
   *   - TIMESTAMP: Delta keeps the least and the greatest value of a file as a text in the
   *     session's time zone, without the seconds of its offset, which zones have before about 1920.
   */
  private def isOrdered(dataType: DataType): Boolean = dataType match {
    case _: IntegralType | DateType => true
    case _                          => false
  }
}

/**
 * Returns whether a hash can be the hash of one of the keys in a Bloom filter. If this is false, no key has the
 * hash.
 *
 * Its SQL leaves the filter out, because Delta writes the condition of a MERGE into the commit.
 *
 * @param child the hash, a BIGINT that is not NULL
 */
final case class MayBeKey(child: Expression, hashes: BloomFilter)
    extends UnaryExpression
    with Predicate {

  override def prettyName: String = "may_be_key"
  override def nullable: Boolean = false
  override def toString: String = s"$prettyName($child)"

  override def eval(row: InternalRow): Any =
    hashes.mightContainLong(child.eval(row).asInstanceOf[Long])

  override protected def doGenCode(context: CodegenContext, code: ExprCode): ExprCode = {
    // A reference keeps the generated code the same in each batch, so that it is compiled once.
    val filter = context.addReferenceObj("hashes", hashes, classOf[BloomFilter].getName)
    defineCodeGen(context, code, hash => s"$filter.mightContainLong($hash)")
  }

  override protected def withNewChildInternal(child: Expression): MayBeKey = copy(child = child)
}
