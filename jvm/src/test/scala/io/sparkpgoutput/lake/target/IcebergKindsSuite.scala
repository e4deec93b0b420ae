package io.sparkpgoutput.lake.target

import java.nio.file.Files

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.types._

import org.apache.iceberg.data.{GenericFileWriterFactory, GenericRecord}
import org.apache.iceberg.encryption.{EncryptedFiles, EncryptionManager}
import org.apache.iceberg.expressions.{Expressions, Literal}
import org.apache.iceberg.io.{FileIO, LocationProvider}
import org.apache.iceberg.spark.{Spark3Util, SparkSchemaUtil}
import org.apache.iceberg.types.Types
import org.apache.iceberg.{
  BaseTable,
  FileFormat,
  HasTableOperations,
  PartitionSpec,
  PartitionSpecParser,
  Schema,
  StructLike,
  Table,
  TableMetadata,
  TableMetadataParser,
  TableOperations
}

import io.sparkpgoutput.TableTests
import io.sparkpgoutput.lake.apply.{IcebergTables, WrittenTable}
import io.sparkpgoutput.lake.direct.{DirectChange, NotDirect}

/**
 * Tables of Iceberg with each property and type that [[IcebergDirect]] knows, and with others that need a MERGE. By
 * default, some of the latter get a MERGE. If `-Dspark-pgoutput.histories=` is set, each of them does.
 */
class IcebergKindsSuite extends TableTests {
  private val takesAll = System.getProperty("spark-pgoutput.histories") != null
  private lazy val target = IcebergTables.in(spark, "kinds")

  private val columns =
    new StructType().add("id", IntegerType).add("v", StringType).add("big", StringType)

  /**
   * A kind of tables.
   *
   * @param columns in addition to those of the server
   * @param change what makes the table special
   */
  private case class Kind(
      name: String,
      version: Int = 2,
      columns: StructType = new StructType,
      properties: Map[String, String] = Map.empty,
      change: Table => Unit = _ => ()
  )

  private def load(kind: Kind): Table = {
    val found = Spark3Util.loadIcebergTable(spark, s"${IcebergTables.Catalog}.kinds.${kind.name}")
    found.refresh()
    found
  }

  private def operations(table: Table): TableOperations =
    table.asInstanceOf[HasTableOperations].operations

  private def withMetadata(change: TableMetadata => TableMetadata)(table: Table): Unit = {
    val found = operations(table)
    val before = found.refresh()
    found.commit(before, change(before))
  }

  /** Makes a table with the mark 1. */
  private def make(kind: Kind): Unit = {
    target.create(
      kind.name,
      StructType(columns ++ kind.columns),
      Seq("id"),
      Map("format-version" -> kind.version.toString)
    )
    target.commit(spark, kind.name, WrittenTable.Name, None, 1)(
      TargetWrite.Direct(_ => DirectChange(Map.empty, Vector.empty))
    )
  }

  private def change(kind: Kind): Unit = {
    val table = load(kind)
    if (kind.properties.nonEmpty) {
      val update = table.updateProperties()
      kind.properties.foreach { case (name, value) => update.set(name, value) }
      update.commit()
    }
    kind.change(table)
  }

  private def partitioned(table: Table): Unit = {
    val spec = PartitionSpec.builderFor(table.schema).identity("v").bucket("id", 3)
      .truncate("big", 1).day("t").month("u").alwaysNull("v", "none").build()
    withMetadata(_.updatePartitionSpec(spec))(table)
  }
  private val times = new StructType().add("t", TimestampType).add("u", DateType)

  private val direct = Seq(
    Kind(
      "properties",
      properties = Map(
        "write.avro.compression-codec" -> "zstd",
        "write.data.path" -> Files.createTempDirectory("elsewhere").toString,
        "write.delete.mode" -> "copy-on-write",
        "write.distribution-mode" -> "hash",
        "write.folder-storage.path" -> "nowhere",
        "write.manifest.compression-codec" -> "gzip",
        "write.merge.isolation-level" -> "serializable",
        "write.metadata.metrics.default" -> "full",
        "write.orc.compression-codec" -> "zlib",
        "write.parquet.compression-codec" -> "snappy",
        "write.spark.advisory-partition-size-bytes" -> "1000",
        "write.spark.fanout.enabled" -> "true",
        "write.summary.partition-limit" -> "9",
        "write.target-file-size-bytes" -> "1000",
        "write.update.mode" -> "copy-on-write",
        "write.format.default" -> "Parquet",
        "write.delete.format.default" -> "parquet",
        "write.wap.enabled" -> "False"
      )
    ),
    Kind("objects", properties = Map("write.object-storage.enabled" -> "true")),
    Kind(
      "located",
      properties = Map("write.location-provider.impl" -> classOf[OwnLocations].getName)
    ),
    Kind("partitions2", columns = times, change = partitioned),
    Kind("partitions3", version = 3, columns = times, change = partitioned),
    Kind("sorted", change = _.replaceSortOrder().asc("v").commit()),
    Kind(
      "branches",
      change = table => {
        val now = table.currentSnapshot.snapshotId
        table.manageSnapshots().createBranch("b", now).createTag("t", now).commit()
      }
    ),
    Kind("upgraded", change = withMetadata(_.upgradeToFormatVersion(3))),
    Kind(
      "types",
      version = 3,
      columns = new StructType()
        .add("b", BooleanType)
        .add("l", LongType)
        .add("f", FloatType)
        .add("d", DoubleType)
        .add("n", DecimalType(38, 2))
        .add("y", BinaryType)
        .add("t", DateType)
        .add("s", TimestampType)
        .add("u", TimestampNTZType)
        .add("j", VariantType)
        .add("o", new StructType().add("a", ArrayType(MapType(StringType, LongType))))
    )
  )

  direct.foreach { kind =>
    test(s"a cut is written directly: ${kind.name}") {
      make(kind)
      change(kind)
      assert(KindsOfTables.write(spark, target, kind.name)() == ((None, None)))
      load(kind).refs.asScala.filter(_._1 != "main").values.foreach { ref =>
        assert(load(kind).snapshot(ref.snapshotId).summary.get("total-records") == "0")
      }
    }
  }

  test("each known property and type has a test") {
    val properties = direct.flatMap(_.properties.keys)
    assert(IcebergDirect.Known.filterNot(name => properties.exists(_.startsWith(name))) == Nil)
    val found = direct.flatMap(kind => columns ++ kind.columns)
      .map(field => SparkSchemaUtil.convert(new StructType().add(field)).columns.get(0))
    assert(IcebergDirect.KnownTypes -- found.map(_.`type`.typeId) == Set.empty)
  }

  /** Replaces a row as other engines do: an equality delete, and the row again, in one commit. */
  private def replaced(table: Table): Unit = {
    val key = table.schema.select("id")
    val files = new GenericFileWriterFactory.Builder(table).deleteFileFormat(FileFormat.PARQUET)
      .equalityFieldIds(Array(key.findField("id").fieldId)).equalityDeleteRowSchema(key).build()
    def file(name: String) = EncryptedFiles.plainAsEncryptedOutput(
      table.io.newOutputFile(table.locationProvider.newDataLocation(s"$name.parquet"))
    )
    def record(schema: Schema) = {
      val made = GenericRecord.create(schema)
      Seq("id" -> 4, "v" -> "v4", "big" -> "b").foreach { case (name, value) =>
        if (schema.findField(name) != null) made.setField(name, value)
      }
      made
    }
    val deletes = files.newEqualityDeleteWriter(file("deletes"), table.spec, null)
    try deletes.write(record(key))
    finally deletes.close()
    val rows = files.newDataWriter(file("rows"), table.spec, null)
    try rows.write(record(table.schema))
    finally rows.close()
    table.newRowDelta().addDeletes(deletes.toDeleteFile).addRows(rows.toDataFile).commit()
  }

  /** Tables that need a MERGE, what their reasons have, and whether a MERGE can write them here. */
  private val merged: Seq[(Kind, String, Boolean)] = Seq(
    (Kind("equality", change = replaced), "has equality deletes", true),
    (
      Kind(
        "defaults",
        version = 3,
        change = _.updateSchema().addColumn("d", Types.IntegerType.get, Literal.of(7)).commit()
      ),
      "the column d has a default",
      true
    ),
    (Kind("orc", properties = Map("write.format.default" -> "orc")), "write.format.default", true),
    (
      Kind("deletes", properties = Map("write.delete.format.default" -> "avro")),
      "the table has the property write.delete.format.default=avro",
      true
    ),
    (
      Kind("copied", properties = Map("write.merge.mode" -> "copy-on-write")),
      "the table does not have the property write.merge.mode=merge-on-read",
      true
    ),
    (
      Kind("audited", properties = Map("write.wap.enabled" -> "true")),
      "the table has the property write.wap.enabled=true",
      true
    ),
    (
      Kind("other", properties = Map("write.upsert.enabled" -> "true")),
      "the table has the property write.upsert.enabled=true",
      true
    ),
    (
      Kind("uuid", change = _.updateSchema().addColumn("u", Types.UUIDType.get).commit()),
      "the column u has the type uuid",
      true
    ),
    (
      Kind(
        "required",
        change = _.updateSchema().allowIncompatibleChanges().requireColumn("v").commit()
      ),
      "the column v is NOT NULL",
      true
    ),
    (
      Kind("encryption", properties = Map("encryption.key-id" -> "k")),
      "the table has the property encryption.key-id=k",
      false
    ),
    (
      Kind(
        "unknown",
        change = table => {
          val fields =
            """[{"name": "z", "transform": "zigzag[3]", "source-id": 1, "field-id": 1000}]"""
          val spec =
            PartitionSpecParser.fromJson(table.schema, s"""{"spec-id": 1, "fields": $fields}""")
          withMetadata(_.updatePartitionSpec(spec))(table)
        }
      ),
      "the table has partitions by zigzag[3]",
      false
    ),
    (
      Kind(
        "struct",
        columns = new StructType().add("during", new StructType().add("at", TimestampType)),
        change = _.updateSpec.addField(Expressions.day("during.at")).commit()
      ),
      "the table has partitions by during.at",
      true
    ),
    (
      Kind(
        "many",
        change = withMetadata { metadata =>
          val json = TableMetadataParser.toJson(metadata)
          TableMetadataParser.fromJson(
            json.replaceAll("(\"total-data-files\" ?: ?)\"0\"", "$1\"20001\"")
          )
        }
      ),
      "the table has more than 20000 files",
      false
    )
  )

  merged.foreach { case (kind, reason, canMerge) =>
    test(s"a table is left to MERGE: $reason") {
      make(kind)
      val isEquality = kind.name == "equality" // Only a lookup finds this.
      if (canMerge && (takesAll || isEquality || kind.name == "defaults")) {
        val (first, second) = KindsOfTables.write(spark, target, kind.name)(change(kind))
        assert(first.isEmpty && second.exists(_.contains(reason)))
      } else change(kind)
      if (!isEquality) assert(target.look(kind.name).notDirect.exists(_.contains(reason)))
    }
  }

  test("a column cannot have the name of a metadata column, in any case") {
    val names = Seq("_deleted", "_pos", "_FILE", "_Spec_Id", "_partition", "_row_id")
    assert(names.filter(target.columnProblem(_).isEmpty) == Nil)
    assert(Seq("pos", "deleted", "_metadata").flatMap(target.columnProblem(_)) == Nil)
  }

  test(
    "a file with partitions by a dropped column is left to MERGE: readers do not find its deletes"
  ) {
    val kind = Kind("dropped")
    make(kind)
    load(kind).updateSchema().addColumn("region", Types.StringType.get).commit()
    load(kind).updateSpec().addField("region").commit()
    spark.sql(s"INSERT INTO ${target.sqlName(kind.name)} VALUES (1, 'v', 'b', 'north')")
    load(kind).updateSpec().removeField("region").commit()
    def files = {
      val table = load(kind)
      IcebergFiles.of(table.asInstanceOf[BaseTable], operations(table).current)
    }
    assert(files.files.size == 1)
    load(kind).updateSchema().deleteColumn("region").commit()
    assert(intercept[NotDirect](files).getMessage.contains("a column that was dropped"))
  }

  test("a table of version 1 of the format, or with encryption, is left to MERGE") {
    val kind = Kind("plain")
    make(kind)
    def reason(of: TableOperations => TableOperations) =
      IcebergDirect.problem(of(operations(load(kind)))).getOrElse("")
    assert(reason(identity) == "")
    val encrypting = new EncryptionManager {
      override def encrypt(file: org.apache.iceberg.io.OutputFile) =
        EncryptedFiles.plainAsEncryptedOutput(file)
      override def decrypt(file: org.apache.iceberg.encryption.EncryptedInputFile) =
        file.encryptedInputFile
    }
    assert(reason(new OtherOperations(_, encryptedBy = encrypting)) == "the table is encrypted")
    target.create("first", columns, Seq("id"), Map("format-version" -> "1"))
    assert(
      target.look("first").notDirect.contains("the table has the version 1 of the format")
    )
  }
}

/** Operations of a table that has something special. */
final private class OtherOperations(table: TableOperations, encryptedBy: EncryptionManager)
    extends TableOperations {
  override def current: TableMetadata = table.current
  override def refresh(): TableMetadata = table.refresh()
  override def commit(base: TableMetadata, metadata: TableMetadata): Unit =
    table.commit(base, metadata)
  override def io: FileIO = table.io
  override def encryption: EncryptionManager = encryptedBy
  override def metadataFileLocation(name: String): String = table.metadataFileLocation(name)
  override def locationProvider: LocationProvider = table.locationProvider
}

/** Puts the data files where a user wants them. */
final class OwnLocations extends LocationProvider {
  override def newDataLocation(name: String): String = s"${OwnLocations.Folder}/$name"
  override def newDataLocation(spec: PartitionSpec, values: StructLike, name: String): String =
    newDataLocation(s"${spec.partitionToPath(values)}/$name")
}

object OwnLocations { private val Folder = Files.createTempDirectory("locations") }
