package io.sparkpgoutput.types.containers

import org.apache.spark.sql.types.{ArrayType, DataType, StringType, VariantType}

import io.sparkpgoutput.types.registry.TypeRegistry
import io.sparkpgoutput.types.{PgType, PrintedValues}

/**
 * Values of composed types that PostgreSQL 18 sent, binary and as text, each with a Spark type to read it
 * as. They are in `types/composed.tsv`, which the queries in the .sql file beside it made.
 */
object ComposedCells {
  final case class Cell(
      declaration: String,
      pgType: PgType,
      target: DataType,
      binary: Array[Byte],
      text: String
  ) {
    def targets: Seq[DataType] =
      if (pgType.isInstanceOf[PgArray]) Seq(target, StringType, VariantType)
      else Seq(target, StringType)

    override def toString: String = s"$declaration $text"
  }

  private val (types, values) = PrintedValues.read("/types/composed.tsv").partition { line =>
    line.typeName == "oid"
  }

  /** The registry with the oids that the server gave to the composite types and the enum. */
  val registry: TypeRegistry =
    TypeRegistry(types.map(line => BigInt(1, line.binary).toLong -> line.text).toMap)

  val all: Seq[Cell] = values.map { line =>
    val Array(declaration, target) = line.typeName.split("=", 2)
    Cell(
      declaration,
      registry.declared(declaration).get,
      DataType.fromDDL(target),
      line.binary,
      StringContext.processEscapes(line.text)
    )
  }

  /** The number of dimensions of an ARRAY. */
  def dimensions(target: DataType): Int = target match {
    case array: ArrayType => 1 + dimensions(array.elementType)
    case _                => 0
  }
}
