package io.sparkpgoutput.lake.target

import java.util.Locale

import io.sparkpgoutput.changes.{TableName, TablePattern}

/** The names that tables have in the target. Names that differ only in case are the same. */
object TargetNames {

  /** The table of the job's own state. */
  val Reserved = "_spark_pgoutput"

  /** How the name of a table begins in which changes wait for a copy. */
  val Waiting: String = s"${Reserved}_waiting_"

  /** Returns whether a name is one of the job's own tables: the state, or one whose name begins so. */
  def isReserved(name: String): Boolean =
    folded(name) == Reserved || folded(name).startsWith(s"${Reserved}_")

  final private val PublicNamespace = "public"

  /**
   * Works out the names of all tables.
   *
   * @param template
   *   a text with `{table}` and perhaps `{schema}`. By default, a table of the schema public keeps its
   *   name, and another one is `{schema}_{table}`.
   * @param names
   *   the names of single tables. A key is `schema.table`, or `table` for a table of public; SQL's
   *   quotes are possible.
   * @param problem why the target cannot have a name
   * @param kept the names that tables have already, which win over all others
   * @throws LakeException if two tables get the same name, or if a table gets one that cannot be
   */
  def of(
      tables: Seq[TableName],
      template: Option[String],
      names: Map[String, String],
      problem: String => Option[String] = _ => None,
      kept: Map[TableName, String] = Map.empty
  ): Map[TableName, String] = {
    val named =
      tables.map(table => table -> kept.getOrElse(table, name(table, template, names)))
    named.foreach { case (table, name) =>
      val reserved =
        Option.when(isReserved(name))("The job keeps its own state under such names.")
      reserved.orElse(problem(name)).foreach { problem =>
        throw TargetError.name(
          s"The table $table cannot be '$name' in the target. $problem Set " +
            s"${entry(table, name, named)}, which works, or give it another name."
        )
      }
    }
    collision(named).foreach { case (one, other, name) =>
      throw TargetError.name(
        s"The tables $one and $other would both be '$name' in the target. Set " +
          s"${entry(other, s"${other.namespace}_${other.name}", named)}, or give one of them another name."
      )
    }
    named.toMap
  }

  /**
   * Checks the columns of a table, which PostgreSQL tells apart by their case.
   *
   * @param others the columns that a history has beside them
   * @param problem why a column of the target cannot have a name
   */
  def checkColumns(
      table: TableName,
      columns: Seq[String],
      others: Seq[String] = Nil,
      problem: String => Option[String] = _ => None
  ): Unit = {
    for (column <- columns; problem <- problem(column))
      throw TargetError.name(
        s"The table $table has a column '$column', and the target cannot have it. $problem Rename the " +
          "column, or leave it out with a column list of the publication."
      )
    collision(columns.map(column => column -> column)).foreach { case (one, other, _) =>
      throw TargetError.name(
        s"The columns '$one' and '$other' of the table $table differ only in case, and the target has " +
          "one column for both. Rename one of them, or leave it out with a column list of the publication."
      )
    }
    columns.find(column => others.exists(_.equalsIgnoreCase(column))).foreach { column =>
      throw TargetError.name(
        s"The table $table has a column '$column', and so has each change in its history. Set the option " +
          "historyPrefix to a text with which the columns of a change begin, such as cdc_. A history that " +
          "exists keeps its columns: rename the column of the table, or leave it out with a column list " +
          "of the publication."
      )
    }
  }

  private def name(table: TableName, template: Option[String], names: Map[String, String]) =
    names.collectFirst { case (key, name) if isOf(key, table) => name }.getOrElse(
      template.getOrElse(
        if (table.namespace == PublicNamespace) "{table}" else "{schema}_{table}"
      ) match {
        // At once, because a name can have braces too.
        case pattern =>
          """\{(schema|table)\}""".r.replaceAllIn(
            pattern,
            found =>
              scala.util.matching.Regex.quoteReplacement(
                if (found.group(1) == "schema") table.namespace else table.name
              )
          )
      }
    )

  /** Tells whether a user means a table: `schema.table`, or `table` for a table of public. */
  def isOf(key: String, table: TableName): Boolean =
    key == table.toString ||
      key == table.name && table.namespace == PublicNamespace ||
      TablePattern.parse(key).exists {
        case Seq(TablePattern(namespace, Some(name))) => TableName(namespace, name) == table
        case _                                        => false
      }

  /** The option that gives a table a name that every catalog takes, and that no other table has. */
  private def entry(table: TableName, name: String, named: Seq[(TableName, String)]) = {
    val plain = name.replaceAll("[^A-Za-z0-9_]+", "_").replaceAll("^_+|_+$", "") match {
      case ""   => "table"
      case some => some
    }
    val taken = named.map { case (_, name) => folded(name) }.toSet + Reserved
    val free =
      Iterator.from(2).map(number => s"${plain}_$number").find(name => !taken(folded(name))).get
    s"names.$table=${if (taken(folded(plain))) free else plain}"
  }

  /** The first two that have the same name. */
  private def collision[A](named: Seq[(A, String)]): Option[(A, A, String)] =
    named.groupBy(named => folded(named._2)).values.collectFirst {
      case (one, name) +: (other, _) +: _ => (one, other, name)
    }

  /** The name as a key. Many catalogs take names that differ only in case for one name. */
  def folded(name: String): String = name.toLowerCase(Locale.ROOT)
}
