package io.sparkpgoutput.source.table

import org.apache.spark.sql.types.{ArrayType, DataType, StructType}

import io.sparkpgoutput.source.connection.ServerConnection
import io.sparkpgoutput.types.PgType
import io.sparkpgoutput.types.registry.{BuiltInTypes, TypeRegistry}

/**
 * The types of a server that columns have, and the types that those consist of.
 *
 * @param declared the types that the user has declared; the catalog does not change them
 */
final class CatalogTypes(types: Map[Long, CatalogTypes.CatalogType], declared: TypeRegistry) {
  import CatalogTypes._

  /** All types whose oids PostgreSQL does not fix, as far as their binary format is known. */
  lazy val registry: TypeRegistry = {
    val found = for {
      oid <- types.keys if !BuiltInTypes.byOid.contains(oid)
      declaration <- declaration(oid)
      if declared.declared(declaration).isDefined
    } yield oid -> declaration
    TypeRegistry(found.toMap ++ declared.declarations)
  }

  def byOid(oid: Long): PgType = registry.byOid(oid)

  /** The modifier of a column. A column of a domain has none, because the domain has it. */
  def modifier(oid: Long, ofColumn: Int): Int = types.get(oid) match {
    case Some(Domain(_, base, modifier)) if ofColumn < 0 => this.modifier(base, modifier)
    case Some(Array(_, element, _))                      => this.modifier(element, ofColumn)
    case _                                               => ofColumn
  }

  /**
   * Whether a Spark type has an array whose text cannot be split, because the delimiter of its elements is neither
   * that of a known type nor a comma. The `geometry` of PostGIS has a colon.
   */
  def hasOpaqueArray(oid: Long, wanted: DataType): Boolean =
    hasOpaqueArray(oid, wanted, inComposite = false)

  /** The text of a composite does not name the types of its fields, so no type in it is known. */
  private def hasOpaqueArray(oid: Long, wanted: DataType, inComposite: Boolean): Boolean =
    (types.get(oid), wanted) match {
      case (Some(Domain(_, base, _)), _) => hasOpaqueArray(base, wanted, inComposite)
      case (Some(Array(_, element, delimiter)), array: ArrayType) =>
        delimiter != ',' && (inComposite || !byOid(oid).isKnown) ||
        hasOpaqueArray(element, innermost(array), inComposite)
      case (Some(Composite(_, fields)), struct: StructType) =>
        fields.zip(struct).exists { case (field, member) =>
          hasOpaqueArray(field, member.dataType, inComposite = true)
        }
      case (Some(Range(_, _, subtype)), struct: StructType) =>
        struct.exists(bound => hasOpaqueArray(subtype, bound.dataType, inComposite))
      case _ => false
    }

  /** The type of the elements of an array of any dimensions. */
  private def innermost(array: ArrayType): DataType = array.elementType match {
    case inner: ArrayType => innermost(inner)
    case other            => other
  }

  /** A column's type and its modifier, as people write them, with the base type of a domain. */
  def describe(oid: Long, modifier: Int): String = {
    val declared = describe(oid, modifier, ofBase = false)
    val base = describe(oid, modifier, ofBase = true)
    if (declared == base) base else s"$declared ($base)"
  }

  private def describe(oid: Long, modifier: Int, ofBase: Boolean): String = types.get(oid) match {
    case _ if BuiltInTypes.byOid.contains(oid) => byOid(oid).describe(modifier)
    case Some(Domain(_, base, _)) if ofBase    => describe(base, modifier, ofBase)
    case Some(Array(_, element, _))            => s"${describe(element, modifier, ofBase)}[]"
    case Some(other)                           => other.name
    case None                                  => byOid(oid).describe(modifier)
  }

  /** What the option `type.<oid>` would say. */
  private def declaration(oid: Long): Option[String] =
    declared.declarations.get(oid).orElse(types.get(oid).flatMap {
      case found if BuiltInTypes.byOid.contains(oid) => Some(found.name)
      case Domain(_, base, _)                        => declaration(base)
      case Array(_, element, delimiter) =>
        declaration(element)
          .filter(declared.declared(_).exists(_.delimiter == delimiter))
          .map("array:" + _)
      case Range(_, kind, subtype) => declaration(subtype).map(s"$kind:" + _)
      case _: Composite            => Some("composite")
      case Simple(_, declaration)  => declaration
    })
}

object CatalogTypes {

  /** A type of the catalog. */
  sealed trait CatalogType { def name: String }

  /**
   * A type that does not consist of types that matter here.
   *
   * @param declaration what the option `type.<oid>` says of it; None if its binary format is not known
   */
  final case class Simple(name: String, declaration: Option[String]) extends CatalogType

  /** @param delimiter the character between the elements of its text (`pg_type.typdelim`) */
  final case class Array(name: String, element: Long, delimiter: Char = ',') extends CatalogType
  final case class Domain(name: String, base: Long, modifier: Int) extends CatalogType

  /** @param fields the types of the fields */
  final case class Composite(name: String, fields: Seq[Long]) extends CatalogType

  /** @param kind range or multirange */
  final case class Range(name: String, kind: String, subtype: Long) extends CatalogType

  /** The functions that send the text of a value as its binary value, as that of citext does. */
  private val TextSend = Set("textsend", "varcharsend", "bpcharsend")

  /** A base type. Its name and the function that sends its values say what its binary format is. */
  private[table] def base(name: String, send: String): Simple =
    Simple(name, if (name == "hstore") Some(name) else Option.when(TextSend(send))("text"))

  private val Query =
    """WITH RECURSIVE used (oid) AS (
      |  SELECT unnest(?::oid[])
      |  UNION
      |  SELECT part.oid
      |  FROM used JOIN pg_type t ON t.oid = used.oid CROSS JOIN LATERAL (
      |    SELECT t.typbasetype WHERE t.typtype = 'd'
      |    UNION ALL SELECT t.typelem WHERE t.typelem <> 0
      |    UNION ALL
      |    SELECT atttypid FROM pg_attribute
      |    WHERE t.typtype = 'c' AND attrelid = t.typrelid AND attnum > 0 AND NOT attisdropped
      |    UNION ALL SELECT rngsubtype FROM pg_range WHERE t.oid IN (rngtypid, rngmultitypid)
      |  ) AS part (oid)
      |)
      |SELECT t.oid::bigint AS oid, t.typname, t.typtype, t.typbasetype::bigint AS base,
      |  t.typtypmod, t.typelem::bigint AS element, t.typdelim::text AS delimiter,
      |  t.typsubscript = 'pg_catalog.array_subscript_handler'::regproc AS is_array,
      |  (SELECT rngsubtype::bigint FROM pg_range
      |   WHERE t.oid IN (rngtypid, rngmultitypid)) AS subtype,
      |  (SELECT string_agg(atttypid::oid::text, ',' ORDER BY attnum) FROM pg_attribute
      |   WHERE t.typtype = 'c' AND attrelid = t.typrelid AND attnum > 0
      |     AND NOT attisdropped) AS fields,
      |  (SELECT prosrc FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
      |   WHERE p.oid = t.typsend AND l.lanname = 'internal') AS send
      |FROM used JOIN pg_type t ON t.oid = used.oid""".stripMargin

  /** Asks for types by their oids. */
  def read(connection: ServerConnection, oids: Seq[Long], declared: TypeRegistry): CatalogTypes =
    new CatalogTypes(
      connection
        .query(Query, oids.mkString("{", ",", "}")) { row =>
          val name = row.getString("typname")
          val found = row.getString("typtype") match {
            case "c" =>
              val fields = Option(row.getString("fields")) // a composite can have no field
              Composite(name, fields.fold(Seq.empty[Long])(_.split(',').toSeq.map(_.toLong)))
            case "d" => Domain(name, row.getLong("base"), row.getInt("typtypmod"))
            case "e" => Simple(name, Some("enum"))
            case "r" => Range(name, "range", row.getLong("subtype"))
            case "m" => Range(name, "multirange", row.getLong("subtype"))
            case _ if row.getBoolean("is_array") =>
              Array(name, row.getLong("element"), row.getString("delimiter").head)
            case _ => base(name, row.getString("send"))
          }
          row.getLong("oid") -> found
        }
        .toMap,
      declared
    )
}
