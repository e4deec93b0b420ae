package io.sparkpgoutput.lake.catalog

import org.apache.spark.sql.catalyst.util.QuotingUtils
import org.apache.spark.sql.connector.expressions.{Literal, NamedReference, Transform}
import org.apache.spark.sql.pgoutput.TablePlans

/**
 * How the rows of a table of the target are laid out in files, by the options `partition` and `cluster`.
 *
 * @param partition the fields that have the same value in all rows of a file
 * @param cluster the columns by which rows are near each other
 */
final case class TableShape(partition: Seq[PartitionField] = Nil, cluster: Seq[String] = Nil) {
  def isNone: Boolean = partition.isEmpty && cluster.isEmpty

  /** Returns the same shape with other names of columns. */
  def renamed(name: String => String): TableShape = TableShape(
    partition.map(field => field.copy(column = name(field.column))),
    cluster.map(name)
  )

  override def toString: String = Seq(
    "partition" -> partition.map(_.sql),
    "cluster" -> cluster.map(QuotingUtils.quoteIfNeeded)
  ).collect { case (option, fields) if fields.nonEmpty => s"$option ${fields.mkString(", ")}" }
    .mkString("; ")
}

object TableShape {
  val none: TableShape = TableShape()

  /** Reads a list such as `days(created_at), bucket(16, id)`. None if it is not one. */
  def partition(text: String): Option[Seq[PartitionField]] = for {
    transforms <- TablePlans.partitioning(text)
    fields = transforms.flatMap(PartitionField.of(_))
    if fields.length == transforms.length
  } yield fields

  /** Reads a list of columns. None if it is not one. */
  def columns(text: String): Option[Seq[String]] =
    partition(text).filter(_.forall(_.isColumn)).map(_.map(_.column))
}

/**
 * A field of a partitioning.
 *
 * @param transform `identity`, or a function such as `days` or `bucket`
 * @param number the number of buckets, or the width of a truncation
 */
final case class PartitionField(column: String, transform: String, number: Option[Int] = None) {
  import PartitionField._

  /** Returns whether the field is a column itself. */
  def isColumn: Boolean = transform == Identity

  /** The field in PARTITIONED BY. */
  def sql: String = {
    val name = QuotingUtils.quoteIfNeeded(column)
    if (isColumn) name else s"$transform(${(number.map(_.toString).toSeq :+ name).mkString(", ")})"
  }
}

object PartitionField {
  final val Identity = "identity"

  /** Spark has other names of these functions, too. */
  private val Names =
    Map("year" -> "years", "month" -> "months", "day" -> "days", "hour" -> "hours")

  def of(transform: Transform): Option[PartitionField] = {
    val columns =
      transform.arguments.toSeq.collect { case column: NamedReference => column.fieldNames.toSeq }
    val numbers = transform.arguments.toSeq.collect { case literal: Literal[_] => literal.value }
    val name = transform.name.toLowerCase(java.util.Locale.ROOT)
    (columns, numbers) match {
      case (Seq(Seq(column)), Seq()) => Some(PartitionField(column, Names.getOrElse(name, name)))
      case (Seq(Seq(column)), Seq(number: Int)) => Some(PartitionField(column, name, Some(number)))
      case _                                    => None
    }
  }
}
