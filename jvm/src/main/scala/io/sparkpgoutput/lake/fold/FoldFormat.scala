package io.sparkpgoutput.lake.fold

import scala.annotation.switch

import org.apache.spark.sql.types._

import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.changes.rows.{Relation, RelationDecoder}
import io.sparkpgoutput.changes.transactions.SchemaMessage
import io.sparkpgoutput.errors.{LakeException, PgOutputException}
import io.sparkpgoutput.lake.catalog.{
  MirroredTable,
  ReplicaIdentity,
  TableComparison,
  TableError,
  TableMode
}
import io.sparkpgoutput.lake.route.{CutDefinition, CutSummary, Truncation}
import io.sparkpgoutput.protocol.{Lsn, TextEncoding}
import io.sparkpgoutput.types.ConversionOptions
import io.sparkpgoutput.types.registry.TypeRegistry

/**
 * The properties of a table that a fold needs.
 *
 * @param schema
 *   the columns of the target that come from the server. A history also has those that the server has dropped. If
 *   deleted rows are marked or the target has versions, the columns of the mode come last.
 * @param key the ordinals of the columns by which rows are found; empty if there are none
 * @param isFull true if the replica identity is FULL
 * @param definitions the definitions of the cut
 * @param unsent the ordinals of the columns that can lack a value in a row of the fold. The target then has the value.
 * @param toasted
 *   the columns of `unsent` that an update did not send. The others lack values because deletions and versions keep
 *   those of the target.
 * @param truncations each TRUNCATE of the cut
 * @param repairs false makes changes that contradict each other an error
 * @param mode what the target contains
 * @param splitsReplaced
 *   true gives a key whose row was deleted and inserted again two rows, [[RowOp.Delete]] and
 *   [[RowOp.Replace]]. The target then has columns that the server does not have. An update keeps their
 *   values, and a new row has none.
 */
final case class FoldFormat(
    name: TableName,
    schema: StructType,
    key: Seq[Int],
    isFull: Boolean,
    definitions: IndexedSeq[FoldDefinition],
    unsent: Seq[Int],
    toasted: Seq[Int],
    truncations: IndexedSeq[Truncation],
    options: ConversionOptions,
    repairs: Boolean,
    mode: TableMode,
    splitsReplaced: Boolean
) {

  def isHistory: Boolean = mode.isInstanceOf[TableMode.History]
  def marks: Boolean = mode == TableMode.Marking
  def hasVersions: Boolean = mode == TableMode.Versions

  /** Whether rows that the server does not have any more stay in the target. */
  def keepsRows: Boolean = marks || hasVersions

  /** The ordinals of the time and the LSN of a deletion. */
  def deletedAt: Int = schema.length - 2
  def deletedLsn: Int = schema.length - 1

  /** The ordinals of the columns of [[TableMode.Versions]]. */
  def fromLsn: Int = schema.length - 5
  def fromTime: Int = schema.length - 4
  def toLsn: Int = schema.length - 3
  def toTime: Int = schema.length - 2
  def currentFlag: Int = schema.length - 1

  /** How the values of a column are read. */
  def optionsOf(ordinal: Int): ConversionOptions =
    if (key.contains(ordinal)) options.ofKey else options

  def contradiction: LakeException = new LakeException(
    "PGOUTPUT_TARGET_DIFFERS",
    "table" -> name,
    "problem" ->
      "its changes contradict each other: a row is inserted twice, or a row is changed that is deleted"
  )
}

/**
 * A definition of a table.
 *
 * @param types the types of the columns
 * @param ordinals the ordinal in the target of each column; -1 if the target does not have it
 */
final case class FoldDefinition(
    relation: Relation,
    types: TypeRegistry,
    ordinals: IndexedSeq[Int]
)

object FoldFormat {

  private def changed(table: MirroredTable, reason: String) =
    TableError.changed(table.source.name, reason)

  /** The stream does not have the value (`pgoutput_row_filter` in `pgoutput.c`). */
  private def partialInsert(lsn: Long) =
    s"An update of a key, which committed at ${Lsn.format(lsn)}, moved a row into the row filter of " +
      "the publication, and the server did not send a TOASTed value of the row. With REPLICA IDENTITY " +
      "FULL, it does."

  /** The reader hides all columns of a table that does not fit the options. */
  private val Hidden =
    "A change came when a column that the options exclude or hash had another name, " +
      "or had been altered, so the job did not read the change."

  /**
   * Finds the columns of the target for the columns of each definition.
   *
   * @param names the column of the target for each name at the server that is not the target's
   * @param dropped the columns that only older definitions have, and whose values are kept
   * @throws PgOutputException
   *   if the rows are identified in another way than in the target, or if a column cannot be read as the type
   *   of the target
   */
  def of(
      table: MirroredTable,
      names: Map[String, String],
      summary: CutSummary,
      options: ConversionOptions,
      repairs: Boolean,
      dropped: Seq[StructField] = Nil,
      splitsReplaced: Boolean = false
  ): FoldFormat = {
    val sent = StructType(table.schema ++ dropped)
    val decoder = new RelationDecoder(TextEncoding.Utf8)
    val definitions = summary.definitions.map { definition =>
      val relation = definition.relation
      val domains =
        definition.types.flatMap(message => decoder.baseType(SchemaMessage.outsideStream(message)))
      val target = relation.columns.map(column => names.getOrElse(column.name, column.name))
      val ordinals = target.map(sent.fieldNames.indexOf(_))
      if (definition.changes > 0) {
        if (relation.columns.isEmpty) throw changed(table, Hidden)
        checkIdentity(table, relation, target, definition)
        checkNames(table, names.keySet, relation, target)
        definition.partialInsert.foreach { lsn =>
          throw changed(table, partialInsert(lsn))
        }
        checkColumns(table, names.keySet, relation, ordinals)
      }
      val types = table.types.withDomains(domains)
      FoldDefinition(relation, types, ordinals)
    }
    val withChanges = definitions.zip(summary.definitions).filter(_._2.changes > 0)
    withChanges.foreach { case (bound, _) => checkTypes(bound, sent, options) }
    val key = table.source.key.map(sent.fieldIndex)
    val toasted = if (table.isHistory) Nil else unsent(table, withChanges)
    // The message of a deletion has only the key, so the row keeps its values in the target, and so does a version
    // that ends.
    val goes = table.marks && summary.deletes + summary.keyChanges > 0
    val others = sent.indices.diff(key)
    FoldFormat(
      summary.name,
      if (table.isHistory) sent else StructType(sent ++ table.mode.columns),
      key,
      table.source.identity == ReplicaIdentity.Full,
      definitions,
      if (table.hasVersions) others ++ Seq(sent.length, sent.length + 1)
      else if (goes) others
      else toasted,
      toasted,
      summary.truncations,
      options,
      repairs,
      table.mode,
      splitsReplaced
    )
  }

  /**
   * The columns that an update did not send. These include columns that the table did not have when the
   * update ran.
   */
  private def unsent(
      table: MirroredTable,
      definitions: Seq[(FoldDefinition, CutDefinition)]
  ): Seq[Int] = {
    val found = definitions.filter(_._2.updates > 0).flatMap { case (bound, definition) =>
      val toasted = bound.ordinals.zip(definition.unsent).collect { case (ordinal, true) =>
        ordinal
      }
      toasted ++ table.schema.indices.filterNot(bound.ordinals.contains)
    }
    found.filter(_ >= 0).distinct.sorted.filterNot { ordinal =>
      table.source.key.contains(table.schema(ordinal).name)
    }
  }

  private def checkIdentity(
      table: MirroredTable,
      relation: Relation,
      target: Seq[String],
      definition: CutDefinition
  ): Unit = {
    val wasFull = table.source.identity == ReplicaIdentity.Full
    val isFull = relation.identity == ReplicaIdentity.Full.code
    val marked =
      target.zip(relation.columns).collect { case (name, column) if column.isKey => name }
    val isSame =
      if (isFull || wasFull) isFull == wasFull && definition.missingKey.isEmpty
      else marked.toSet == table.source.key.toSet
    if (!isSame) {
      val before = describe(wasFull, table.source.key)
      throw changed(
        table,
        s"Its rows were identified by $before, and now they are by ${describe(isFull, marked)}."
      )
    }
  }

  /**
   * A column can be renamed, written and renamed back between two looks at the catalog. The catalog then does
   * not know the name that the column had in between.
   *
   * @param known the names that columns of the table had before
   * @param target what the columns of the relation are called in the target
   */
  private def checkNames(
      table: MirroredTable,
      known: Set[String],
      relation: Relation,
      target: Seq[String]
  ): Unit = {
    val columns = table.schema.fieldNames
    val unknown = relation.columns.map(_.name).filterNot(known ++ columns)
    val lacking = columns.diff(target)
    for (name <- unknown.headOption; column <- lacking.headOption)
      throw changed(
        table,
        s"A change has the column '$name', which the catalog does not have. It can be the column '$column' " +
          "before or after a rename."
      )
  }

  /**
   * A column can have had the name of another one between two looks at the catalog. Both the message and the table have
   * the columns in the order of their numbers, and a new column gets a greater number than all others. So the columns
   * of the message that the table still has are the first ones of the table, with the same types. Columns that were
   * added and dropped since come after them. Columns that were dropped since the copy have no order.
   */
  private def checkColumns(
      table: MirroredTable,
      names: Set[String],
      relation: Relation,
      ordinals: Seq[Int]
  ): Unit = {
    val columns = relation.columns.zip(ordinals)
    def isKept(ordinal: Int) = table.schema.indices.contains(ordinal)
    val known = columns.filter { case (_, ordinal) => isKept(ordinal) }
    val isAfterUnknown = columns
      .dropWhile { case (column, ordinal) => ordinal >= 0 || names(column.name) }
      .exists { case (_, ordinal) => isKept(ordinal) }
    val isOther = known.map(_._2) != known.indices || known.exists { case (column, ordinal) =>
      // The catalog would say so if the column had got another type.
      table.source.columns.lift(ordinal).exists(now =>
        column.typeId != now.readType && !TableComparison.isFollowed(column.typeId, now)
      )
    }
    if (isOther || isAfterUnknown)
      throw changed(
        table,
        "A column had the name of another one between two looks at the catalog."
      )
  }

  private def describe(isFull: Boolean, columns: Seq[String]) =
    if (isFull) "REPLICA IDENTITY FULL"
    else if (columns.isEmpty) "nothing"
    else columns.mkString("the columns ", ", ", "")

  private def checkTypes(
      definition: FoldDefinition,
      schema: StructType,
      options: ConversionOptions
  ): Unit = definition.relation.columns.zip(definition.ordinals).foreach { case (column, ordinal) =>
    if (ordinal >= 0) {
      val field = schema(ordinal)
      val pgType = definition.types.byOid(column.typeId)
      if (pgType.to(field.dataType, options).isEmpty) {
        throw new PgOutputException(
          "PGOUTPUT_SCHEMA_EVOLUTION.REPLICATED_TYPE",
          "column" -> column.name,
          "table" -> definition.relation.name,
          "pgType" -> pgType.name,
          "targetType" -> field.dataType.sql
        )
      }
    }
  }
}

/**
 * The columns of the rows that a fold makes: `c0`, `c1`, … are the columns of the target in order, and
 * what follows says what is to be done with the row. The names are not the target's, so that they need
 * no quotes, and no column of the target has one of them.
 */
object FoldedColumns {

  /** A value of [[RowOp]]. */
  final val Op = "op"

  /**
   * The difference in the number of copies of the row. It is less than 0 if there are fewer copies.
   */
  final val Count = "n"

  /**
   * The position of the UPDATE that changed the key of the row to this key, if the UPDATE is in this cut and did not
   * send all values.
   */
  final val MovedIn: Seq[String] = Seq("moved_in_lsn", "moved_in_ordinal")

  /** The position of the UPDATE that gave a row of [[RowOp.MovedOut]] another key. */
  final val MovedOut: Seq[String] = Seq("moved_out_lsn", "moved_out_ordinal")

  /** A column of the target. */
  def column(ordinal: Int): String = s"c$ordinal"

  /** The flag of a column: whether no change has sent its value since the row got this key. */
  def unsent(ordinal: Int): String = s"u$ordinal"

  def columns(target: StructType): Seq[StructField] = target.zipWithIndex.map {
    case (field, ordinal) => StructField(column(ordinal), field.dataType)
  }

  /** The rows of a table with a key: the columns, the operation, what was not sent, positions. */
  def keyed(target: StructType, unsentColumns: Seq[Int]): StructType = StructType(
    (columns(target) :+ StructField(Op, StringType)) ++
      unsentColumns.map(ordinal => StructField(unsent(ordinal), BooleanType)) ++
      (MovedIn ++ MovedOut).map(StructField(_, LongType))
  )
}

/** The operation that changes a row of the target. */
object RowOp {

  /** The row was not there before, and is there now. */
  final val Insert = "I"

  /** The row was there before, and is there with other values. */
  final val Update = "U"

  /** The row was there before, and is not there now. */
  final val Delete = "D"

  /**
   * Another row with the key was there before, for which the fold also has a row [[Delete]]. If deleted rows are
   * marked, a TRUNCATE of the cut has ended the earlier row. If the target has versions, this row adds a version.
   */
  final val Replace = "R"

  /** Not written: a row before an UPDATE changed its key. It has values that the UPDATE did not send. */
  final val MovedOut = "S"

  /** Returns the operation with a letter. */
  def of(letter: Byte): String = (letter.toChar: @switch) match {
    case 'I' => Insert
    case 'U' => Update
    case 'D' => Delete
    case 'R' => Replace
    case 'S' => MovedOut
  }
}
