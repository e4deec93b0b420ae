package io.sparkpgoutput.lake.apply

import org.apache.spark.sql.functions._
import org.apache.spark.sql.pgoutput.{KeyFilter, RowsOfRdd}
import org.apache.spark.sql.types._
import org.apache.spark.sql.{Column, DataFrame}

import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.errors.{ErrorCauses, LakeException, PgOutputException}
import io.sparkpgoutput.lake.fold.{FoldedColumns, RowOp}
import io.sparkpgoutput.lake.target.{RaisedText, TablePlace, TargetTypes, TargetWrite}

/**
 * The write of a table with a key: a MERGE, or all rows after a TRUNCATE. If rows stay that the server does not have,
 * it is always a MERGE.
 */
final class KeyedWrite(batch: TableBatch) {
  import FoldedColumns._
  import KeyedWrite._
  import batch.format.{key, toasted, unsent}

  def plan(folded: DataFrame): PlannedWrite = {
    batch.base.foreach(rows => batch.checkColumns(rows.schema))
    val hasMoves = toasted.nonEmpty && (batch.summary.moved > 0 || batch.format.hasVersions)
    val rows =
      if (hasMoves) new MovedRows(batch).resolve(folded)
      // If the column that an update did not send was dropped since, nobody needs the update's row of RowOp.MovedOut.
      else folded.where(col(Op) =!= RowOp.MovedOut).drop(MovedIn ++ MovedOut: _*)
    def clauses =
      if (batch.format.hasVersions) versioning else if (batch.format.marks) marking else mirroring
    if (batch.summary.truncated.isEmpty) {
      PlannedWrite(
        TargetWrite.Merge(rows, condition, clauses, narrowed(folded)),
        repaired(rows)
      )
    } else if (batch.format.keepsRows) {
      val all = s"$clauses\n$truncating"
      PlannedWrite(TargetWrite.Merge(rows, condition, all), repaired(rows))
    } else {
      PlannedWrite(
        TargetWrite.Overwrite(checked(rows).selectExpr(batch.named: _*)),
        if (batch.format.repairs) rows.where(!col(Op).isin(RowOp.Insert, RowOp.Replace)).count()
        else 0
      )
    }
  }

  /**
   * Returns a condition that is true for each row of the target, which has the alias `t`, that has a key of the cut.
   * None if the whole target is to be read.
   *
   * A MERGE joins the whole target with the few rows of a cut. A condition on what the keys of these rows have in
   * common comes before the join. It then leaves out the other rows of the target before it sorts and sends them. It
   * also leaves out files that have none of the keys.
   *
   * @param folded the rows of the fold
   */
  private def narrowed(folded: DataFrame): Option[Column] =
    batch.base.filter(_ => batch.summary.changes <= MostChanges).flatMap { base =>
      val types = base.select(key.map(ordinal => col(name(ordinal))): _*).schema.map(_.dataType)
      KeyFilter.of(
        folded,
        batch.summary.changes,
        key.map(column),
        key.map(ordinal => col(s"t.${name(ordinal)}")).zip(types),
        RowsOfRdd.bytes(base) >= Large
      )
    }

  private def name(ordinal: Int) = TablePlace.quoted(batch.columnName(ordinal))

  /**
   * A row that replaces another one matches no row: the delete of the other one matches the old row. A version that has
   * ended is never matched.
   */
  private def condition: String = {
    import batch.format.{hasVersions, splitsReplaced}
    val sameKey = key.map(ordinal => s"t.${name(ordinal)} = s.${column(ordinal)}")
    val finds =
      if (splitsReplaced || hasVersions) Seq(s"s.$Op <> '${RowOp.Replace}'") else Nil
    val found = if (hasVersions) Seq(s"t.${name(batch.format.toLsn)} IS NULL") else Nil
    (sameKey ++ finds ++ found).mkString(" AND ")
  }

  /** The SQL that fails and shows the key of a row of the fold. `prefix` is the alias of this row, with a point. */
  private def raise(problem: String, prefix: String) =
    Drift.raise(
      problem,
      key.map(ordinal => s"$prefix${column(ordinal)}" -> batch.columnName(ordinal))
    )

  /**
   * With `repair`, an insert of a row that exists updates it. An update of a row that does not exist inserts
   * it, if all of its values were sent.
   *
   * The expression that fails is the value of a column and not a condition, because Delta evaluates
   * the conditions of all clauses for all rows.
   */
  private def mirroring: String = {
    val mayUpdate = if (batch.format.repairs) "true" else isOp(RowOp.Update)
    val isInserted = if (batch.format.repairs) s"AND s.$Op <> '${RowOp.Delete}' " else ""
    Seq(
      s"WHEN MATCHED AND ${isOp(RowOp.Delete)} THEN DELETE",
      updates(value => s"CASE WHEN $mayUpdate THEN $value ELSE ${raise(Drift.There, "s.")} END"),
      inserts(isInserted)
    ).mkString("\n")
  }

  /**
   * The clauses if deleted rows are marked. A row that is marked counts as one that is not there: an insert revives
   * it, with the values of the insert. A deletion is an update that sets the mark. With `repair`, the row that it
   * deletes need not be there.
   */
  private def marking: String = {
    val (isMarked, goes) =
      (s"t.$deleted IS NOT NULL", s"s.${column(batch.format.deletedLsn)} IS NOT NULL")
    val isDone = if (batch.format.repairs) s"AND NOT (${isOp(RowOp.Update)} AND $goes) " else ""
    val lacks = s"${isOp(RowOp.Update)} AND $isMarked" +
      (if (batch.format.repairs) s" AND NOT ($goes) AND NOT (${isWhole("s.")})" else "")
    val isThere =
      if (batch.format.repairs) "false" else s"${isOp(RowOp.Insert)} AND NOT ($isMarked)"
    Seq(
      updates(value =>
        s"CASE WHEN $isThere THEN ${raise(Drift.There, "s.")} " +
          s"WHEN $lacks THEN ${raise(Drift.Marked, "s.")} ELSE $value END"
      ),
      inserts(isDone)
    ).mkString("\n")
  }

  /** The clauses if the target has versions: a version ends, and others are added. */
  private def versioning: String = {
    import batch.format.{currentFlag, toLsn, toTime}
    val ends = s"s.${column(toLsn)}"
    val isThere = if (batch.format.repairs) "false" else isOp(RowOp.Insert)
    val isAdded = Seq(RowOp.Replace) ++ (if (batch.format.repairs) Nil else Seq(RowOp.Delete))
    val others = Seq(toTime, currentFlag)
      .map(ordinal => s", t.${name(ordinal)} = s.${column(ordinal)}").mkString
    Seq(
      s"WHEN MATCHED THEN UPDATE SET t.${name(toLsn)} = " +
        s"CASE WHEN $isThere THEN ${raise(Drift.There, "s.")} ELSE $ends END$others",
      adding(
        s"AND s.$Op IN (${isAdded.map(op => s"'$op'").mkString(", ")}) ",
        s"${isOp(RowOp.Replace)} AND ${isWhole("s.")}"
      )
    ).mkString("\n")
  }

  /** The clause by which the first TRUNCATE ends the rows that no other change of the cut concerns. */
  private def truncating: String = {
    import batch.format.{deletedAt, deletedLsn, hasVersions, toLsn, toTime}
    val first = batch.summary.truncations.head
    val (lsn, time) =
      if (hasVersions) (toLsn, toTime) else (deletedLsn, deletedAt)
    val isCurrent = if (hasVersions) s", t.${name(batch.format.currentFlag)} = false" else ""
    s"WHEN NOT MATCHED BY SOURCE AND t.${name(lsn)} IS NULL " +
      s"THEN UPDATE SET t.${name(lsn)} = ${first.at.lsn}L, " +
      s"t.${name(time)} = timestamp_micros(${first.time}L)$isCurrent"
  }

  private def deleted = name(batch.format.deletedLsn)

  private def isOp(op: String) = s"s.$Op = '$op'"

  /** Whether the cut has all values of a row. `prefix` is the alias of this row, with a point. */
  private def isWhole(prefix: String) = ("true" +: unsent.map { ordinal =>
    s"NOT $prefix${FoldedColumns.unsent(ordinal)}"
  }).mkString(" AND ")

  private def written(ordinal: Int) = batch.written(s"s.${column(ordinal)}", ordinal)

  /** @param checked makes a value of one that fails if the row of the target is not as expected */
  private def updates(checked: String => String): String = {
    // A row can get an equal key with other values: 0 and -0 are the same key.
    val sameKey = key.filter(ordinal => Comparison.isExact(batch.format.schema(ordinal).dataType))
    val others = batch.format.schema.indices.diff(sameKey).map { ordinal =>
      val value = written(ordinal)
      if (!unsent.contains(ordinal)) ordinal -> value
      else {
        val flag = s"s.${FoldedColumns.unsent(ordinal)}"
        ordinal -> s"CASE WHEN $flag THEN t.${name(ordinal)} ELSE $value END"
      }
    }
    // If an update changes nothing, because all columns belong to the key, it still checks the row of the target.
    val set = if (others.isEmpty) Seq(key.head -> written(key.head)) else others
    val values = set.updated(0, set.head._1 -> checked(set.head._2))
    "WHEN MATCHED THEN UPDATE SET " +
      values.map { case (ordinal, value) => s"t.${name(ordinal)} = $value" }.mkString(", ")
  }

  /** @param which a further condition, or nothing */
  private def inserts(which: String): String = {
    val mayInsert =
      if (batch.format.repairs) isWhole("s.")
      else s"s.$Op IN ('${RowOp.Insert}', '${RowOp.Replace}')"
    adding(which, mayInsert)
  }

  /** @param mayInsert whether a row is as expected; if not, the MERGE fails */
  private def adding(which: String, mayInsert: String): String = {
    val ordinals = batch.format.schema.indices
    val values = ordinals.map(written)
    val first = s"CASE WHEN $mayInsert THEN ${values.head} ELSE ${raise(Drift.Missing, "s.")} END"
    s"WHEN NOT MATCHED ${which}THEN INSERT (${ordinals.map(name).mkString(", ")}) " +
      s"VALUES (${(first +: values.tail).mkString(", ")})"
  }

  /** Returns the rows of a table after a TRUNCATE, which has removed all earlier rows. */
  private def checked(rows: DataFrame): DataFrame = {
    val missing = raise(Drift.Missing, "")
    if (batch.format.repairs)
      rows.where(s"$Op <> '${RowOp.Delete}' AND if(${isWhole("")}, true, $missing)")
    else rows.where(s"if($Op IN ('${RowOp.Insert}', '${RowOp.Replace}'), true, $missing)")
  }

  /** Counts the rows that a MERGE changes in another way than the server did. */
  private def repaired(rows: DataFrame): Long =
    if (!batch.format.repairs) 0
    else {
      val there = batch.living.get.select(
        key.map(ordinal => col(name(ordinal)).as(s"t$ordinal")) :+ lit(true).as("is_there"): _*
      )
      val sameKey = key.map(ordinal => col(column(ordinal)) === col(s"t$ordinal")).reduce(_ && _)
      val isThere = col("is_there").isNotNull
      rows.where(col(Op) =!= RowOp.Replace).join(there, sameKey, "left")
        .where((col(Op) === RowOp.Insert) === isThere).count()
    }
}

private object KeyedWrite {

  /** In a larger cut, looking at the keys costs more than it saves. */
  final private val MostChanges = 200000

  /**
   * The size of a large table in bytes. Spark reads a smaller table faster than it compiles the
   * condition with the least and the greatest key.
   */
  final private val Large = BigInt(1L << 30)
}

/**
 * Finds the values of rows whose updates changed the key and did not send all values. The missing
 * values are those that the row had under the old key. The row can have come to the old key from a
 * third key in the same cut, and so on. So each round of joins doubles the number of moves that
 * it follows back. If no message of the cut has a value, the target has it, under the first key
 * of the row.
 */
final class MovedRows(batch: TableBatch) {
  import FoldedColumns._
  import batch.format.{key, toasted, unsent}

  private def root(ordinal: Int) = s"k$ordinal"
  private def cameHere = col(MovedIn.head).isNotNull
  private def isUnsent(ordinal: Int) = col(FoldedColumns.unsent(ordinal))

  /** Returns the rows with the values that their updates did not send, and without positions. */
  def resolve(rows: DataFrame): DataFrame = {
    // A plan that is joined to itself doubles in size.
    val kept = batch.checkpoint(rows)
    val left =
      inTarget(followed(kept.where(col(Op) === RowOp.MovedOut).select(movedOutColumns: _*)))
    val known = renamed(left)
    val joined = kept.where(col(Op) =!= RowOp.MovedOut).join(known, cameFrom, "left")
    joined.select(batch.format.schema.indices.map { ordinal =>
      val value = col(column(ordinal))
      (if (toasted.contains(ordinal))
         when(cameHere && isUnsent(ordinal), col(before(column(ordinal)))).otherwise(value)
       else value).as(column(ordinal))
    } ++ Seq(col(Op)) ++ unsent.map { ordinal =>
      (isUnsent(ordinal) && !cameHere).as(FoldedColumns.unsent(ordinal))
    }: _*)
  }

  /**
   * The rows as they were when their key changed: the position of this UPDATE, the columns that it can lack,
   * the key, and the position of the UPDATE before that gave them this key.
   */
  private def movedOutColumns: Seq[Column] = (MovedOut ++ MovedIn).map(col) ++
    toasted.flatMap(ordinal => Seq(col(column(ordinal)), isUnsent(ordinal))) ++
    key.map(ordinal => col(column(ordinal)).as(root(ordinal)))

  private def before(name: String) = s"before_$name"

  private def renamed(rows: DataFrame) = rows.toDF(rows.columns.map(before).toIndexedSeq: _*)

  private def cameFrom: Column = MovedIn
    .zip(MovedOut)
    .map { case (to, from) => col(to) === col(before(from)) }
    .reduce(_ && _)

  /** Follows each chain of key changes back to a row that has all values, or to the row in the target. */
  private def followed(start: DataFrame): DataFrame = {
    var rows = batch.checkpoint(start)
    while (!rows.where(cameHere).isEmpty) {
      val joined = rows.join(renamed(rows), cameFrom, "left")
      val values = toasted.flatMap { ordinal =>
        val value = column(ordinal)
        val flag = FoldedColumns.unsent(ordinal)
        Seq(
          when(cameHere && col(flag), col(before(value))).otherwise(col(value)).as(value),
          when(cameHere, col(flag) && col(before(flag))).otherwise(col(flag)).as(flag)
        )
      }
      val roots = key.map(root).map { name =>
        when(cameHere, col(before(name))).otherwise(col(name)).as(name)
      }
      val movedIn = MovedIn.map(name => col(before(name)).as(name))
      rows = batch.checkpoint(joined.select(MovedOut.map(col) ++ movedIn ++ values ++ roots: _*))
    }
    rows
  }

  /**
   * Takes from the target the values that no message has. A row that is not in the target is always
   * an error.
   */
  private def inTarget(rows: DataFrame): DataFrame = {
    val missing = expr(
      Drift.raise(Drift.Missing, key.map(ordinal => root(ordinal) -> batch.columnName(ordinal)))
    )
    val needed = toasted.map(isUnsent).reduce(_ || _)
    val (joined, isThere) = batch.living match {
      case None => (rows, lit(false))
      case Some(base) =>
        val there = base.select(
          (key ++ toasted).map { ordinal =>
            col(TablePlace.quoted(batch.columnName(ordinal))).as(before(column(ordinal)))
          } :+ lit(true).as("is_there"): _*
        )
        val sameKey = key.map(ordinal => col(root(ordinal)) === col(before(column(ordinal))))
        // Values that are not sent again are long. Formats count 20 bytes for each, or what they have in
        // compressed files, so Spark would take a table of gigabytes for one that fits into the driver.
        (rows.join(there.hint("merge"), sameKey.foldLeft(needed)(_ && _), "left"), col("is_there"))
    }
    val values = toasted.map { ordinal =>
      val value = column(ordinal)
      val found = if (batch.living.isEmpty) lit(null) else col(before(value))
      when(!isUnsent(ordinal), col(value))
        .when(isThere, found)
        .otherwise(missing)
        .cast(batch.format.schema(ordinal).dataType)
        .as(value)
    }
    joined.select(MovedOut.map(col) ++ values: _*)
  }
}

/**
 * The write of a table whose rows are identified by all of their values. If a row has fewer copies after the
 * cut, a MERGE deletes all copies and inserts those that remain.
 */
final class CountedWrite(batch: TableBatch) {
  import FoldedColumns._

  private val schema = batch.table.schema
  private val columns = schema.indices.map(column)
  private def cell(ordinal: Int) = s"k$ordinal"
  private def there(ordinal: Int) = s"t$ordinal"

  def plan(folded: DataFrame): PlannedWrite = {
    // Spark's code for a sort merge join fails if a key of the join has much code, such as that of to_json:
    // see `createJoinKey` in SortMergeJoinExec.scala.
    if (schema.exists(field => isJson(field.dataType)))
      batch.session.conf.set("spark.sql.codegen.wholeStage", "false")
    val net = batch.checkpoint(counts(folded))
    val came = copies(net.where(s"$Count > 0"))
    if (batch.summary.truncated.isDefined) {
      val rows =
        if (batch.format.repairs) came else copies(net.where(s"if($Count > 0, true, $raise)"))
      PlannedWrite(
        TargetWrite.Overwrite(rows.selectExpr(batch.named: _*)),
        repaired(net)
      )
    } else if (batch.summary.deletes + batch.summary.updates == 0) {
      PlannedWrite(TargetWrite.Append(came.selectExpr(batch.named: _*)), 0)
    } else merge(net, came)
  }

  private def merge(net: DataFrame, came: DataFrame): PlannedWrite = {
    // The number of copies that remain; negative if the cut deletes more copies than the target has.
    val went = batch.checkpoint(found(net.where(s"$Count < 0")))
    val enough = if (batch.format.repairs) went else went.where(s"if($Count >= 0, true, $raise)")
    val left = copies(enough.where(s"$Count > 0"))
    def op(rows: DataFrame, value: String) = rows.selectExpr(columns :+ s"'$value' AS $Op": _*)
    val rows = op(came, RowOp.Insert)
      .unionAll(op(left, RowOp.Insert))
      .unionAll(op(enough, RowOp.Delete))
    val same = schema.indices.map { ordinal =>
      s"${comparable(s"t.${name(ordinal)}", ordinal)} <=> " +
        comparable(s"s.${column(ordinal)}", ordinal)
    }
    val clauses = "WHEN MATCHED THEN DELETE\n" +
      s"WHEN NOT MATCHED AND s.$Op = '${RowOp.Insert}' " +
      s"THEN INSERT (${schema.indices.map(name).mkString(", ")}) " +
      s"VALUES (${schema.indices.map(value).mkString(", ")})"
    val condition = (s"s.$Op = '${RowOp.Delete}'" +: same).mkString(" AND ")
    PlannedWrite(TargetWrite.Merge(rows, condition, clauses), repaired(went))
  }

  private def name(ordinal: Int) = TablePlace.quoted(batch.columnName(ordinal))

  private def value(ordinal: Int) = batch.written(s"s.${column(ordinal)}", ordinal)

  private def raise = Drift.raise(
    Drift.Fewer,
    schema.indices.map(ordinal => column(ordinal) -> batch.columnName(ordinal))
  )

  /** Adds up the counts of equal rows. */
  private def counts(folded: DataFrame): DataFrame = {
    val cells = schema.indices.map { ordinal =>
      s"${comparable(column(ordinal), ordinal)} AS ${cell(ordinal)}"
    }
    grouped(folded.selectExpr(columns ++ cells :+ Count: _*), s"sum($Count)")
      .where(s"$Count <> 0")
  }

  /** Adds the number of copies in the target to the count. */
  private def found(went: DataFrame): DataFrame = {
    val target = batch.base.get.selectExpr(schema.indices.map { ordinal =>
      s"${comparable(name(ordinal), ordinal)} AS ${there(ordinal)}"
    } :+ "true AS is_there": _*)
    val same = schema.indices.map(ordinal => col(cell(ordinal)) <=> col(there(ordinal)))
    grouped(went.join(target, same.reduce(_ && _), "left"), s"any_value($Count) + count(is_there)")
  }

  private def grouped(rows: DataFrame, count: String): DataFrame = {
    val values = columns.map(name => any_value(col(name)).as(name))
    val cells = schema.indices.map(ordinal => col(cell(ordinal)))
    rows.groupBy(cells: _*).agg(expr(count).as(Count), values: _*)
  }

  /** Repeats each row by its number of copies. */
  private def copies(rows: DataFrame): DataFrame =
    rows.selectExpr(columns :+ s"explode(sequence(1L, $Count))": _*).select(columns.map(col): _*)

  /** Counts the copies that the cut deletes and that are not there. */
  private def repaired(counts: DataFrame): Long =
    if (!batch.format.repairs) 0
    else counts.selectExpr(s"coalesce(sum(greatest(-$Count, 0)), 0L)").head().getLong(0)

  /**
   * The SQL of a value that SQL can compare. Values that PostgreSQL shows as different texts, such as 0 and
   * -0, differ.
   */
  private def comparable(value: String, ordinal: Int): String = schema(ordinal).dataType match {
    case FloatType | DoubleType       => s"CAST($value AS STRING)"
    case dataType if isJson(dataType) => s"to_json(struct($value AS v), map($jsonOptions))"
    case _                            => value
  }

  private def jsonOptions =
    TargetTypes.JsonOptions.toSeq.flatMap { case (name, value) => Seq(name, value) }
      .map(text => s"'$text'").mkString(", ")

  private def isJson(dataType: DataType) = dataType match {
    case FloatType | DoubleType => false
    case other                  => !Comparison.isExact(other)
  }
}

private object Comparison {

  /** Returns whether two values of a type have one text if SQL says that they are equal. */
  def isExact(dataType: DataType): Boolean = !TargetTypes.exists(dataType) {
    case FloatType | DoubleType | _: MapType | VariantType => true
    case _                                                 => false
  }
}

/**
 * A difference between the rows of the target and the rows that the changes expect there. An
 * expression in a task finds it and fails. The driver finds the text in the error that Spark gives
 * for the task.
 */
object Drift {

  /** A change inserts a row that is in the target. */
  final val There = "was inserted at the server, and is in the target already"

  /** A change updates or deletes a row that is not in the target. */
  final val Missing = "was updated or deleted at the server, and is not in the target"

  /** A change updates or deletes a row that is marked as deleted. */
  final val Marked = "was updated or deleted at the server, and is marked as deleted in the target"

  /** The changes delete more copies of a row than the target has. */
  final val Fewer = "has fewer copies than the server deletes"

  private val Raised = new RaisedText("drift")
  private val MaxKey = 300

  /**
   * The SQL expression that fails.
   *
   * @param columns SQL expressions and the names of the columns that show which row it is
   */
  def raise(problem: String, columns: Seq[(String, String)]): String =
    Raised.raise(text(problem, columns))

  /** The SQL expression for the text of the error. */
  def text(problem: String, columns: Seq[(String, String)]): String = {
    val struct = columns.map { case (value, name) =>
      s"$value AS ${TablePlace.quoted(name)}"
    }.mkString(", ")
    s"concat('the row ', left(to_json(struct($struct)), $MaxKey), ' $problem')"
  }

  /**
   * Returns the error of a table. If the causes of Spark's error include an error of this project
   * or one of an expression of [[raise]], it is that one. Otherwise it is the error itself.
   */
  def error(table: TableName, thrown: Throwable): Throwable = ErrorCauses.of(thrown).collectFirst {
    case known: PgOutputException => known
    case Raised(problem) =>
      new LakeException("PGOUTPUT_TARGET_DIFFERS", "table" -> table, "problem" -> problem)
        .initCause(thrown)
  }.getOrElse(thrown)
}
