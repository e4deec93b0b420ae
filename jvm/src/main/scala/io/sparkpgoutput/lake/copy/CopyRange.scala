package io.sparkpgoutput.lake.copy

import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.lake.table.{Leaf, QuotedName}
import io.sparkpgoutput.source.connection.ServerConnection

/**
 * The rows of a table or a partition that one task reads: those in some of its pages.
 *
 * @param firstPage
 *   the first page; None for all rows, if the table has no pages or the role cannot read their numbers
 * @param endPage the page after the last one; None for all pages to the end
 * @param bytes the size of the pages with their TOASTed values, if all pages have the same
 */
final private case class CopyRange(
    oid: Long,
    name: TableName,
    fileNode: Long,
    firstPage: Option[Long],
    endPage: Option[Long],
    bytes: Long
) {

  /** The condition in SQL, if there is one. The server reads only these pages (TID Range Scan). */
  def condition: Option[String] = {
    val from = firstPage.filter(_ > 0).map(page => s"ctid >= '($page,0)'")
    val until = endPage.map(page => s"ctid < '($page,0)'")
    Option.when(from.isDefined || until.isDefined)((from ++ until).mkString(" AND "))
  }

  /** The table in SQL, without those that inherit from it. */
  def from: String = s"ONLY ${QuotedName(name)}"
}

private object CopyRange {
  private val LeastBytes = 8L << 20
  private val MostBytes = 256L << 20

  /**
   * Splits tables into ranges of about the same size: at least one for each core, unless they get too
   * small. The tables can grow meanwhile, so the last range of each has no end.
   */
  def of(connection: ServerConnection, files: Seq[Leaf], cores: Int): Seq[CopyRange] = {
    val sizes = files.map(file => file -> size(connection, file))
    val total = sizes.map(_._2.bytes).sum
    val wanted = math.max(LeastBytes, math.min(MostBytes, total / math.max(cores, 1)))
    sizes.flatMap { case (file, size) => split(file, size, wanted) }
  }

  private def split(file: Leaf, size: Size, wanted: Long): Seq[CopyRange] = {
    val whole = CopyRange(file.oid, file.name, file.fileNode, None, None, size.bytes)
    if (!size.hasPages) Seq(whole)
    else {
      val count = math.max(1, math.min(size.pages, (size.bytes + wanted / 2) / wanted))
      val starts = (0L until count).map(_ * size.pages / count)
      starts.zip(starts.drop(1).map(Option(_)) :+ None).map { case (first, end) =>
        whole.copy(firstPage = Some(first), endPage = end, bytes = size.bytes / count)
      }
    }
  }

  /** @param bytes the size with TOASTed values */
  final private case class Size(pages: Long, bytes: Long, hasPages: Boolean)

  private def size(connection: ServerConnection, file: Leaf): Size = connection
    .query(
      """SELECT pg_relation_size(c.oid) / current_setting('block_size')::int AS pages,
        |  pg_table_size(c.oid) AS bytes, am.amname = 'heap'
        |    AND has_column_privilege(c.oid, 'ctid', 'SELECT') AS has_pages
        |FROM pg_class c JOIN pg_am am ON am.oid = c.relam WHERE c.oid = ?::oid""".stripMargin,
      file.oid
    )(row => Size(row.getLong("pages"), row.getLong("bytes"), row.getBoolean("has_pages")))
    .headOption
    .getOrElse(Size(0, 0, hasPages = false))
}
