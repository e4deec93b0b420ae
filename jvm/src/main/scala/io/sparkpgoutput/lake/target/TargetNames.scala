package io.sparkpgoutput.lake.target

import scala.util.matching.Regex

import org.apache.spark.sql.types._

import io.sparkpgoutput.changes.{TableName, TablePattern}
import io.sparkpgoutput.errors.LakeException
import io.sparkpgoutput.lake.catalog.MirroredTable.folded
import io.sparkpgoutput.lake.catalog.{ColumnHiding, TableMode}

/** The names that tables have in the target. Names that differ only in case are the same. */
object TargetNames {

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
   * @param problem returns why the target cannot have a name
   * @param others the names of other tables, which the text of an error does not suggest
   * @param modes the modes of the tables. A mirror with a history has two names.
   * @throws LakeException if two tables get the same name, or if the target cannot have the name of a table
   */
  def of(
      tables: Seq[TableName],
      template: Option[String],
      names: Map[String, String],
      problem: String => Option[String] = _ => None,
      others: Iterable[String] = Nil,
      modes: TableName => TableMode = _ => TableMode.Mirror
  ): Map[TableName, String] = {
    val first = tables.map(table => table -> name(table, template, names))
    val named = first.flatMap { case (table, name) => modes(table).targets(name).map(table -> _) }
    val taken = (others ++ named.map(_._2)).map(folded).toSet
    def entry(table: TableName, name: String) = TargetNames.entry(table, name, modes(table), taken)
    named.foreach { case (table, name) =>
      problem(name).foreach { problem =>
        throw new LakeException(
          "PGOUTPUT_TARGET_NAME.TABLE",
          "table" -> table,
          "name" -> name,
          "problem" -> problem,
          "entry" -> entry(table, name)
        )
      }
    }
    collision(named).foreach { case (one, other, name) =>
      throw new LakeException(
        "PGOUTPUT_TARGET_NAME.SAME_TABLE",
        "one" -> one,
        "other" -> other,
        "name" -> name,
        "entry" -> entry(other, s"${other.namespace}_${other.name}")
      )
    }
    first.toMap
  }

  /**
   * Checks the columns of a table. In PostgreSQL, the names of two columns can differ only in case. In the
   * target, they cannot.
   *
   * @param mode the mode of the table, whose columns need other names
   * @param problem returns why a column of the target cannot have a name
   */
  def checkColumns(
      table: TableName,
      columns: Seq[String],
      mode: TableMode = TableMode.Mirror,
      problem: String => Option[String] = _ => None
  ): Unit = {
    for (column <- columns; problem <- problem(column))
      throw new LakeException(
        "PGOUTPUT_TARGET_NAME.COLUMN",
        "table" -> table,
        "column" -> column,
        "problem" -> problem,
        "entry" -> ColumnHiding.exclusion(table, column)
      )
    val named = columns.map(column => column -> column)
    // Spark compares names in lower case, and `equalsIgnoreCase` compares their letters one by one.
    collision(named).orElse(collision(named, letters)).foreach { case (one, other, _) =>
      throw new LakeException(
        "PGOUTPUT_TARGET_NAME.SAME_COLUMN",
        "one" -> one,
        "other" -> other,
        "table" -> table,
        "entry" -> ColumnHiding.exclusion(table, other)
      )
    }
    for (
      part <- mode.parts;
      column <- columns.find(name => part.columns.exists(_.name.equalsIgnoreCase(name)))
    )
      throw part match {
        case TableMode.History(_) => new LakeException(
            "PGOUTPUT_TARGET_NAME.HISTORY_COLUMN",
            "table" -> table,
            "column" -> column,
            "entry" -> ColumnHiding.exclusion(table, column)
          )
        case TableMode.Versions => new LakeException(
            "PGOUTPUT_TARGET_NAME.VERSION_COLUMN",
            "table" -> table,
            "column" -> column,
            "entry" -> ColumnHiding.exclusion(table, column)
          )
        case _ => new LakeException(
            "PGOUTPUT_TARGET_NAME.MARK_COLUMN",
            "table" -> table,
            "column" -> column,
            "entry" -> ColumnHiding.exclusion(table, column)
          )
      }
  }

  private def name(table: TableName, template: Option[String], names: Map[String, String]) =
    names.collectFirst { case (key, name) if isOf(key, table) => name }.getOrElse {
      def usual = if (table.namespace == PublicNamespace) "{table}" else "{schema}_{table}"
      // Both are replaced in one step, because a name can have braces too.
      """\{(schema|table)\}""".r.replaceAllIn(
        template.getOrElse(usual),
        found =>
          Regex.quoteReplacement(
            if (found.group(1) == "schema") table.namespace else table.name
          )
      )
    }

  /** Returns whether a user means a table: `schema.table`, or `table` for a table of public. */
  def isOf(key: String, table: TableName): Boolean = TablePattern.isOf(key, table)

  /** The option that gives a table a name that every catalog takes, and that no other table has. */
  private def entry(table: TableName, name: String, mode: TableMode, taken: Set[String]) = {
    val plain = name.replaceAll("[^A-Za-z0-9_]+", "_").replaceAll("^_+|_+$", "") match {
      case ""   => "table"
      case some => some
    }
    def isFree(name: String) = !mode.targets(name).map(folded).exists(taken)
    val numbered = Iterator.from(2).map(number => s"${plain}_$number")
    s"names.${table.unambiguous}=${(Iterator(plain) ++ numbered).find(isFree).get}"
  }

  /** The first two that have the same name. */
  private def collision[A](
      named: Seq[(A, String)],
      key: String => String = folded
  ): Option[(A, A, String)] =
    named.groupBy(named => key(named._2)).values.collectFirst {
      case (one, name) +: (other, _) +: _ => (one, other, name)
    }

  /** Equal for two names that `equalsIgnoreCase` takes for one. In lower case, `ı` and `i` are two letters. */
  private def letters(name: String) =
    name.map(letter => Character.toLowerCase(Character.toUpperCase(letter)))
}

/** The types that columns have in the target. */
object TargetTypes {

  /**
   * Returns the schema of a table in the target.
   *
   * @param format `delta` or `iceberg`
   * @param key the columns by which rows are found
   * @throws LakeException
   *   if the format lacks a type, or if rows cannot be found by it. The text has the override that works.
   */
  def of(format: String, table: String, schema: StructType, key: Seq[String]): StructType =
    StructType(schema.map { field =>
      def fail(problem: String) = throw new LakeException(
        "PGOUTPUT_TARGET_TYPE",
        "column" -> field.name,
        "table" -> table,
        "type" -> field.dataType.sql,
        "problem" -> problem
      )
      if (key.contains(field.name) && !isComparable(field.dataType))
        fail("rows cannot be found by values of this type")
      if (exists(field.dataType)(isLacking)) fail(s"$format does not have it")
      field.copy(dataType = inTarget(format, field.dataType))
    })

  /** The options of `to_json` for values that are compared as texts. By default, it writes milliseconds. */
  val JsonOptions: Map[String, String] = Map(
    "timestampFormat" -> "yyyy-MM-dd HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat" -> "yyyy-MM-dd HH:mm:ss.SSSSSS"
  )

  /** Whether Spark compares values of a type. */
  def isComparable(dataType: DataType): Boolean =
    !exists(dataType)(part => part.isInstanceOf[MapType] || part == VariantType)

  private def inTarget(format: String, dataType: DataType): DataType = dataType match {
    case ByteType | ShortType if format == LakeFormat.Iceberg.name         => IntegerType
    case _: CharType | _: VarcharType if format == LakeFormat.Iceberg.name => StringType
    case ArrayType(element, nulls) => ArrayType(inTarget(format, element), nulls)
    case MapType(key, value, nulls) =>
      MapType(inTarget(format, key), inTarget(format, value), nulls)
    case StructType(fields) =>
      StructType(fields.map(field => field.copy(dataType = inTarget(format, field.dataType))))
    case other => other
  }

  /** Returns whether neither format has a type. Spark has TIME from 4.1 on. */
  private def isLacking(dataType: DataType) = dataType match {
    case CalendarIntervalType | NullType | _: DayTimeIntervalType | _: YearMonthIntervalType => true
    case other => other.typeName.startsWith("time(") || other.typeName == "time"
  }

  /** Returns whether a type or a part of it has a property. */
  private[lake] def exists(dataType: DataType)(property: DataType => Boolean): Boolean =
    property(dataType) || (dataType match {
      case ArrayType(element, _)  => exists(element)(property)
      case MapType(key, value, _) => exists(key)(property) || exists(value)(property)
      case StructType(fields)     => fields.exists(field => exists(field.dataType)(property))
      case _                      => false
    })
}
