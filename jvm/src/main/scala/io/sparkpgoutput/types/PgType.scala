package io.sparkpgoutput.types

import org.apache.spark.sql.types.{DataType, StringType}

/** A type of PostgreSQL, with the types of Spark's that its values can be read as. */
abstract class PgType extends Serializable {

  /** As PostgreSQL's catalog has it (`pg_type.typname`). */
  def name: String

  /** What is between the elements in the text of an array (`pg_type.typdelim`). */
  def delimiter: Char = ','

  /** What it is read as where nothing else is asked for; `modifier` is the column's. */
  def sparkType(modifier: Int): DataType = StringType

  /** Reads values as another type than STRING; None where that is not possible. */
  protected def conversion(target: DataType, options: ConversionOptions): Option[Conversion]

  /** Prints binary values. */
  def printer(options: ConversionOptions): Printer

  /** Reads values as the type that is asked for; None where that is not possible. */
  final def to(target: DataType, options: ConversionOptions): Option[Conversion] = target match {
    case _: StringType => Some(new StringConversion(printer(options)))
    case other         => conversion(other, options)
  }

  override def toString: String = name

  /** One of PostgreSQL's own is the same one where it is sent to. */
  protected def writeReplace(): AnyRef =
    if (PgTypes.declared(name).exists(_ eq this)) new PgType.Named(name) else this
}

private object PgType {
  final private class Named(name: String) extends Serializable {
    private def readResolve(): AnyRef = PgTypes.declared(name).get
  }
}
