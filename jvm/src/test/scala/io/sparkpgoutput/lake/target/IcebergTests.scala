package io.sparkpgoutput.lake.target

import java.nio.file.{Files, Path}

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.{CatalystTypeConverters, InternalRow}
import org.apache.spark.sql.types._

import org.apache.iceberg.Table
import org.apache.iceberg.spark.Spark3Util

import io.sparkpgoutput.TableTests
import io.sparkpgoutput.lake.apply.IcebergTables
import io.sparkpgoutput.lake.core.MarkName
import io.sparkpgoutput.lake.direct._

/** Direct commits to tables of Iceberg. */
abstract class IcebergTests extends TableTests {
  protected lazy val target = IcebergTables.in(spark, "direct")
  protected val name = MarkName("job", 1, 0)
  protected val columns = new StructType().add("id", IntegerType).add("v", StringType)

  /** A table, and the commits to it. */
  final protected class Written(
      val table: String,
      schema: StructType,
      version: Int,
      properties: Map[String, String] = Map.empty
  ) {
    private var lsn = 0L
    if (target.exists(table)) target.drop(table)
    target.create(table, schema, Nil, properties + ("format-version" -> version.toString))

    def sql: String = target.sqlName(table)
    def rows: Seq[Row] = target.read(spark, table).orderBy("id").collect().toSeq
    def iceberg: Table = {
      val found = Spark3Util.loadIcebergTable(spark, s"${IcebergTables.Catalog}.direct.$table")
      found.refresh()
      found
    }

    /** The folder of the data files and delete files. */
    def folder: Path = Path.of(iceberg.location.replaceFirst("^file:/*", "/"), "data")

    /** The data files and delete files in the folder of the table, and those of all versions. */
    def allFiles: (Set[String], Set[String]) = {
      val paths = Files.walk(folder)
      val there =
        try paths.iterator.asScala.map(_.getFileName.toString)
            .filter(_.matches("[^.].*[.](parquet|puffin)")).toSet
        finally paths.close()
      spark.sql(s"REFRESH TABLE $sql")
      val known = spark.sql(s"SELECT file_path FROM $sql.all_files").collect()
      (there, known.map(_.getString(0).split('/').last).toSet)
    }

    def total(what: String): Int = iceberg.currentSnapshot.summary.get(s"total-$what").toInt

    def commit(change: DirectTable => DirectChange): Unit = {
      lsn += 1
      target.commit(spark, table, name, Option.when(lsn > 1)(lsn - 1), lsn)(
        TargetWrite.Direct(change)
      )
      assert(target.mark(table, name).contains(lsn))
    }

    /** Deletes the rows with these keys, and adds rows. */
    def write(deleted: Seq[Any], added: Seq[Row], also: () => Unit = () => ()): Unit =
      commit(change(deleted, added, also))

    def change(deleted: Seq[Any], added: Seq[Row], also: () => Unit = () => ())(
        found: DirectTable
    ): DirectChange = {
      val at = found.schema.fieldIndex("id")
      val keys = deleted.map(InternalRow(_)).toVector
      val lookup = new KeyLookup(found, Vector(at), None, keys, Vector(0))
      val places = lookup.found.filter(_ != null)
      also()
      val toRow = CatalystTypeConverters.createToCatalystConverter(found.schema)
      DirectChange(
        places.groupMap(_.file.path)(_.position).map { case (path, all) =>
          path -> all.sorted.toArray
        },
        added.map(toRow(_).asInstanceOf[InternalRow]).toVector
      )
    }
  }

  protected def values(ids: Seq[Int], text: String) = ids.map(id => Row(id, text))
}
