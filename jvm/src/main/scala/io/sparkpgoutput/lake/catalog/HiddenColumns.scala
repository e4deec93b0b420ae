package io.sparkpgoutput.lake.catalog

import java.io.IOException
import java.nio.charset.StandardCharsets.{US_ASCII, UTF_8}
import java.nio.file.{Files, Path}
import java.util.HexFormat
import javax.crypto.Mac
import javax.crypto.spec.SecretKeySpec

import scala.util.Using

import io.sparkpgoutput.changes.{TableName, TablePattern}
import io.sparkpgoutput.errors.LakeException
import io.sparkpgoutput.source.PublicationNames

/**
 * The columns of a table whose values the options keep from the target.
 *
 * @param excluded the names of the columns that the target does not have
 * @param hashed the names of the columns of which the target has hashes
 */
final case class HiddenColumns(excluded: Seq[String] = Nil, hashed: Seq[String] = Nil) {

  /** The names of all of these columns. */
  def names: Seq[String] = (excluded ++ hashed).distinct

  /**
   * Finds a column that is to be hidden and is shown, because it has another name now. Returns the name that is to be
   * hidden, and the current name.
   *
   * @param before the columns that were hidden
   * @param now the names of columns by their numbers
   * @param named the names that are to be hidden. There can be more, if the table has had another name.
   */
  def shown(
      before: Seq[TableColumn],
      now: Map[Int, String],
      named: Seq[String] = names
  ): Option[(String, String)] = {
    val former = before.map(column => column.number -> column.name).toMap
    now.toSeq.sorted.filterNot { case (_, name) => names.contains(name) }
      .flatMap { case (number, name) =>
        (former.get(number) ++ Some(name)).find(named.contains).map(_ -> name)
      }.headOption
  }

  def ++(more: HiddenColumns): HiddenColumns =
    HiddenColumns((excluded ++ more.excluded).distinct, (hashed ++ more.hashed).distinct)
}

/**
 * The columns that the options hide. The reader of the slot and the tasks of a copy apply this before anything
 * else sees a value. A [[SourceTable]] whose columns are hidden looks as if the publications did not
 * send the excluded ones, and as if the hashed ones were texts.
 *
 * The options name columns, and the server can rename them. So a hidden column that has another name now
 * is an error of the table: see also [[io.sparkpgoutput.lake.job.ColumnGuard]].
 *
 * @param tables the hidden columns by the names of tables, as a user writes them
 * @param salt the salt of the hashes. Each table with hashed columns needs one.
 */
final case class ColumnHiding(
    tables: Map[String, HiddenColumns] = Map.empty,
    salt: Option[HashSalt] = None
) {

  /** Hides more columns of a table. */
  def hide(table: String, more: HiddenColumns): ColumnHiding =
    copy(tables = tables + (table -> (tables.getOrElse(table, HiddenColumns()) ++ more)))

  /** The hidden columns of a table with a name, or of one that has had several names; None if all are shown. */
  def of(names: TableName*): Option[HiddenColumns] =
    tables.collect { case (key, hidden) if names.exists(TablePattern.isOf(key, _)) => hidden }
      .reduceOption(_ ++ _)

  private def named(names: TableName*) = of(names: _*).getOrElse(HiddenColumns())

  private def hashOf(column: String, hidden: HiddenColumns) =
    salt.filter(_ => hidden.hashed.contains(column)).map(_.fingerprint)

  /** Returns whether changes of a table with some names have the same hidden columns as an earlier definition. */
  def isAsIn(kept: SourceTable, names: Set[TableName]): Boolean = {
    val hidden = named(names.toSeq: _*)
    kept.excluded.forall(column => hidden.excluded.contains(column.name)) &&
    kept.columns.forall(column =>
      !hidden.excluded.contains(column.name) && column.hash == hashOf(column.name, hidden)
    )
  }

  private def hide(source: SourceTable, hidden: HiddenColumns) =
    source.hiding(
      column => hidden.excluded.contains(column.name),
      column => hashOf(column.name, hidden)
    )

  /**
   * Hides the columns of a table.
   *
   * @param source the table by the server's catalog
   * @param kept the table as the job copied it; None if there is no copy
   * @throws LakeException if the options do not fit the table any more
   */
  def apply(source: SourceTable, kept: Option[SourceTable]): SourceTable = {
    val hidden = named(source.name)
    kept.filter(_.hidden.nonEmpty).foreach(checkNames(source, hidden, _))
    check(source, hidden)
    hide(source, hidden)
  }

  /**
   * Hides the columns of a table that the options name, also if the options do not fit the table. So the job knows from
   * its first look on which columns are to be hidden, whatever names they get before the first copy.
   */
  def unchecked(source: SourceTable): SourceTable = hide(source, named(source.name))

  /** A table with another name keeps what is hidden, even if the options hide other columns under this name. */
  private def checkNames(source: SourceTable, hidden: HiddenColumns, kept: SourceTable): Unit = {
    val now = source.columns.map(column => column.number -> column.name).toMap
    hidden.shown(kept.hidden, now, named(source.name, kept.name).names).foreach {
      case (column, name) if column == name =>
        throw new LakeException(
          "PGOUTPUT_REPLICATE_OPTION.HIDDEN_TABLE_RENAMED",
          "table" -> source.name,
          "former" -> kept.name,
          "column" -> column
        )
      case (column, name) =>
        throw new LakeException(
          "PGOUTPUT_REPLICATE_OPTION.HIDDEN_COLUMN_RENAMED",
          "column" -> column,
          "table" -> source.name,
          "name" -> name
        )
    }
  }

  private def check(source: SourceTable, hidden: HiddenColumns): Unit = {
    def option(column: String) = if (hidden.excluded.contains(column)) "exclude" else "hash"
    hidden.names.diff(source.columns.map(_.name)).foreach { column =>
      throw new LakeException(
        "PGOUTPUT_REPLICATE_OPTION.NO_HIDDEN_COLUMN",
        "option" -> s"${option(column)}Columns.${source.name}",
        "column" -> column,
        "known" -> source.columns.map(_.name).mkString(", ")
      )
    }
    hidden.excluded.find(source.key.contains).foreach { column =>
      throw new LakeException(
        "PGOUTPUT_REPLICATE_OPTION.EXCLUDED_KEY",
        "column" -> column,
        "table" -> source.name
      )
    }
  }
}

object ColumnHiding {

  /** The option that leaves out a column, as a user writes it. */
  def exclusion(table: TableName, column: String): String =
    s"excludeColumns.${table.unambiguous}=${PublicationNames.one(column)}"
}

/** The secret key of hashes. It is never shown: its text has only its fingerprint. */
final class HashSalt private (key: Array[Byte]) extends Serializable {

  /** Equal salts have equal fingerprints. A fingerprint does not reveal its salt. */
  val fingerprint: String = {
    val text = HashSalt.Fingerprinted.getBytes(US_ASCII)
    new String(new ValueHash(this).of(text, 0, text.length), US_ASCII).take(16)
  }

  private[catalog] def mac: Mac = {
    val mac = Mac.getInstance(HashSalt.Algorithm)
    mac.init(new SecretKeySpec(key, HashSalt.Algorithm))
    mac
  }

  override def equals(other: Any): Boolean = other match {
    case that: HashSalt => fingerprint == that.fingerprint
    case _              => false
  }

  override def hashCode: Int = fingerprint.hashCode

  override def toString: String = s"a salt with the fingerprint $fingerprint"
}

object HashSalt {
  final private val Algorithm = "HmacSHA256"
  final private val Fingerprinted = "spark-pgoutput"

  /** Makes a salt of a text; None if the text is empty. */
  def of(text: String): Option[HashSalt] =
    Option.when(text.nonEmpty)(new HashSalt(text.getBytes(UTF_8)))

  /** Reads the first line of a file. `Left` says why this is not possible. */
  def ofFile(file: String): Either[String, HashSalt] =
    try Using.resource(Files.newBufferedReader(Path.of(file)))(reader => Option(reader.readLine()))
        .flatMap(of).toRight("its first line is empty")
    catch { case problem: IOException => Left(problem.toString) }

  /** Reads a variable of the environment. */
  def ofVariable(name: String): Either[String, HashSalt] =
    sys.env.get(name).flatMap(of).toRight("the variable is not set or is empty")
}

/** Hashes values: HMAC-SHA-256 of the text of a value in UTF-8, as hexadecimal digits. Not thread-safe. */
final class ValueHash(salt: HashSalt) {
  private val mac = salt.mac
  private val hash = new Array[Byte](mac.getMacLength)
  private val digits = new Array[Byte](2 * hash.length)
  private val hex = HexFormat.of()

  /** Returns the hash of the bytes from `from` up to `to`. The next call overwrites it. */
  def of(text: Array[Byte], from: Int, to: Int): Array[Byte] = {
    mac.update(text, from, to - from)
    mac.doFinal(hash, 0): Unit
    var at = 0
    while (at < hash.length) {
      digits(2 * at) = hex.toHighHexDigit(hash(at).toInt).toByte
      digits(2 * at + 1) = hex.toLowHexDigit(hash(at).toInt).toByte
      at += 1
    }
    digits
  }
}
