package io.sparkpgoutput.types

import org.apache.spark.sql.types.DataType

/**
 * Finds the types of the parts of a value, for types whose values name these types by their oids.
 */
trait TypeLookup {

  /**
   * Returns the type with an oid. If neither PostgreSQL nor an option says which type it is, this
   * is a [[PgUnknown]].
   */
  def byOid(oid: Long): PgType

  /**
   * Finds the type of a part of a value. The part does not know the same oid any more. No type is a
   * part of itself, and damaged bytes that claim this must not lead to an endless recursion.
   */
  def partByOid(oid: Long): PgType

  /**
   * Returns the type that reads the text of an unknown type as a Spark type; None if there is no
   * such type.
   */
  def ofUnknown(target: DataType): Option[PgType]
}

object TypeLookup {

  /** The values of the option that declares a type, for error messages. */
  val Declarations: String =
    "the name of a base type (as in pg_type.typname), hstore, enum, composite, range:<name of the " +
      "subtype>, multirange:<name of the subtype>, or array:<any of these>"
}
