package io.sparkpgoutput.lake.target

import java.nio.file.{Files, Path}

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.delta.actions.SetTransaction
import org.apache.spark.sql.delta.util.FileNames
import org.apache.spark.sql.delta.{DeltaLog, DeltaOperations, Snapshot}
import org.apache.spark.sql.functions.col
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import io.delta.tables.{DeltaTable, DeltaTableBuilder}
import org.apache.hadoop.conf.Configuration

import io.sparkpgoutput.lake.apply.WrittenTable
import io.sparkpgoutput.lake.direct.DirectChange
import io.sparkpgoutput.{DeltaTests, TakesLong}

/**
 * Tables of Delta with each feature, property and property of columns that [[DeltaDirect]] knows, and with others that
 * need a MERGE. A MERGE takes seconds, so by default only one of the latter gets one. If
 * `-Dspark-pgoutput.histories=` is set, each of them does, and a table with most of them at once.
 */
class DeltaKindsSuite extends DeltaTests {
  private val takesAll = System.getProperty("spark-pgoutput.histories") != null
  private lazy val root = Files.createTempDirectory("kinds")
  private lazy val target = Targets.of(spark, root.toString, Some("delta"))

  private val id = StructField("id", IntegerType)
  private val v = StructField("v", StringType)
  private val big = StructField("big", StringType)
  private val plain = Seq(id, v, big)
  private val varchar =
    new MetadataBuilder().putString("__CHAR_VARCHAR_TYPE_STRING", "varchar(9)").build()

  /**
   * A kind of tables.
   *
   * @param name the name of a table, too
   * @param properties in addition to those of a table that the job makes
   * @param shape what else is special in the statement that makes the table
   * @param byOthers properties that other writers can have written, and that Delta itself does not let users set
   * @param after statements that follow
   */
  private case class Kind(
      name: String,
      columns: () => Seq[StructField] = () => plain,
      properties: Map[String, String] = Map.empty,
      shape: DeltaTableBuilder => DeltaTableBuilder = identity,
      byOthers: Map[String, String] = Map.empty,
      after: Seq[String] = Nil
  )

  private def folder(kind: Kind): Path = root.resolve(kind.name)

  private def snapshot(kind: Kind): Snapshot =
    DeltaLog.forTable(spark, folder(kind).toString).update()

  private def make(kind: Kind): Unit = {
    val builder = DeltaTable.create(spark).location(folder(kind).toString)
      .addColumns(StructType(kind.columns()))
    val usual = Map(
      "delta.columnMapping.mode" -> "name",
      "delta.enableDeletionVectors" -> "true",
      "delta.enableTypeWidening" -> "true"
    )
    (usual ++ kind.properties).filter(_._2.nonEmpty).foreach { case (name, value) =>
      builder.property(name, value)
    }
    kind.shape(builder).execute()
    if (kind.byOthers.nonEmpty) edit(kind, s"${"0" * 20}.json") { text =>
      val found = kind.byOthers.map { case (name, value) => s""""$name":"$value"""" }
      text.replace("\"configuration\":{", s"\"configuration\":{${found.mkString(",")},")
    }
    kind.after.foreach(sql => spark.sql(sql.replace("{}", target.sqlName(kind.name))))
  }

  /** Changes a file of the log. */
  private def edit(kind: Kind, name: String)(change: String => String): Unit = {
    val log = folder(kind).resolve("_delta_log")
    val file = log.resolve(name)
    val (before, after) = (Files.readString(file), change(Files.readString(file)))
    assert(before != after)
    Files.writeString(file, after)
    Files.deleteIfExists(log.resolve(s".$name.crc"))
    if (name.endsWith(".json")) Seq("", ".").foreach { hidden =>
      val sum = s"$hidden${name.replace(".json", ".crc")}${if (hidden.isEmpty) "" else ".crc"}"
      Files.deleteIfExists(log.resolve(sum))
    }
    DeltaLog.clearCache()
  }

  /** Gives a table a mark, writes cuts into it, and checks why there was a MERGE. */
  private def write(kind: Kind, reason: Option[String]): Unit = {
    snapshot(kind).deltaLog.startTransaction(None).commit(
      Seq(SetTransaction(WrittenTable.Name.toString, 1, None)),
      DeltaOperations.ManualUpdate
    ): Unit
    assert(KindsOfTables.write(spark, target, kind.name)() == ((reason, reason)), kind.name)
  }

  /** The actions of a checkpoint of a table, which is removed again. */
  private def checkpointed(kind: Kind)(write: Snapshot => Unit): Set[JsonNode] = {
    val found = snapshot(kind)
    write(found)
    val file = FileNames.checkpointFileSingular(found.deltaLog.logPath, found.version)
    // Delta also writes these values as JSON and as text, which all readers know. In a checkpoint, all actions change
    // no data. Delta leaves out the statistics and tags of a removed file.
    val actions = spark.read.parquet(file.toString)
      .withColumn(
        "add",
        col("add").dropFields("stats_parsed", "partitionValues_parsed", "dataChange")
      )
      .withColumn("remove", col("remove").dropFields("dataChange", "stats", "tags"))
      .toJSON.collect().map(new ObjectMapper().readTree(_)).toSet
    val files = file.getFileSystem(new Configuration)
    Seq(file, found.deltaLog.LAST_CHECKPOINT).foreach(files.delete(_, false))
    DeltaLog.clearCache()
    actions
  }

  private val supported = Seq("appendOnly", "invariants", "typeWidening-preview")

  private val direct = Seq(
    Kind(
      "clustered",
      columns = () => Seq(id.withComment("the key"), v, big),
      shape = _.clusterBy("id"),
      properties = Map(
        "delta.appendOnly" -> "false",
        "delta.checkpointInterval" -> "20",
        "delta.checkpointPolicy" -> "classic",
        "delta.dataSkippingNumIndexedCols" -> "2",
        "delta.dataSkippingStatsColumns" -> "id",
        "delta.deletedFileRetentionDuration" -> "interval 9 days",
        "delta.logRetentionDuration" -> "interval 20 days"
      ),
      byOthers = Map(
        "delta.minReaderVersion" -> "2",
        "delta.minWriterVersion" -> "5",
        "delta.targetFileSize" -> "1mb"
      )
    ),
    Kind(
      "partitioned",
      shape = _.partitionedBy("v"),
      properties = Map("delta.columnMapping.mode" -> "")
    ),
    Kind(
      "widened",
      columns = () =>
        plain ++ Seq(
          StructField("mine", ShortType),
          StructField("short", StringType, nullable = true, varchar),
          StructField("moment", TimestampNTZType)
        ),
      properties = supported.map(name => s"delta.feature.$name" -> "supported").toMap,
      after = Seq("ALTER TABLE {} ALTER COLUMN mine TYPE INT")
    )
  )

  test("a cut is written directly into each kind of table on the list") {
    val known = direct.map { kind =>
      make(kind)
      write(kind, None)
      val found = snapshot(kind)
      val actions = checkpointed(kind)(found => assert(DeltaCheckpoint.write(found, None)))
      assert(actions == checkpointed(kind)(found => found.deltaLog.checkpoint(found, None)))
      // The keys of JSON objects.
      val ofColumns = found.metadata.schema.flatMap(field =>
        new ObjectMapper().readTree(field.metadata.json).fieldNames.asScala.toSeq
      )
      (
        found.protocol.readerAndWriterFeatureNames,
        found.metadata.configuration.keySet.filterNot(_.startsWith("delta.feature.")),
        ofColumns,
        actions.map(_.fieldNames.next)
      )
    }
    assert(DeltaDirect.Features -- known.flatMap(_._1) == Set.empty)
    assert(DeltaDirect.Properties -- known.flatMap(_._2) == Set.empty)
    val ofColumns = known.flatMap(_._3)
    assert(DeltaDirect.ColumnProperties.filterNot(name =>
      ofColumns.exists(_.startsWith(name))
    ) == Nil)
    val ofCheckpoints = Set("add", "remove", "txn", "domainMetadata", "metaData", "protocol")
    assert(known.flatMap(_._4).toSet == ofCheckpoints)
  }

  test("a cut is written directly into a table with a VOID column, which files do not have") {
    val kind = Kind("void", after = Seq("ALTER TABLE {} ADD COLUMN mine VOID"))
    make(kind)
    write(kind, None)
  }

  test("a checkpoint has the files that were removed before the last one, and that were restored") {
    val kind = direct.head.copy(name = "restored")
    val name = target.sqlName(kind.name)
    def compare(): Unit = {
      val rows = spark.table(name).collect().toSet
      val actions = checkpointed(kind)(found => assert(DeltaCheckpoint.write(found, None)))
      assert(actions == checkpointed(kind)(found => found.deltaLog.checkpoint(found, None)))
      assert(DeltaCheckpoint.write(snapshot(kind), None))
      DeltaLog.clearCache()
      assert(spark.table(name).collect().toSet == rows)
    }
    make(kind)
    write(kind, None)
    compare()
    val version = snapshot(kind).version
    spark.sql(s"DELETE FROM $name WHERE id = 4")
    spark.sql(s"OPTIMIZE $name")
    spark.sql(s"RESTORE TABLE $name TO VERSION AS OF $version")
    assert(spark.table(name).count() == 4)
    compare()
    spark.sql(s"DELETE FROM $name WHERE id = 5")
    compare()
  }

  test("a checkpoint says which files OPTIMIZE has clustered") {
    val interval = Map("delta.checkpointInterval" -> "1")
    for (isOptimized <- Seq(false, true); isKnown <- Seq(false, true)) {
      val name = s"optimized_${isOptimized}_$isKnown"
      val kind = direct.head.copy(name, properties = direct.head.properties ++ interval)
      make(kind)
      write(kind, None)
      if (isOptimized) spark.sql(s"OPTIMIZE ${target.sqlName(name)}"): Unit
      // The next commit finds out which files there are.
      val mark = target.mark(name, WrittenTable.Name)
      val row = InternalRow(9, UTF8String.fromString("v9"), null)
      if (isKnown)
        target.commit(spark, name, WrittenTable.Name, mark, 99)(
          TargetWrite.Direct(_ => DirectChange(Map.empty, Vector(row)))
        )
      val actions = checkpointed(kind)(_ => target.checkpoint(name))
      assert(actions == checkpointed(kind)(found => found.deltaLog.checkpoint(found, None)))
      val clustered = actions.filter(_.path("add").has("clusteringProvider"))
      assert(clustered.nonEmpty == isOptimized, name)
    }
  }

  test("Delta Kernel leaves no checkpoint if it cannot read the whole log") {
    val kind = direct.head.copy(name = "unreadable")
    make(kind)
    write(kind, None)
    val found = snapshot(kind)
    val first = folder(kind).resolve("_delta_log").resolve(s"${"0" * 20}.json")
    val content = Files.readString(first)
    // Kernel reads the newest commits first.
    Seq(content.dropRight(9) -> false, content -> true).foreach { case (text, isWhole) =>
      Files.writeString(first, text)
      Files.deleteIfExists(first.resolveSibling(s".${first.getFileName}.crc"))
      assert(DeltaCheckpoint.write(found, None) == isWhole)
      val files = first.getParent.toFile.list
      assert(files.exists(_.contains("checkpoint")) == isWhole)
      assert(!files.exists(_.endsWith(".unfinished")))
    }
  }

  private def column(name: String) = DeltaTable.columnBuilder(spark, name)
  private def generated =
    column("g").dataType(IntegerType).generatedAlwaysAs("id + 1").build()
  private def numbered = column("n").dataType(LongType).generatedByDefaultAsIdentity().build()

  private def feature(name: String) = s"the table has the feature $name"
  private def properties(name: String, value: String) = Map(name -> value)

  /** Tables that need a MERGE, and the reasons. */
  private val merged: Seq[(Kind, String)] = Seq(
    Kind("feed", properties = properties("delta.enableChangeDataFeed", "true")) ->
      feature("changeDataFeed"),
    Kind("rows", properties = properties("delta.enableRowTracking", "true")) ->
      feature("rowTracking"),
    Kind("checked", after = Seq("ALTER TABLE {} ADD CONSTRAINT positive CHECK (id > 0)")) ->
      feature("checkConstraints"),
    Kind("generated", columns = () => plain :+ generated) -> feature("generatedColumns"),
    Kind("numbered", columns = () => plain :+ numbered) -> feature("identityColumns"),
    Kind(
      "defaults",
      properties = properties("delta.feature.allowColumnDefaults", "supported"),
      after = Seq("ALTER TABLE {} ALTER COLUMN v SET DEFAULT 'x'")
    ) -> feature("allowColumnDefaults"),
    Kind("times", properties = properties("delta.enableInCommitTimestamps", "true")) ->
      feature("inCommitTimestamp"),
    Kind("checkpoints", properties = properties("delta.checkpointPolicy", "v2")) ->
      feature("v2Checkpoint"),
    Kind("vacuum", properties = properties("delta.feature.vacuumProtocolCheck", "supported")) ->
      feature("vacuumProtocolCheck"),
    Kind(
      "variant",
      columns = () => plain :+ StructField("j", VariantType)
    ) -> feature("variantType"),
    Kind("property", properties = properties("delta.randomizeFilePrefixes", "true")) ->
      "the table has the property delta.randomizeFilePrefixes",
    Kind("appended", properties = properties("delta.appendOnly", "true")) ->
      "the table has the property delta.appendOnly",
    Kind("whole", properties = properties("delta.enableDeletionVectors", "false")) ->
      "the table has no deletion vectors",
    Kind("ids", properties = properties("delta.columnMapping.mode", "id")) ->
      "the table maps its columns by id",
    Kind(
      "doubles",
      columns = () => plain :+ StructField("d", DoubleType),
      shape = _.partitionedBy("d")
    ) -> "the table has partitions by the column d of the type DOUBLE",
    Kind("required", columns = () => Seq(id, v.copy(nullable = false), big)) ->
      "the column v is NOT NULL"
  )

  private def look(kind: Kind, reason: String): Unit = {
    make(kind)
    assert(target.look(kind.name).notDirect.contains(reason))
  }

  merged.foreach { case (kind, reason) =>
    val writes = kind.name == "required"
    test(s"a table is left to MERGE: $reason", TakesLong.when(writes): _*) {
      look(kind, reason)
      if (takesAll && kind.name != "appended" || writes) write(kind, Some(reason))
    }
  }

  if (takesAll) test("a MERGE writes a table with most of what is left to it") {
    val all =
      merged.map(_._1).filterNot(kind => Set("whole", "ids", "doubles", "appended")(kind.name))
    val own = all.flatMap(_.columns()).distinct.groupBy(_.name).values
      // A column is special in one of the kinds.
      .map(found => found.find(!plain.contains(_)).getOrElse(found.head)).toSeq
    val one = Kind(
      "all",
      columns = () =>
        plain.map(column => own.find(_.name == column.name).get) ++
          own.filterNot(column => plain.exists(_.name == column.name)),
      properties = all.flatMap(_.properties).toMap,
      after = all.flatMap(_.after)
    )
    look(one, feature("allowColumnDefaults"))
    write(one, Some(feature("allowColumnDefaults")))
  }

  test("a table with very many files is left to MERGE") {
    val kind = Kind("many")
    make(kind)
    val version = snapshot(kind).version
    edit(kind, f"$version%020d.crc")(
      _.replaceFirst("\"numFiles\":0", "\"numFiles\":20001")
    )
    assert(target.look(kind.name).notDirect.contains("the table has more than 20000 files"))
  }
}
