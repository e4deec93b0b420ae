package io.sparkpgoutput.types

import org.apache.spark.sql.types.DataType

/** Finds types, for the types whose values say of which types their parts are. */
trait TypeLookup {

  /** The type with an oid; a [[PgUnknown]] if neither PostgreSQL nor an option says which it is. */
  def byOid(oid: Long): PgType

  /**
   * Finds the type of a part of a value. In the part, the same oid is not known: no type is a part of
   * itself, and bytes that claim this must not be followed without end.
   */
  def partByOid(oid: Long): PgType

  /** The type as whose text an unknown type's text is read; None if the Spark type has none. */
  def ofUnknown(target: DataType): Option[PgType]
}

object TypeLookup {

  /** The values of the option that declares a type, for error messages. */
  val Declarations: String =
    "the name of a base type (as in pg_type.typname), hstore, enum, composite, range:<name of the " +
      "subtype>, multirange:<name of the subtype>, or array:<any of these>"
}
