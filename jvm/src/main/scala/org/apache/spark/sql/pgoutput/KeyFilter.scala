package org.apache.spark.sql.pgoutput

import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.{
  AggregateFunction,
  BloomFilterAggregate,
  Max,
  Min
}
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
   * Reads the keys, and returns the condition; None if there are none.
   *
   * @param keys the rows with the keys
   * @param most how many keys there are, or more
   * @param key the columns of the keys
   * @param table the columns of the table, in the same order. They may have wider types.
   * @param hasLimits
   *   true compares columns with the least and the greatest value too, by which formats leave out files
   */
  def of(
      keys: DataFrame,
      most: Long,
      key: Seq[String],
      table: Seq[Column],
      hasLimits: Boolean
  ): Option[Column] = {
    val types = key.map(keys.schema(_).dataType)
    val columns = key.map(UnresolvedAttribute.quoted)
    val searched = table.map(column => ColumnNodeToExpressionConverter(column.node))
    val bits = Literal(math.max(64, most * BitsPerKey))
    val hashes = new BloomFilterAggregate(new XxHash64(columns), Literal(most), bits)
    val limited = if (hasLimits) key.indices.filter(index => isOrdered(types(index))) else Nil
    val limits = limited.flatMap(index => Seq(Min(columns(index)), Max(columns(index))))
    val row = aggregate(keys, hashes +: limits)
    Option.when(!row.isNullAt(0)) {
      // A value of a wider type that does not fit in the key's type is no key.
      val comparable = searched.zip(types).map { case (column, dataType) =>
        Cast(column, dataType, None, EvalMode.TRY)
      }
      val filter = MayBeKey(new XxHash64(comparable), BloomFilter.readFrom(row.getBinary(0)))
      val ranges = limited.zipWithIndex.flatMap { case (index, place) =>
        def limit(ordinal: Int) = Literal(row.get(ordinal, types(index)), types(index))
        Seq(
          GreaterThanOrEqual(searched(index), limit(2 * place + 1)),
          LessThanOrEqual(searched(index), limit(2 * place + 2))
        )
      }
      ExpressionUtils.column((ranges :+ filter).reduce(And(_, _)))
    }
  }

  private def aggregate(rows: DataFrame, functions: Seq[AggregateFunction]) = {
    val columns =
      functions.map(function => ExpressionUtils.column(function.toAggregateExpression()))
    RowsOfRdd.of(rows.agg(columns.head, columns.tail: _*)).map(_.copy()).first()
  }

  /** The types with an order of which formats keep the least and the greatest value of a file. */
  private def isOrdered(dataType: DataType): Boolean = dataType match {
    case ByteType | ShortType | IntegerType | LongType | _: DecimalType => true
    case DateType | TimestampType | TimestampNTZType                    => true
    case _                                                              => false
  }
}
