package io.sparkpgoutput.changes

import scala.annotation.tailrec

import org.apache.spark.sql.catalyst.InternalRow

import io.sparkpgoutput.protocol.RelationSchema

/** The name of a table, with its schema in PostgreSQL. */
final case class TableName(namespace: String, name: String) {

  /** Both names without quotes. Two tables can share this text: `"a.b".c` and `a."b.c"`. */
  override def toString: String = s"$namespace.$name"

  /**
   * Both names as a user can write them. They are in quotes if SQL would read the text without quotes as the names of
   * another table, or if one has a point. So no two tables have the same text.
   */
  def unambiguous: String = {
    val others = TablePattern.meant(toString) - this - TableName("public", toString)
    if (others.isEmpty && !toString.startsWith("\"")) toString
    else quoted
  }

  /** Both names in quotes. */
  def quoted: String =
    Seq(namespace, name).map(part => s"\"${part.replace("\"", "\"\"")}\"").mkString(".")
}

object TableName {

  /** The name of the table that a struct of [[RelationSchema]] describes. */
  def of(relation: InternalRow): TableName = TableName(
    relation.getUTF8String(RelationSchema.NAMESPACE).toString,
    relation.getUTF8String(RelationSchema.NAME).toString
  )

  /** PostgreSQL sends an empty namespace for pg_catalog (`logicalrep_write_namespace`). */
  def apply(namespace: String, name: String): TableName =
    new TableName(if (namespace.isEmpty) "pg_catalog" else namespace, name)
}

/** One table, or all tables of a namespace if the name is None. */
final case class TablePattern(namespace: String, name: Option[String]) {
  def matches(table: TableName): Boolean =
    table.namespace == namespace && name.forall(_ == table.name)

  override def toString: String = s"$namespace.${name.getOrElse("*")}"
}

object TablePattern {

  /** Returns whether a user means a table: `schema.table`, or `table` for a table of public. */
  def isOf(key: String, table: TableName): Boolean = meant(key)(table)

  /** All tables that a user can mean by one text: as it is, or in SQL's notation. */
  def meant(key: String): Set[TableName] = {
    val points = key.indices.filter(at => key(at) == '.' && at > 0)
    val plain = points.map(at => TableName(key.substring(0, at), key.substring(at + 1))).toSet
    plain + TableName(PublicNamespace, key) ++ parse(key).toSeq.collect {
      case Seq(TablePattern(namespace, Some(name))) => TableName(namespace, name)
    }
  }

  final private val PublicNamespace = "public"
  private val Part = """"(?:[^"]|"")+"|`(?:[^`]|``)+`|[^\s"`.,*]+"""
  private val Pattern = s"""\\s*($Part)\\s*(?:\\.\\s*($Part|\\*)\\s*)?""".r

  /**
   * Parses a list of names in SQL's notation. Names in quotes stay as they are, and other names
   * become lower case. As in PostgreSQL (`downcase_identifier`), that affects only ASCII letters. A
   * name without a namespace is in the namespace public.
   *
   * @return Left with the rest of the list that cannot be parsed
   */
  def parse(list: String): Either[String, Seq[TablePattern]] = {
    val one = Pattern.pattern.matcher(list)
    @tailrec def add(
        from: Int,
        patterns: Vector[TablePattern]
    ): Either[String, Seq[TablePattern]] =
      if (!one.region(from, list.length).lookingAt()) Left(list.substring(from))
      else {
        val first = unquoted(one.group(1))
        val pattern = one.group(2) match {
          case null => TablePattern(PublicNamespace, Some(first))
          case "*"  => TablePattern(first, None)
          case name => TablePattern(first, Some(unquoted(name)))
        }
        if (one.end == list.length) Right(patterns :+ pattern)
        else if (list.charAt(one.end) == ',') add(one.end + 1, patterns :+ pattern)
        else Left(list.substring(one.end))
      }
    add(0, Vector.empty)
  }

  private def unquoted(part: String): String = part.head match {
    case quote @ ('"' | '`') =>
      part.substring(1, part.length - 1).replace(s"$quote$quote", quote.toString)
    case _ => part.map(char => if (char >= 'A' && char <= 'Z') char.toLower else char)
  }
}
