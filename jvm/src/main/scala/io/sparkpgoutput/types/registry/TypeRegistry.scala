package io.sparkpgoutput.types.registry

import org.apache.spark.sql.types._

import io.sparkpgoutput.types.containers.{PgArray, PgComposite, PgHstore, PgMultirange, PgRange}
import io.sparkpgoutput.types.datetime.{PgDate, PgInterval, PgTimestamp}
import io.sparkpgoutput.types.families.{PgBoolean, PgBytea, PgText}
import io.sparkpgoutput.types.numbers.{PgFloat, PgInteger, PgNumeric}
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

  override def ofUnknown(target: DataType): Option[PgType] = Option(target match {
    case BooleanType                                       => PgBoolean
    case ByteType | ShortType                              => PgInteger.Int2
    case IntegerType                                       => PgInteger.Int4
    case LongType                                          => PgInteger.Int8
    case FloatType                                         => PgFloat.Float4
    case DoubleType                                        => PgFloat.Float8
    case _: DecimalType                                    => PgNumeric
    case BinaryType                                        => PgBytea
    case DateType                                          => PgDate
    case TimestampType                                     => PgTimestamp.Timestamptz
    case TimestampNTZType                                  => PgTimestamp.Timestamp
    case _: YearMonthIntervalType | _: DayTimeIntervalType => PgInterval
    case _: ArrayType                                      => new PgArray(byOid(0), 0)
    case struct: StructType if PgRange.isRange(struct)     => new PgRange("range", byOid(0))
    case _: StructType                                     => new PgComposite(this)
    case _: MapType                                        => PgHstore
    case _                                                 => null
  })

  /** The type that a declaration means; None if it is not valid. */
  def declared(declaration: String): Option[PgType] = declaration.split(":", 2) match {
    case Array("array", element) =>
      declared(element).filterNot(_.isInstanceOf[PgArray]).map(new PgArray(_, 0))
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
