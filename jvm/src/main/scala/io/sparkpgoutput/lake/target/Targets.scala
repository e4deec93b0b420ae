package io.sparkpgoutput.lake.target

import java.lang.module.ModuleDescriptor.Version

import scala.util.Try

import org.apache.spark.SPARK_VERSION
import org.apache.spark.sql.{SparkSession, classic}

import org.apache.hadoop.fs.{FileSystem, Path}

import io.sparkpgoutput.errors.LakeException
import io.sparkpgoutput.lake.direct.KeyCache
import io.sparkpgoutput.lake.folder.ObjectStores

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
    else inCatalog(session, target, wanted, keys)
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
  protected def found: String = ""

  /**
   * Checks that the format runs on this Spark, and that its JAR is there and new enough.
   *
   * @throws LakeException if not. Its text says what to change.
   */
  def check(
      spark: String = SPARK_VERSION,
      isLoadable: String => Boolean = LakeFormat.isLoadable,
      version: => String = found
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

    override protected def found: String = org.apache.iceberg.IcebergBuild.version()

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
