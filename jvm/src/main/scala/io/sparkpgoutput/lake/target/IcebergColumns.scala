package io.sparkpgoutput.lake.target

import org.apache.spark.sql.types.StructType

import org.apache.iceberg.spark.SparkSchemaUtil
import org.apache.iceberg.{Schema, UpdateSchema}

/** Gives a table of Iceberg the columns of rows that replace all of its rows. */
private object IcebergColumns {

  /** A column whose type changes becomes a new column of the same name, since no old value stays. */
  def fit(update: UpdateSchema, schema: Schema, rows: StructType): Unit = {
    val before = SparkSchemaUtil.convert(schema)
    val after = SparkSchemaUtil.convert(rows)
    rows.foreach { field =>
      val known = before.find(_.name.equalsIgnoreCase(field.name))
      if (!known.exists(known => known.name == field.name && known.dataType == field.dataType)) {
        known.foreach(known => update.deleteColumn(known.name))
        // A name with a point is that of a column here, and not a path.
        update.allowIncompatibleChanges()
          .addColumn(null, field.name, after.asStruct.field(field.name).`type`)
      }
    }
    update.commit()
  }
}
