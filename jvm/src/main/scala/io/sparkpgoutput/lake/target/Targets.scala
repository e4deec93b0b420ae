package io.sparkpgoutput.lake.target

import java.lang.module.ModuleDescriptor.Version
import java.net.URI
import java.nio.file.attribute.{PosixFileAttributeView, PosixFilePermissions}
import java.nio.file.{Files, Paths}

import scala.language.reflectiveCalls
import scala.util.Try
import scala.util.control.NonFatal

import org.apache.spark.SPARK_VERSION
import org.apache.spark.sql.catalyst.util.QuotingUtils
import org.apache.spark.sql.connector.catalog.{
  CatalogPlugin,
  Identifier,
  SupportsNamespaces,
  Table,
  TableCatalog
}
import org.apache.spark.sql.{SparkSession, classic}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.permission.FsPermission
import org.apache.hadoop.fs.{
  ChecksumFs,
  DelegateToFileSystem,
  FileStatus,
  FileSystem,
  LocalFileSystem,
  Path,
  RawLocalFileSystem
}

import io.sparkpgoutput.errors.LakeException
import io.sparkpgoutput.lake.direct.KeyCache
import io.sparkpgoutput.lake.folder.{ObjectStores, StoreJars}

/** Finds what a target's name means. */
object Targets {

  /**
   * Returns a target.
   *
   * @param target a namespace such as `lakehouse.shop`, or a folder of Delta tables
   * @param format `delta` or `iceberg`; None if the catalog decides
   * @param keys the cache of the keys of tables that are written
   * @throws LakeException
   *   if the format is not known, does not run on this Spark, or its JAR is missing
   */
  def of(
      session: SparkSession,
      target: String,
      format: Option[String],
      keys: KeyCache
  ): Target = {
    val wanted = format.map(name =>
      LakeFormat.named(name).getOrElse(
        throw new LakeException("PGOUTPUT_REPLICATE_OPTION.FORMAT", "format" -> name)
      )
    )
    session.conf.getOption(TableProperties.MarkExpiryDefault).foreach(_ =>
      throw new LakeException(
        "PGOUTPUT_TARGET_FORMAT.MARK_EXPIRY",
        "setting" -> TableProperties.MarkExpiryDefault
      )
    )
    NioLocalFileSystem.use(session) // before a catalog is loaded, which opens its file system
    if (FolderPlace.isFolder(target)) inFolder(session, target, wanted, keys)
    else
      StoreJars.naming(
        s"the store of the target $target",
        StoreJars.ofIceberg(LakeFormat.Iceberg.jarVersion)
      )(
        inCatalog(session, target, wanted, keys)
      )
  }

  /** Returns a target that keeps no keys. */
  def of(session: SparkSession, target: String, format: Option[String]): Target =
    of(session, target, format, KeyCache.none)

  private def inFolder(
      session: SparkSession,
      folder: String,
      wanted: Option[LakeFormat],
      keys: KeyCache
  ): Target = {
    if (wanted.contains(LakeFormat.Iceberg))
      throw new LakeException("PGOUTPUT_REPLICATE_OPTION.FOLDER", "target" -> folder)
    LakeFormat.Delta.check()
    if (!written(session, CatalogPlace.SessionCatalog).contains(LakeFormat.Delta))
      throw new LakeException(
        "PGOUTPUT_TARGET_FORMAT.DELTA_SETTINGS",
        "settings" -> LakeFormat.Delta.settings
      )
    deltaTarget(session, new FolderPlace(session, folder), keys)
  }

  private def inCatalog(
      session: SparkSession,
      target: String,
      wanted: Option[LakeFormat],
      keys: KeyCache
  ): Target = {
    val state = session.asInstanceOf[classic.SparkSession].sessionState
    val parts = state.sqlParser.parseMultipartIdentifier(target)
    val current = session.catalog.currentCatalog()
    val (catalog, namespace) =
      if (parts.head == CatalogPlace.SessionCatalog || isConfigured(session, parts.head))
        (parts.head, parts.tail)
      else (current, parts)
    if (namespace.isEmpty)
      throw new LakeException("PGOUTPUT_REPLICATE_OPTION.CATALOG", "target" -> target)
    // This comes before the catalog is loaded, because Spark's error about a missing class says little.
    configured(session, catalog).foreach(_.check())
    val format = wanted.orElse(written(session, catalog)).getOrElse(
      throw new LakeException("PGOUTPUT_REPLICATE_OPTION.NO_FORMAT", "catalog" -> catalog)
    )
    format.check()
    if (catalog == CatalogPlace.SessionCatalog && !written(session, catalog).contains(format))
      throw new LakeException(
        "PGOUTPUT_TARGET_FORMAT.CATALOG",
        "catalog" -> catalog,
        "format" -> format.name,
        "settings" -> format.settings
      )
    val place = new CatalogPlace(session, catalog, namespace)
    format match {
      case LakeFormat.Delta => deltaTarget(session, place, keys)
      case LakeFormat.Iceberg =>
        checkIceberg(session, catalog)
        new IcebergTarget(session, place, keys)
    }
  }

  private def deltaTarget(session: SparkSession, place: TablePlace, keys: KeyCache): Target = {
    place.location.foreach(S3Commits.ensure(session, _))
    new DeltaTarget(session, place, keys)
  }

  /** Refuses a catalog of the type hadoop in an object store, because it makes a commit by a rename. */
  private def checkIceberg(session: SparkSession, catalog: String): Unit = {
    val prefix = s"spark.sql.catalog.$catalog"
    def setting(name: String) = session.conf.getOption(s"$prefix.$name")
    val renames = setting("type").exists(_.equalsIgnoreCase("hadoop")) ||
      setting("catalog-impl").contains("org.apache.iceberg.hadoop.HadoopCatalog")
    if (renames) setting("warehouse").foreach { warehouse =>
      val configuration = session.sessionState.newHadoopConf()
      val scheme = Option(new Path(warehouse).toUri.getScheme)
        .getOrElse(FileSystem.getDefaultUri(configuration).getScheme)
      if (ObjectStores.Schemes(scheme))
        throw new LakeException(
          "PGOUTPUT_TARGET_FORMAT.RENAMES_FILES",
          "setting" -> prefix,
          "warehouse" -> warehouse
        )
    }
  }

  private def isConfigured(session: SparkSession, catalog: String) =
    session.conf.getOption(s"spark.sql.catalog.$catalog").nonEmpty

  /** The format that the class of a catalog writes, as far as the name of the class shows it. */
  private def configured(session: SparkSession, catalog: String): Option[LakeFormat] =
    session.conf.getOption(s"spark.sql.catalog.$catalog").flatMap(ofClass)

  private def ofClass(name: String) =
    if (name.startsWith("org.apache.iceberg.")) Some(LakeFormat.Iceberg)
    else Option.when(name == "org.apache.spark.sql.delta.catalog.DeltaCatalog")(LakeFormat.Delta)

  /** The format that a catalog writes, as far as its class or a superclass shows it. */
  private def written(session: SparkSession, catalog: String): Option[LakeFormat] = {
    val found = CatalogPlace.catalog(session, catalog).getClass
    Iterator.iterate[Class[_]](found)(_.getSuperclass).takeWhile(_ != null)
      .flatMap(of => ofClass(of.getName)).nextOption()
  }
}

/** Where the tables of a target are. */
sealed trait TablePlace {

  /** The parts of a table's name in SQL. */
  def parts(table: String): Seq[String]

  final def sqlName(table: String): String = TablePlace.quoted(parts(table): _*)

  def exists(table: String): Boolean

  /** Returns why no table is found at present, although nobody may have removed one. */
  def absence: Option[String]

  def tables(): Seq[String]

  /** The folder in which tables are made, if it is known. */
  def location: Option[Path]

  /** Makes the namespace or the folder of the tables, and removes what an interrupted CREATE TABLE has left of one. */
  def prepare(table: String): Unit

  /** Removes a table with its files, if it is there. */
  def drop(table: String): Unit

  /** Returns why a table cannot have a name. */
  def nameProblem(name: String): Option[String]
}

object TablePlace {

  /**
   * Returns whether a table that is listed exists. If the answer is an error, the table has its entry, and what reads
   * it meets the error. For example, Iceberg reads the metadata of a table to find out whether it exists.
   */
  private[target] def mayExist(exists: => Boolean): Boolean =
    try exists
    catch { case NonFatal(_) => true }

  private[target] def absent(what: String, are: String = "is", them: String = "it"): String =
    s"The $what of the target $are not there. If you have removed $them, run spark-pgoutput resync --all with the " +
      "--checkpoint of the job."

  /** Returns a name for SQL. */
  def quoted(parts: String*): String =
    parts.map(QuotingUtils.quoteIdentifier).mkString(".")
}

/** A namespace of a catalog. */
final class CatalogPlace(session: SparkSession, val catalogName: String, namespace: Seq[String])
    extends TablePlace {

  val catalog: TableCatalog = CatalogPlace.catalog(session, catalogName).asInstanceOf[TableCatalog]

  def parts(table: String): Seq[String] = catalogName +: namespace :+ table

  def load(table: String): Table = catalog.loadTable(identifier(table))

  def exists(table: String): Boolean = catalog.tableExists(identifier(table))

  /** A kill in Iceberg's CREATE TABLE leaves a folder that its Hadoop catalog lists as a table. */
  def tables(): Seq[String] =
    if (lacksNamespace) Nil
    else
      catalog.listTables(namespace.toArray)
        .filter(table => TablePlace.mayExist(catalog.tableExists(table))).map(_.name).toSeq

  def prepare(table: String): Unit =
    if (lacksNamespace) session.sql(s"CREATE NAMESPACE IF NOT EXISTS $quoted")

  /** The warehouse can be a file system that is not mounted. */
  def absence: Option[String] =
    Option.when(lacksNamespace)(TablePlace.absent(s"namespace $quoted"))

  /** The name of the namespace in SQL. */
  private def quoted = TablePlace.quoted(catalogName +: namespace: _*)

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

  private[target] def identifier(table: String) = Identifier.of(namespace.toArray, table)
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
  private val files = StoreJars.fileSystem(new Path(folder), configuration)
  private val root = files.makeQualified(new Path(folder))

  def path(table: String): Path = new Path(root, table)

  def parts(table: String): Seq[String] = Seq(LakeFormat.Delta.name, path(table).toString)

  /** A table exists from its first commit on. Delta makes the folder of the log before that. */
  def exists(table: String): Boolean = {
    val log = new Path(path(table), FolderPlace.Log)
    files.exists(log) && files.listStatus(log).exists(file => isCommit(file.getPath.getName))
  }

  /** A store that is away has an error, but a file system that is not mounted only lacks the folder. */
  def absence: Option[String] =
    Option.when(root.toUri.getScheme == "file" && !Files.isDirectory(Paths.get(root.toUri)))(
      TablePlace.absent(s"folder $root")
    )

  // The names of commits and checkpoints begin with numbers. The name of an unfinished file begins with a point.
  private def isCommit(name: String) = name.headOption.exists(_.isDigit)

  def tables(): Seq[String] =
    if (!files.exists(root)) Nil
    else
      files.listStatus(root).filter(_.isDirectory).map(_.getPath.getName)
        .filter(table => TablePlace.mayExist(exists(table))).toSeq

  def location: Option[Path] = Some(root)

  /** Delta makes no table in a folder that has a log without commits. */
  def prepare(table: String): Unit = {
    files.mkdirs(root)
    if (!exists(table)) files.delete(new Path(path(table), FolderPlace.Log), true): Unit
  }

  /** Removes the log first, so that no table is left if the removal is interrupted. */
  def drop(table: String): Unit = {
    files.delete(new Path(path(table), FolderPlace.Log), true)
    files.delete(path(table), true): Unit
  }

  def nameProblem(name: String): Option[String] =
    Option.when(name.isEmpty || name.exists(char =>
      "/\\:".contains(char) || char.isControl
    ) || name.startsWith("."))(
      "A folder's name cannot be empty, begin with a dot, or have a control character or one of / \\ : in it."
    )
}

object FolderPlace {
  final private val Log = "_delta_log"

  /** Returns whether a target is a folder and not a namespace. */
  def isFolder(target: String): Boolean = target.contains('/')
}

/**
 * A format of tables.
 *
 * @param name what SQL calls it
 * @param mainClass a class of its JAR
 * @param sparks the versions of Spark on which it runs
 */
sealed abstract class LakeFormat(
    val name: String,
    val mainClass: String,
    val sparks: Seq[String]
) {

  /** The Maven coordinates for a version of Spark such as 4.1. */
  def packages(spark: String): String

  /** The settings that a session needs. */
  def settings: String

  /** The oldest version of the format that works; None if nothing is known of it. */
  def oldest: Option[String] = None

  /** The version of the JAR on the class path. */
  private[target] def jarVersion: String = ""

  /**
   * Checks that the format runs on this Spark, and that its JAR is there and new enough.
   *
   * @throws LakeException if not. Its text says what to change.
   */
  def check(
      spark: String = SPARK_VERSION,
      isLoadable: String => Boolean = LakeFormat.isLoadable,
      version: => String = jarVersion
  ): Unit = {
    val minor = spark.split('.').take(2).mkString(".")
    if (!sparks.contains(minor)) throw new LakeException(
      "PGOUTPUT_TARGET_FORMAT.SPARK_VERSION",
      "format" -> name,
      "sparks" -> sparks.mkString(" and "),
      "found" -> spark,
      "newest" -> sparks.last,
      "orFormat" -> LakeFormat.other(this, minor).fold("")(other => s", or the format $other")
    )
    if (!isLoadable(mainClass)) throw new LakeException(
      "PGOUTPUT_TARGET_FORMAT.NO_JAR",
      "format" -> name,
      "packages" -> packages(minor),
      "settings" -> settings
    )
    oldest.filter(LakeFormat.isBelow(version, _)).foreach { least =>
      throw new LakeException(
        "PGOUTPUT_TARGET_FORMAT.OLD_JAR",
        "format" -> name,
        "found" -> version,
        "oldest" -> least,
        "packages" -> packages(minor)
      )
    }
  }
}

object LakeFormat {

  case object Delta
      extends LakeFormat(
        "delta",
        "org.apache.spark.sql.delta.catalog.DeltaTableV2",
        Seq("4.0", "4.1", "4.2")
      ) {
    def packages(spark: String): String = s"io.delta:delta-spark_${spark}_2.13:4.4.0"

    def settings: String =
      "--conf spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension " +
        "--conf spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog"
  }

  case object Iceberg
      extends LakeFormat(
        "iceberg",
        "org.apache.iceberg.spark.source.SparkTable",
        Seq("4.0", "4.1")
      ) {
    def packages(spark: String): String =
      s"org.apache.iceberg:iceberg-spark-runtime-${spark}_2.13:1.11.0"

    override def oldest: Option[String] = Some("1.11")

    override private[target] def jarVersion: String = org.apache.iceberg.IcebergBuild.version()

    def settings: String =
      "--conf spark.sql.catalog.<catalog>=org.apache.iceberg.spark.SparkCatalog and the settings of " +
        "the catalog"
  }

  val all: Seq[LakeFormat] = Seq(Delta, Iceberg)

  def named(name: String): Option[LakeFormat] = all.find(_.name == name)

  /** A vendor's version ends in words of its own, as in 1.11.0-amzn-0. */
  private def isBelow(version: String, least: String) = {
    val numbers = version.takeWhile(char => char.isDigit || char == '.').stripSuffix(".")
    numbers.nonEmpty && Version.parse(numbers).compareTo(Version.parse(least)) < 0
  }

  private def other(format: LakeFormat, spark: String) =
    all.find(other => other != format && other.sparks.contains(spark)).map(_.name)

  private def isLoadable(name: String): Boolean =
    Try(Class.forName(name, false, Thread.currentThread.getContextClassLoader)).isSuccess
}

/**
 * Hadoop's local file system, which starts no process.
 *
 * Without Hadoop's native library, which PySpark lacks, `RawLocalFileSystem` runs `chmod` for each file that it makes
 * and `readlink` for each file that it renames. A commit to a table makes about ten files, their checksums included, so
 * these processes can take longer than the rest of the commit.
 */
final class NioLocalFileSystem extends LocalFileSystem(new NioRawLocalFileSystem)

/**
 * A file system of local files for Hadoop's `FileContext`, which starts no processes either. Delta renames the files of
 * its log with it.
 */
final class NioLocalFs(uri: URI, configuration: Configuration)
    extends ChecksumFs(
      new DelegateToFileSystem(uri, new NioRawLocalFileSystem, configuration, "file", false) {
        override def getUriDefaultPort: Int = -1
      }
    )

object NioLocalFileSystem {

  /**
   * Lets a session use it for paths with the scheme `file`, unless the user names another file system, or Hadoop cannot
   * load the class, because the JAR came into the JVM after Hadoop.
   */
  private[target] def use(session: SparkSession): Unit = {
    val isDefault = Settings.forall { case (name, _) =>
      session.conf.getOption(name).isEmpty &&
      !session.sparkContext.getConf.contains(s"spark.hadoop.$name")
    }
    val hadoop = session.sessionState.newHadoopConf()
    if (isDefault && hadoop.getClassByNameOrNull(classOf[NioLocalFileSystem].getName) != null)
      Settings.foreach { case (name, value) => session.conf.set(name, value) }
  }

  private val Settings = Map(
    "fs.file.impl" -> classOf[NioLocalFileSystem].getName,
    "fs.AbstractFileSystem.file.impl" -> classOf[NioLocalFs].getName,
    // Spark's own instance is in Hadoop's cache already.
    "fs.file.impl.disable.cache" -> "true"
  )
}

private[target] class NioRawLocalFileSystem extends RawLocalFileSystem {

  override def setPermission(path: Path, permission: FsPermission): Unit = {
    val file = pathToFile(path).toPath
    val view = Files.getFileAttributeView(file, classOf[PosixFileAttributeView])
    // Windows has no such permissions, and Java does not know the sticky bit.
    if (view == null || permission.getStickyBit) super.setPermission(path, permission)
    else view.setPermissions(PosixFilePermissions.fromString(permission.toString))
  }

  override def getFileLinkStatus(path: Path): FileStatus =
    if (Files.isSymbolicLink(pathToFile(path).toPath)) super.getFileLinkStatus(path)
    else getFileStatus(path)
}
