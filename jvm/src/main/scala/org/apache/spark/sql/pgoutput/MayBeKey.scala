package org.apache.spark.sql.pgoutput

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode}
import org.apache.spark.sql.catalyst.expressions.{Expression, Predicate, UnaryExpression}
import org.apache.spark.util.sketch.BloomFilter

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
