package io.sparkpgoutput.types.registry

import org.apache.spark.sql.types.DataType

import io.sparkpgoutput.types.containers.{PgArray, PgComposite, PgHstore, PgMultirange, PgRange}
import io.sparkpgoutput.types.families.PgText
import io.sparkpgoutput.types.{PgType, PgUnknown, TypeLookup}

/**
 * All types that columns can have: PostgreSQL's own, and those that an option or a Type message
 * declares.
 *
 * @param declarations
 *   the types whose oids PostgreSQL does not fix, each by its oid, such as `range:int4`
 * @see [[TypeLookup.Declarations]]
 */
final case class TypeRegistry(declarations: Map[Long, String] = Map.empty) extends TypeLookup {
  @transient private lazy val declaredByOid: Map[Long, PgType] =
    declarations.flatMap { case (oid, declaration) => declared(declaration).map(oid -> _) }

  /** Adds the declaration of a type with an oid. */
  def +(declaration: (Long, String)): TypeRegistry = TypeRegistry(declarations + declaration)

  /**
   * Adds domains by the names of their base types. A type that is declared already stays, and a
   * domain whose base type is not known is left out.
   */
  def withDomains(baseTypes: Iterable[(Long, String)]): TypeRegistry =
    TypeRegistry(baseTypes.filter(domain => declared(domain._2).isDefined).toMap ++ declarations)

  override def byOid(oid: Long): PgType = declaredByOid
    .get(oid)
    .orElse(BuiltInTypes.byOid.get(oid))
    .getOrElse(new PgUnknown(oid, this))

  override def partByOid(oid: Long): PgType =
    declarations.get(oid).flatMap(TypeRegistry(declarations - oid).declared).getOrElse(byOid(oid))

  override def ofUnknown(target: DataType): Option[PgType] = textTypes.find(_.readsUnknown(target))

  @transient private lazy val textTypes: Seq[PgType] = {
    val unknown = byOid(0)
    BuiltInTypes.all.map(_.pgType) ++
      Seq(new PgArray(unknown, 0), new PgRange("range", unknown), new PgComposite(this), PgHstore)
  }

  /** The type that a declaration means; None if it is not valid. */
  def declared(declaration: String): Option[PgType] = declaration.split(":", 2) match {
    case Array("array", element) =>
      declared(element).filterNot(_.isArray).map(new PgArray(_, 0))
    case Array("range", subtype) => declared(subtype).map(new PgRange("range", _))
    case Array("multirange", subtype) =>
      declared(subtype).map(found => new PgMultirange("multirange", new PgRange("range", found)))
    case Array("composite") => Some(new PgComposite(this))
    case Array("hstore")    => Some(PgHstore)
    case Array("enum")      => Some(new PgText("enum"))
    case Array(name)        => BuiltInTypes.byName.get(name)
    case _                  => None
  }
}
