package io.sparkpgoutput.lake.table

import org.apache.spark.sql.types.{ArrayType, StringType, StructField, StructType}

import io.sparkpgoutput.changes.rows.ChangeSchema

/** The mode of a table: it says what the table of the target contains. */
sealed abstract class TableMode(val name: String) extends Serializable {

  /** The columns of the target that follow those of the table. */
  def columns: StructType
}

object TableMode {

  /** The rows that the server's table has. */
  case object Mirror extends TableMode("mirror") {
    override def columns: StructType = new StructType
  }

  /**
   * All changes of the table since the first copy, and the rows of each copy.
   *
   * @param prefix the text with which the names of the columns of a change begin
   */
  final case class History(prefix: String) extends TableMode(History.name) {
    override def columns: StructType =
      StructType(History.fields.map(field => field.copy(name = prefix + field.name.drop(1))))
  }

  object History {
    val name = "history"

    /** The value of `_change_type` for a row of a copy. */
    val Snapshot = "snapshot"

    val DefaultPrefix = "_"

    /** The columns of a change, with the names of [[ChangeSchema]], in the order of a history. */
    val fields: StructType = {
      import ChangeSchema._
      StructType(
        Seq(CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP, XID, ORIGIN, ORDINAL, KEYS, MISSING)
          .map(ordinal => nullable(schema(ordinal)))
      )
    }

    // The formats do not tell whether the elements of an array can be NULL.
    private def nullable(field: StructField) = field.dataType match {
      case _: ArrayType => field.copy(dataType = ArrayType(StringType))
      case _            => field
    }
  }

  val names: Seq[String] = Seq(Mirror.name, History.name)

  /** Returns a mode by its name; None if there is no such mode. */
  def of(name: String, prefix: String): Option[TableMode] = name match {
    case Mirror.name  => Some(Mirror)
    case History.name => Some(History(prefix))
    case _            => None
  }
}
