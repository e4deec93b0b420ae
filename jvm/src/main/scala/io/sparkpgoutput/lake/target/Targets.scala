package io.sparkpgoutput.lake.target

import org.apache.spark.sql.{SparkSession, classic}

import io.sparkpgoutput.lake.LakeError

/** Finds what a target's name means. */
object Targets {

  /**
   * Returns a target.
   *
   * @param target a namespace such as `lakehouse.shop`, or a folder of Delta tables
   * @param format `delta` or `iceberg`; None if the catalog decides
   * @throws LakeException
   *   if the format is not known, does not run on this Spark, or its JAR is missing
   */
  def of(session: SparkSession, target: String, format: Option[String]): Target = {
    val wanted = format.map(name =>
      TableFormat.named(name).getOrElse(
        throw LakeError.option(s"The option 'format' must be delta or iceberg, and is '$name'.")
      )
    )
    session.conf.getOption(TableProperties.MarkExpiryDefault).foreach(_ =>
      throw TargetError.format(
        s"With the setting ${TableProperties.MarkExpiryDefault}, Delta would forget what a table has that " +
          "does not change. Unset it in the session of the job."
      )
    )
    if (FolderPlace.isFolder(target)) inFolder(session, target, wanted)
    else inCatalog(session, target, wanted)
  }

  private def inFolder(
      session: SparkSession,
      folder: String,
      wanted: Option[TableFormat]
  ): Target = {
    if (wanted.contains(TableFormat.Iceberg)) throw LakeError.option(
      s"The target $folder is a folder, which only Delta takes. Iceberg needs a catalog: name one of " +
        "its namespaces, such as lakehouse.shop."
    )
    TableFormat.Delta.check()
    if (!written(session, CatalogPlace.SessionCatalog).contains(TableFormat.Delta))
      throw TargetError.format(
        s"Delta needs settings of the session. Add ${TableFormat.Delta.settings}, and start the job again."
      )
    new DeltaTarget(session, new FolderPlace(session, folder))
  }

  private def inCatalog(
      session: SparkSession,
      target: String,
      wanted: Option[TableFormat]
  ): Target = {
    val state = session.asInstanceOf[classic.SparkSession].sessionState
    val parts = state.sqlParser.parseMultipartIdentifier(target)
    val current = session.catalog.currentCatalog()
    val (catalog, namespace) =
      if (parts.head == CatalogPlace.SessionCatalog || isConfigured(session, parts.head))
        (parts.head, parts.tail)
      else (current, parts)
    if (namespace.isEmpty) throw LakeError.option(
      s"The target $target is a catalog. Name one of its namespaces, such as $target.shop."
    )
    // Before the catalog is loaded: that the class is missing says little.
    configured(session, catalog).foreach(_.check())
    val format = wanted.orElse(written(session, catalog)).getOrElse(
      throw LakeError.option(
        s"The catalog $catalog does not tell what it writes. Set the option 'format' to delta or iceberg."
      )
    )
    format.check()
    if (catalog == CatalogPlace.SessionCatalog && !written(session, catalog).contains(format))
      throw TargetError.format(
        s"The catalog $catalog does not write ${format.name}. Start Spark with ${format.settings}, or " +
          "name another catalog."
      )
    val place = new CatalogPlace(session, catalog, namespace)
    format match {
      case TableFormat.Delta   => new DeltaTarget(session, place)
      case TableFormat.Iceberg => new IcebergTarget(session, place)
    }
  }

  private def isConfigured(session: SparkSession, catalog: String) =
    session.conf.getOption(s"spark.sql.catalog.$catalog").nonEmpty

  /** What the class of a catalog says by its name. */
  private def configured(session: SparkSession, catalog: String): Option[TableFormat] =
    session.conf.getOption(s"spark.sql.catalog.$catalog").flatMap(ofClass)

  private def ofClass(name: String) =
    if (name.startsWith("org.apache.iceberg.")) Some(TableFormat.Iceberg)
    else Option.when(name == "org.apache.spark.sql.delta.catalog.DeltaCatalog")(TableFormat.Delta)

  /** What a catalog writes. */
  private def written(session: SparkSession, catalog: String): Option[TableFormat] = {
    val found = CatalogPlace.catalog(session, catalog).getClass
    Iterator.iterate[Class[_]](found)(_.getSuperclass).takeWhile(_ != null)
      .flatMap(of => ofClass(of.getName)).nextOption()
  }
}
