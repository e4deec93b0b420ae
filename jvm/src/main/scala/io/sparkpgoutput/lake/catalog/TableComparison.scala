package io.sparkpgoutput.lake.catalog

import org.apache.spark.sql.types.DecimalType

import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.lake.catalog.TableChange._
import io.sparkpgoutput.source.connection.ServerConnection
import io.sparkpgoutput.types.registry.BuiltInTypes

/** A change of a table that loses nothing if the target follows it. */
sealed trait TableChange

object TableChange {

  /** A new column, which is NULL in all rows that were there before. */
  final case class ColumnAdded(column: TableColumn) extends TableChange

  /** A column that is gone. It stays in the target, and new rows have NULL in it. */
  final case class ColumnDropped(column: TableColumn) extends TableChange

  /** A column with another name. */
  final case class ColumnRenamed(from: TableColumn, to: TableColumn) extends TableChange

  /** A column with a type that takes all values of the old one, for which PostgreSQL rewrote no row. */
  final case class ColumnWidened(from: TableColumn, to: TableColumn) extends TableChange

  /** A new partition. [[TableEvidence]] finds out whether it has rows from before it became a partition. */
  final case class PartitionAdded(leaf: Leaf) extends TableChange

  /**
   * VACUUM FULL or CLUSTER has rewritten the table or a partition, unless [[TableEvidence]] finds
   * otherwise.
   */
  final case class Vacuumed(file: Leaf) extends TableChange

  /** A partition that was rewritten or truncated. [[TableEvidence]] finds out which of the two. */
  final case class PartitionRewritten(leaf: Leaf) extends TableChange
}

/**
 * Compares a table with what an earlier read of the catalog showed. Messages do not show all that
 * ALTER TABLE does, but the catalog does:
 *
 *   - A column has a number that stays when it is renamed, and that no other column ever gets.
 *   - ADD COLUMN … DEFAULT sets `atthasmissing`, or rewrites the table if the default is volatile.
 *   - A statement that rewrites a table gives it another `relfilenode`. ALTER TABLE also rewrites the rows of
 *     the columns in `pg_attribute`, so they have another xmin. VACUUM FULL, CLUSTER and TRUNCATE do not:
 *     VACUUM FULL and CLUSTER only clear `atthasmissing`.
 */
object TableComparison {

  /**
   * Compares a table by its oid.
   *
   * @param taken
   *   the names of all columns that the target has, also of those that the source does not have any more
   * @return the changes that lose nothing, or else why the table must be copied again, a sentence
   */
  def compare(
      kept: SourceTable,
      now: SourceTable,
      taken: Set[String]
  ): Either[String, Seq[TableChange]] = {
    val columns = new ColumnComparison(kept, now, taken ++ kept.columns.map(_.name))
    reason(kept, now, columns).toLeft(columns.changes ++ partitionChanges(kept, now))
  }

  private def reason(
      kept: SourceTable,
      now: SourceTable,
      columns: ColumnComparison
  ): Option[String] = {
    def differs(what: String)(of: SourceTable => String) =
      Option.when(of(kept) != of(now))(s"$what was ${of(kept)} and is ${of(now)}.")
    Seq(
      Option.when(kept.oid != now.oid)("The table was dropped, and made again."),
      // The text of a filter changes with the name of a column. Another filter has another row in the catalog.
      differs("The row filter of the publication")(_.rowFilter.getOrElse("none"))
        .filter(_ => kept.memberships.isEmpty || kept.memberships != now.memberships),
      differs("The list of published operations")(_.publish.mkString(", ")),
      differs("The replica identity")(_.identity.sql),
      columns.reason,
      Option.when(columns.numbers(kept) != columns.numbers(now))(
        s"Its key was (${kept.key.mkString(", ")}) and is (${now.key.mkString(", ")})."
      ),
      partitionReason(kept, now),
      columns.rewrite,
      // Each membership counts, because each publication can send different rows and operations.
      Option.unless(kept.memberships.forall(now.memberships.contains))(
        "It was taken out of the publication and put back, and the changes in between were not sent."
      ),
      Option.when(kept.publications.exists { case (oid, version) =>
        now.publications.get(oid).exists(_ != version)
      })(
        "The publication was altered, and no message says which changes the server has left out in between."
      )
    ).flatten.headOption
  }

  /**
   * Returns why a table must be copied: a hidden column was altered, so that another one can have had its name for a
   * while. Messages from this time can still come. Do not compare the tables of two servers, nor of one before and
   * after `pg_upgrade`, because the xmin of a column does not stay.
   */
  def altered(kept: SourceTable, now: SourceTable): Option[String] = {
    val before = kept.hidden.map(column => column.number -> column.version).toMap
    now.hidden.find(column => before.get(column.number).exists(_ != column.version)).map(column =>
      s"The column '${column.name}', which the options exclude or hash, was altered."
    )
  }

  /** Returns whether a job follows a change of a column's type from another one, without a copy of the table. */
  def isFollowed(typeId: Long, now: TableColumn): Boolean =
    Widening.isLossless(now.copy(typeId = typeId), now)

  private def partitionReason(kept: SourceTable, now: SourceTable): Option[String] = {
    val before = kept.leaves.map(leaf => leaf.oid -> leaf.links).toMap
    val after = now.leaves.map(_.oid).toSet
    val isFull = now.identity == ReplicaIdentity.Full
    Seq(
      kept.leaves.find(leaf => !after(leaf.oid)).map(leaf =>
        s"The partition ${leaf.name} was detached or dropped, and no message says which rows it had."
      ),
      now.leaves.find(leaf => leaf.attached && !before.contains(leaf.oid)).map(leaf =>
        s"The table ${leaf.name} was attached as a partition, and no message says which rows it has."
      ),
      now.leaves.find(leaf =>
        before.get(leaf.oid).exists(links => links.nonEmpty && links != leaf.links)
      ).map(leaf =>
        s"The partition ${leaf.name} was detached and attached again, and changes in between were not sent."
      ),
      // The check before the copy says what the user has to do.
      now.leaves.find(!_.isLogged).map(leaf =>
        s"The changes of the partition ${leaf.name} are not in the WAL."
      ),
      now.leaves.find(isFull && _.identity != ReplicaIdentity.Full).map(leaf =>
        s"The partition ${leaf.name} does not have REPLICA IDENTITY FULL, as its root has."
      ),
      otherKey(now)
    ).flatten.headOption
  }

  /** A partition whose replica identity has other columns than that of its root. */
  private def otherKey(now: SourceTable): Option[String] =
    if (now.identity == ReplicaIdentity.Full) None
    else if (now.key.isEmpty) IndexKeys.withIdentity(now.leaves).headOption.map { leaf =>
      val alter = s"ALTER TABLE ${QuotedName(now.name)}"
      val primary =
        if (leaf.identity == ReplicaIdentity.Full) ""
        else s"$alter ADD PRIMARY KEY (${leaf.key.map(QuotedName(_)).mkString(", ")}), or "
      s"The partition ${leaf.name} has a replica identity, and its root has no key, so that old rows cannot " +
        s"be found. Run $primary$alter REPLICA IDENTITY FULL and the same for each of its partitions."
    }
    else IndexKeys.otherLeaves(now.leaves, now.key).headOption.map { leaf =>
      s"The partition ${leaf.name} identifies rows by (${leaf.key.mkString(", ")}) and no longer by the key " +
        s"(${now.key.mkString(", ")}) of its root, so that old rows cannot be found. Run ALTER TABLE " +
        s"${QuotedName(leaf.name)} REPLICA IDENTITY FULL."
    }

  private def partitionChanges(kept: SourceTable, now: SourceTable): Seq[TableChange] = {
    val before = kept.leaves.map(leaf => leaf.oid -> leaf).toMap
    now.leaves.flatMap { leaf =>
      before.get(leaf.oid) match {
        case None => Some(PartitionAdded(leaf))
        case Some(other) =>
          Option.when(other.fileNode != leaf.fileNode)(PartitionRewritten(leaf))
      }
    }
  }

  /** Compares the columns by their numbers. */
  final private class ColumnComparison(kept: SourceTable, now: SourceTable, taken: Set[String]) {
    private val before = kept.columns.map(column => column.number -> column).toMap
    private val after = now.columns.map(column => column.number -> column).toMap
    private val both =
      kept.columns.flatMap(column => after.get(column.number).map(column -> _))
    private val added = now.columns.filterNot(column => before.contains(column.number))
    private val dropped = kept.columns.filterNot(column => after.contains(column.number))

    private val excludedBefore = kept.excluded.map(_.number).toSet
    private val excludedNow = now.excluded.map(_.number).toSet

    private val rewritten = {
      val files = kept.files.map(leaf => leaf.oid -> leaf.fileNode).toMap
      now.files.filter(leaf => files.get(leaf.oid).exists(_ != leaf.fileNode))
    }
    private val isRewritten = rewritten.nonEmpty

    /** Spark finds columns without regard to case. */
    private def isTaken(name: String) = taken.exists(_.equalsIgnoreCase(name))

    def numbers(table: SourceTable): Seq[Int] =
      table.key.flatMap(name => table.columns.find(_.name == name)).map(_.number)

    def changes: Seq[TableChange] =
      dropped.map(ColumnDropped(_)) ++
        both.collect { case (from, to) if from.name != to.name => ColumnRenamed(from, to) } ++
        both.collect { case (from, to) if !isSameType(from, to) => ColumnWidened(from, to) } ++
        added.map(ColumnAdded(_)) ++
        vacuumed

    /** VACUUM FULL clears `atthasmissing`, and so does an ALTER COLUMN that changes the values. */
    private def vacuumed = {
      val isCleared = both.exists { case (from, to) => from.hasMissing && !to.hasMissing }
      if (isCleared) rewritten.map(Vacuumed(_)) else Nil
    }

    def reason: Option[String] = Seq[IterableOnce[String]](
      dropped.find(column => excludedNow(column.number)).map(column =>
        s"The options exclude the column '${column.name}' now."
      ),
      added.find(column => excludedBefore(column.number)).map(column =>
        s"The options do not exclude the column '${column.name}' any more."
      ),
      both.flatMap((otherHash _).tupled),
      dropped.find(column => now.unsent.contains(column.number)).map(column =>
        s"The publication does not send the column '${column.name}' any more."
      ),
      added.find(column => kept.unsent.contains(column.number)).map(column =>
        s"The publication sends the column '${column.name}' now, which the table had before."
      ),
      // The other column was dropped or has a new name.
      added.find(column => isTaken(column.name)).map(column =>
        s"The column '${column.name}' is a new one with a name that the table had before."
      ),
      added.headOption.filter(_ => hasGap).map(column =>
        s"A column was added and dropped before the column '${column.name}' was added, and can have " +
          "had its name."
      ),
      both.flatMap((takesName _).tupled),
      added.find(_.hasMissing).map(column =>
        s"The column '${column.name}' was added with a default, which all older rows have."
      ),
      added.headOption.filter(_ => isRewritten).map(column =>
        s"The column '${column.name}' was added and the table was rewritten, so older rows can have " +
          "values in it."
      ),
      both.flatMap((otherType _).tupled)
    ).flatten.headOption

    private def otherHash(from: TableColumn, to: TableColumn) = (from.hash, to.hash) match {
      case (None, Some(_)) => Some(s"The options hash the column '${to.name}' now.")
      case (Some(_), None) => Some(s"The options do not hash the column '${to.name}' any more.")
      case (before, after) =>
        Option.when(before != after)(s"The column '${to.name}' is hashed with another salt now.")
    }

    /** Returns whether other columns were added since, and dropped again. */
    private def hasGap = kept.attributes > 0 && {
      val numbers = now.columns.map(_.number) ++ now.unsent ++ excludedNow
      numbers.count(_ > kept.attributes) < now.attributes - kept.attributes
    }

    /** A column that was renamed to a name that another column had, or to its own name in another case. */
    private def takesName(from: TableColumn, to: TableColumn) =
      Option.when(from.name != to.name && isTaken(to.name))(
        s"The column '${from.name}' was renamed to '${to.name}', " + (
          if (from.name.equalsIgnoreCase(to.name)) "which is the same name in the target."
          else "a name that the table had before."
        )
      )

    private def otherType(from: TableColumn, to: TableColumn) =
      if (isSameType(from, to)) None
      else if (!Widening.isLossless(from, to)) Some(s"The column '${to.name}' has another type.")
      else
        Option.when(isRewritten)(
          s"The column '${to.name}' has another type and the table was rewritten, so its values can " +
            "have changed."
        )

    private def isSameType(from: TableColumn, to: TableColumn) =
      from.typeId == to.typeId && from.modifier == to.modifier

    /** Returns a reason if ALTER TABLE has rewritten the table in a way that can have changed values. */
    def rewrite: Option[String] =
      both.filter(_ => isRewritten).collectFirst {
        case (from, to)
            if from.version != to.version && !(from.hasMissing && !to.hasMissing) =>
          s"ALTER TABLE has rewritten it, and the values of the column '${to.name}' can have changed."
      }
  }
}

/**
 * Changes of a column's type that keep each value. A change that rewrites the table, such as `int` to
 * `bigint`, is not one of them: the catalog is the same after `TYPE bigint` and after
 * `TYPE bigint USING n * 2`.
 */
private object Widening {

  /** The catalog has the modifier of a varchar or a numeric plus 4 (VARHDRSZ). */
  private val ModifierOffset = 4

  def isLossless(from: TableColumn, to: TableColumn): Boolean = (typeOf(from), typeOf(to)) match {
    case ("varchar", "varchar") =>
      to.modifier < 0 || (from.modifier >= 0 && from.modifier <= to.modifier)
    case ("varchar", "text")    => true
    case ("numeric", "numeric") => widerNumeric(from.modifier, to.modifier)
    case _                      => false
  }

  private def typeOf(column: TableColumn) =
    BuiltInTypes.byOid.get(column.typeId).fold("")(_.name)

  /** Returns whether the new numeric has the same scale, and no lower precision (`make_numeric_typmod`). */
  private def widerNumeric(from: Int, to: Int) =
    from >= ModifierOffset && to >= ModifierOffset && {
      val (before, after) = (from - ModifierOffset, to - ModifierOffset)
      (before & 0xffff) == (after & 0xffff) && (before >>> 16) <= (after >>> 16) &&
      // A numeric with more digits than a DECIMAL of Spark can have needs another type.
      ((after >>> 16) <= DecimalType.MAX_PRECISION || (before >>> 16) > DecimalType.MAX_PRECISION)
    }
}

/**
 * Finds in the rows of tables what the catalog does not show. If changes come under the name of the root,
 * the server sends no message about a TRUNCATE of one partition. It never sends the rows that a table had
 * before it became a partition. A statement that names and truncates all of several partitions looks like
 * a TRUNCATE of the root.
 */
object TableEvidence {

  /**
   * Returns why the changes that [[TableComparison]] found are not all that happened to a table, a
   * sentence; None if they are.
   */
  def reason(
      connection: ServerConnection,
      kept: SourceTable,
      changes: Seq[TableChange]
  ): Option[String] = {
    val doubtful = changes.collect {
      case PartitionRewritten(leaf) => leaf
      case Vacuumed(leaf)           => leaf
      case PartitionAdded(leaf)     => leaf
    }
    doubtful.find(!isReadable(connection, _)).map { leaf =>
      s"${leaf.name} was made, truncated or rewritten, and the role cannot look at its rows, which needs " +
        "SELECT on the table and not only on columns."
    }.orElse(ofRows(connection, kept, changes))
  }

  private def asks(connection: ServerConnection, question: String, parameters: Any*): Boolean =
    connection.query(question, parameters: _*)(_.getBoolean(1)).head

  /** System columns, such as `xmin`, need SELECT on the table. */
  private def isReadable(connection: ServerConnection, leaf: Leaf) =
    asks(connection, "SELECT has_table_privilege(?::oid, 'SELECT') IS NOT FALSE", leaf.oid)

  private def ofRows(
      connection: ServerConnection,
      kept: SourceTable,
      changes: Seq[TableChange]
  ): Option[String] = {
    val rewritten = changes.collect { case PartitionRewritten(leaf) => leaf }
    // TRUNCATE of the root truncates all partitions, and is sent.
    val emptied =
      rewritten.filterNot(leaf => hasRowFrom(connection, leaf.name, kept.horizon))
    val ofSome = emptied.headOption.filter(_ =>
      emptied.length < kept.leaves.length || !isOneStatement(connection, emptied)
    )
    ofSome.map { leaf =>
      s"The partition ${leaf.name} was truncated, or has none of its rows any more, and no message " +
        "says so."
    }.orElse(changes.collectFirst {
      case Vacuumed(file) if isRewritten(connection, file.name, kept.horizon) =>
        s"ALTER TABLE has rewritten ${file.name}, and the values of a column can have changed."
      // The file of a new table has the number of its oid, until TRUNCATE or VACUUM FULL.
      case PartitionAdded(leaf) if leaf.fileNode != leaf.oid =>
        s"The new partition ${leaf.name} was truncated or rewritten, and no message says which rows " +
          "it lost."
      case PartitionAdded(leaf) if hasRowFromBefore(connection, leaf) =>
        s"The partition ${leaf.name} had rows before it became a partition, and no message has them."
    })
  }

  /**
   * Returns whether one transaction has truncated several partitions. TRUNCATE rewrites their rows of
   * `pg_class`, and VACUUM and ANALYZE do not.
   */
  private def isOneStatement(connection: ServerConnection, leaves: Seq[Leaf]) =
    leaves.length > 1 && connection
      .query(
        "SELECT count(DISTINCT xmin::text) FROM pg_class WHERE oid = ANY (?::oid[])",
        PublishedTables.array(leaves.map(_.oid))
      )(_.getInt(1))
      .head == 1

  /** Returns whether a table has a row that an older transaction wrote. VACUUM FULL keeps such rows. */
  private def hasRowFrom(connection: ServerConnection, table: TableName, horizon: Long) =
    asks(
      connection,
      s"SELECT EXISTS (SELECT FROM ONLY ${QuotedName(table)} WHERE age(xmin) > age(?::xid))",
      horizon.toString
    )

  /** Returns whether a table has rows, and none that an older transaction wrote. */
  private def isRewritten(connection: ServerConnection, table: TableName, horizon: Long) =
    !hasRowFrom(connection, table, horizon) &&
      asks(connection, s"SELECT EXISTS (SELECT FROM ONLY ${QuotedName(table)})")

  /** Returns whether a transaction wrote rows into a table before it made the table a partition. */
  private def hasRowFromBefore(connection: ServerConnection, leaf: Leaf) =
    asks(
      connection,
      s"""WITH RECURSIVE up (oid, version, command) AS (
         |  SELECT inhparent, xmin, cmin::text::bigint FROM pg_inherits WHERE inhrelid = ?::oid
         |  UNION ALL
         |  SELECT inhparent, i.xmin, i.cmin::text::bigint
         |  FROM pg_inherits i JOIN up ON i.inhrelid = up.oid
         |)
         |SELECT EXISTS (
         |  SELECT FROM ONLY ${QuotedName(leaf.name)} AS t JOIN up ON t.xmin = up.version
         |  WHERE t.cmin::text::bigint < up.command
         |)""".stripMargin,
      leaf.oid
    )
}
