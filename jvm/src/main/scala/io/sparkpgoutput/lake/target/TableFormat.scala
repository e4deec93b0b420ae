package io.sparkpgoutput.lake.target

import java.lang.module.ModuleDescriptor.Version

import scala.util.Try

import org.apache.spark.SPARK_VERSION

/**
 * A format of tables.
 *
 * @param name what SQL calls it
 * @param mainClass a class of its JAR
 * @param sparks the versions of Spark on which it runs
 */
sealed abstract class TableFormat(
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
   * @throws LakeException if not, with what helps
   */
  def check(
      spark: String = SPARK_VERSION,
      isLoadable: String => Boolean = TableFormat.isLoadable,
      version: => String = found
  ): Unit = {
    val minor = spark.split('.').take(2).mkString(".")
    if (!sparks.contains(minor)) throw TargetError.format(
      s"The format $name runs on Spark ${sparks.mkString(" and ")}, and this is Spark $spark. Use " +
        s"Spark ${sparks.last}${TableFormat.other(this, minor).fold("")(other =>
            s", or the format $other"
          )}."
    )
    if (!isLoadable(mainClass)) throw TargetError.format(
      s"The JAR of $name is not on Spark's class path. Start Spark with --packages " +
        s"${packages(minor)} $settings"
    )
    oldest.filter(TableFormat.isBelow(version, _)).foreach { least =>
      throw TargetError.format(
        s"The JAR of $name has the version $version, and the job needs $least or a later one. Start Spark " +
          s"with --packages ${packages(minor)}"
      )
    }
  }
}

object TableFormat {

  case object Delta
      extends TableFormat(
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
      extends TableFormat(
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

  val all: Seq[TableFormat] = Seq(Delta, Iceberg)

  def named(name: String): Option[TableFormat] = all.find(_.name == name)

  /** A vendor's version ends in words of its own, as in 1.11.0-amzn-0. */
  private def isBelow(version: String, least: String) = {
    val numbers = version.takeWhile(char => char.isDigit || char == '.').stripSuffix(".")
    numbers.nonEmpty && Version.parse(numbers).compareTo(Version.parse(least)) < 0
  }

  private def other(format: TableFormat, spark: String) =
    all.find(other => other != format && other.sparks.contains(spark)).map(_.name)

  private def isLoadable(name: String): Boolean =
    Try(Class.forName(name, false, Thread.currentThread.getContextClassLoader)).isSuccess
}
