package io.sparkpgoutput.lake.target

import scala.language.reflectiveCalls
import scala.util.control.NonFatal

import org.apache.spark.sql.catalyst.util.QuotingUtils
import org.apache.spark.sql.connector.catalog.{
  CatalogPlugin,
  Identifier,
  SupportsNamespaces,
  Table,
  TableCatalog
}
import org.apache.spark.sql.{SparkSession, classic}

import org.apache.hadoop.fs.Path

/** Where the tables of a target are. */
sealed trait TablePlace {

  /** The parts of a table's name in SQL. */
  def parts(table: String): Seq[String]

  final def sqlName(table: String): String = TablePlace.quoted(parts(table): _*)

  def exists(table: String): Boolean

  def tables(): Seq[String]

  /** The folder in which tables are made, if it is known. */
  def location: Option[Path]

  /** Makes the namespace or the folder of the tables. */
  def make(): Unit

  /** Removes what was made for a table when its CREATE TABLE was interrupted. */
  def removeUnfinished(table: String): Unit

  /** Removes a table with its files, if it is there. */
  def drop(table: String): Unit

  /** Returns why a table cannot have a name. */
  def nameProblem(name: String): Option[String]
}

object TablePlace {

  /** Returns a name for SQL. */
  def quoted(parts: String*): String =
    parts.map(QuotingUtils.quoteIdentifier).mkString(".")
}

/** A namespace of a catalog. */
final class CatalogPlace(session: SparkSession, catalogName: String, namespace: Seq[String])
    extends TablePlace {

  val catalog: TableCatalog = CatalogPlace.catalog(session, catalogName).asInstanceOf[TableCatalog]

  def parts(table: String): Seq[String] = catalogName +: namespace :+ table

  def load(table: String): Table = catalog.loadTable(identifier(table))

  def exists(table: String): Boolean = catalog.tableExists(identifier(table))

  /** A kill in Iceberg's CREATE TABLE leaves a folder that its Hadoop catalog lists as a table. */
  def tables(): Seq[String] =
    if (lacksNamespace) Nil
    else catalog.listTables(namespace.toArray).filter(catalog.tableExists).map(_.name).toSeq

  def make(): Unit =
    if (lacksNamespace) session.sql(
      s"CREATE NAMESPACE IF NOT EXISTS ${TablePlace.quoted(catalogName +: namespace: _*)}"
    )

  /** The folder of the namespace or, while the namespace is missing, the warehouse of Spark's own catalog. */
  def location: Option[Path] = (catalog match {
    case namespaces: SupportsNamespaces if !lacksNamespace =>
      Option(namespaces.loadNamespaceMetadata(namespace.toArray).get(
        SupportsNamespaces.PROP_LOCATION
      ))
    case _ =>
      Option.when(catalogName == CatalogPlace.SessionCatalog)(
        session.conf.get("spark.sql.warehouse.dir")
      )
  }).map(new Path(_))

  def removeUnfinished(table: String): Unit = ()

  /** Keeps the files if the catalog does not remove them: some never do, or not if `gc.enabled` is false. */
  def drop(table: String): Unit = if (!lacksNamespace) {
    val statement = s"DROP TABLE IF EXISTS ${sqlName(table)}"
    try session.sql(s"$statement PURGE"): Unit
    catch { case NonFatal(_) => session.sql(statement): Unit }
  }

  private def lacksNamespace = catalog match {
    case namespaces: SupportsNamespaces => !namespaces.namespaceExists(namespace.toArray)
    case _                              => false
  }

  // `SessionCatalog.validateName`. A table of Iceberg has a folder of its name.
  def nameProblem(name: String): Option[String] =
    if (catalogName == CatalogPlace.SessionCatalog)
      Option.when(!name.matches("[A-Za-z0-9_]+"))(
        s"The catalog $catalogName takes only letters, digits and _."
      )
    else
      Option.when(
        name.isEmpty || name.contains('/')
      )("A name cannot be empty, and cannot have a /.")

  private def identifier(table: String) = Identifier.of(namespace.toArray, table)
}

object CatalogPlace {
  val SessionCatalog = "spark_catalog"

  /**
   * Returns a catalog of the session by its name.
   *
   * `CatalogManager` is a class up to Spark 4.1 and a trait since Spark 4.2. A call that is compiled
   * for one of them fails with the other one.
   */
  def catalog(session: SparkSession, name: String): Any = {
    val catalogs: { def catalog(name: String): CatalogPlugin } =
      session.asInstanceOf[classic.SparkSession].sessionState.catalogManager
    catalogs.catalog(name)
  }
}

/** A folder with a folder for each table. */
final class FolderPlace(session: SparkSession, folder: String) extends TablePlace {
  private val configuration = session.sessionState.newHadoopConf()
  private val files = new Path(folder).getFileSystem(configuration)
  private val root = files.makeQualified(new Path(folder))

  def path(table: String): Path = new Path(root, table)

  def parts(table: String): Seq[String] = Seq(LakeFormat.Delta.name, path(table).toString)

  /** A table exists from its first commit on. Delta makes the folder of the log before that. */
  def exists(table: String): Boolean = {
    val log = new Path(path(table), FolderPlace.Log)
    files.exists(log) && files.listStatus(log).exists(file => isCommit(file.getPath.getName))
  }

  // The names of commits and checkpoints begin with numbers. The name of an unfinished file begins with a point.
  private def isCommit(name: String) = name.headOption.exists(_.isDigit)

  def tables(): Seq[String] =
    if (!files.exists(root)) Nil
    else files.listStatus(root).filter(_.isDirectory).map(_.getPath.getName).filter(exists).toSeq

  def location: Option[Path] = Some(root)

  def make(): Unit = files.mkdirs(root)

  /** Delta makes no table in a folder that has a log without commits. */
  def removeUnfinished(table: String): Unit =
    if (!exists(table)) files.delete(new Path(path(table), FolderPlace.Log), true): Unit

  /** Removes the log first, so that no table is left if the removal is interrupted. */
  def drop(table: String): Unit = {
    files.delete(new Path(path(table), FolderPlace.Log), true)
    files.delete(path(table), true): Unit
  }

  def nameProblem(name: String): Option[String] =
    Option.when(name.isEmpty || name.exists(char =>
      "/\\:".contains(char) || char.isControl
    ) || name.startsWith("."))(
      "A folder's name cannot be empty, begin with a point, or have one of / \\ : in it."
    )
}

object FolderPlace {
  final private val Log = "_delta_log"

  /** Returns whether a target is a folder and not a namespace. */
  def isFolder(target: String): Boolean = target.contains('/')
}
