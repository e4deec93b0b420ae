package io.sparkpgoutput.lake.verify

import org.apache.spark.sql.functions.{col, lit}
import org.apache.spark.sql.{Column, DataFrame, SparkSession}

import io.sparkpgoutput.lake.core.TableState
import io.sparkpgoutput.lake.target.{TablePlace, Target}

/**
 * A table at a version of the target that has all transactions below an LSN, and no others.
 *
 * @param version what [[Target.version]] gave then
 */
final case class PinnedTable(state: TableState, version: String) {

  /**
   * Returns the rows of the version, in the columns and types that a copy has now. Columns that users
   * have added, or that the server has not any more, are left out.
   */
  def rows(session: SparkSession, target: Target): DataFrame = {
    val found = target.readVersion(session, state.target, version)
    found.select(state.table.schema.map { field =>
      // Iceberg has the columns of the version, which can have other names and narrower types.
      val names = field.name +: state.formerNames.collect { case (former, field.name) =>
        former
      }.toSeq
      val column: Column = names.flatMap(name =>
        found.schema.fieldNames.find(_.equalsIgnoreCase(name))
      ).headOption.fold(lit(null))(name => col(TablePlace.quoted(name)))
      column.cast(field.dataType).as(field.name)
    }: _*)
  }
}
