package io.sparkpgoutput.types

/**
 * The types that PostgreSQL has from the start, whose oids never change: name, oid, oid of the
 * array type (0: it has none).
 *
 * @see
 *   `src/include/catalog/pg_type.dat`
 */
object PgTypes {
  final case class Known(pgType: PgType, oid: Long, arrayOid: Long)

  private val base: Seq[Known] = Seq(
    Known(PgBoolean, 16, 1000),
    Known(PgBytea, 17, 1001),
    Known(PgSystemTypes.Char, 18, 1002),
    Known(new PgText("name"), 19, 1003),
    Known(PgInteger.Int8, 20, 1016),
    Known(PgInteger.Int2, 21, 1005),
    Known(PgSystemTypes.Int2Vector, 22, 1006),
    Known(PgInteger.Int4, 23, 1007),
    Known(new PgReg("regproc"), 24, 1008),
    Known(new PgText("text"), 25, 1009),
    Known(PgInteger.Oid, 26, 1028),
    Known(PgSystemTypes.Tid, 27, 1010),
    Known(PgInteger.Xid, 28, 1011),
    Known(PgInteger.Cid, 29, 1012),
    Known(PgSystemTypes.OidVector, 30, 1013),
    Known(PgJson.Json, 114, 199),
    Known(PgXml, 142, 143),
    Known(PgGeometry.Point, 600, 1017),
    Known(PgGeometry.Lseg, 601, 1018),
    Known(PgGeometry.Path, 602, 1019),
    Known(PgGeometry.Box, 603, 1020),
    Known(PgGeometry.Polygon, 604, 1027),
    Known(PgGeometry.Line, 628, 629),
    Known(PgInet.Cidr, 650, 651),
    Known(PgFloat.Float4, 700, 1021),
    Known(PgFloat.Float8, 701, 1022),
    Known(new PgText("unknown"), 705, 0),
    Known(PgGeometry.Circle, 718, 719),
    Known(new PgMacAddress("macaddr8", 8), 774, 775),
    Known(PgMoney, 790, 791),
    Known(new PgMacAddress("macaddr", 6), 829, 1040),
    Known(PgInet.Inet, 869, 1041),
    Known(PgAclItem, 1033, 1034),
    Known(new PgText("bpchar"), 1042, 1014),
    Known(new PgText("varchar"), 1043, 1015),
    Known(PgDate, 1082, 1182),
    Known(PgTime.Time, 1083, 1183),
    Known(PgTimestamp.Timestamp, 1114, 1115),
    Known(PgTimestamp.Timestamptz, 1184, 1185),
    Known(PgInterval, 1186, 1187),
    Known(PgTime.Timetz, 1266, 1270),
    Known(PgBits.Bit, 1560, 1561),
    Known(PgBits.Varbit, 1562, 1563),
    Known(PgNumeric, 1700, 1231),
    Known(new PgText("refcursor"), 1790, 2201),
    Known(new PgReg("regprocedure"), 2202, 2207),
    Known(new PgReg("regoper"), 2203, 2208),
    Known(new PgReg("regoperator"), 2204, 2209),
    Known(new PgReg("regclass"), 2205, 2210),
    Known(new PgReg("regtype"), 2206, 2211),
    Known(PgSystemTypes.Uuid, 2950, 2951),
    Known(PgSystemTypes.TxidSnapshot, 2970, 2949),
    Known(PgSystemTypes.PgLsn, 3220, 3221),
    Known(PgTsVector, 3614, 3643),
    Known(PgTsQuery, 3615, 3645),
    Known(new PgReg("regconfig"), 3734, 3735),
    Known(new PgReg("regdictionary"), 3769, 3770),
    Known(PgJson.Jsonb, 3802, 3807),
    Known(PgJsonPath, 4072, 4073),
    Known(new PgReg("regnamespace"), 4089, 4090),
    Known(new PgReg("regrole"), 4096, 4097),
    Known(new PgReg("regcollation"), 4191, 4192),
    Known(PgSystemTypes.PgSnapshot, 5038, 5039),
    Known(PgXid8, 5069, 271)
  )

  /** Ranges: name and subtype, oid, oid of the array type; the same of their multiranges. */
  private val ranges: Seq[Known] = Seq(
    range("int4range", PgInteger.Int4, 3904, 3905, "int4multirange", 4451, 6150),
    range("numrange", PgNumeric, 3906, 3907, "nummultirange", 4532, 6151),
    range("tsrange", PgTimestamp.Timestamp, 3908, 3909, "tsmultirange", 4533, 6152),
    range("tstzrange", PgTimestamp.Timestamptz, 3910, 3911, "tstzmultirange", 4534, 6153),
    range("daterange", PgDate, 3912, 3913, "datemultirange", 4535, 6155),
    range("int8range", PgInteger.Int8, 3926, 3927, "int8multirange", 4536, 6157)
  ).flatten

  private def range(
      name: String,
      subtype: PgType,
      oid: Long,
      arrayOid: Long,
      multirange: String,
      multirangeOid: Long,
      multirangeArrayOid: Long
  ): Seq[Known] = {
    val pgType = new PgRange(name, subtype)
    Seq(
      Known(pgType, oid, arrayOid),
      Known(new PgMultirange(multirange, pgType), multirangeOid, multirangeArrayOid)
    )
  }

  val all: Seq[Known] = base ++ ranges

  /** By oid, arrays included. */
  val byOid: Map[Long, PgType] = all.flatMap { case Known(pgType, oid, arrayOid) =>
    (oid -> pgType) +: Option.when(arrayOid != 0)(arrayOid -> new PgArray(pgType, oid)).toSeq
  }.toMap

  /** By the names in `pg_type`, where those of arrays begin with an underscore. */
  private val byName: Map[String, PgType] = {
    val types = all.map(_.pgType) :+ PgHstore :+ PgComposite :+ new PgText("enum")
    val arrays =
      all.filter(_.arrayOid != 0).map(known => s"_${known.pgType.name}" -> byOid(known.arrayOid))
    (types.map(pgType => pgType.name -> pgType) ++ arrays).toMap
  }

  /** What the option for a type whose oid PostgreSQL does not fix can be, for an error message. */
  val declarations: String =
    "the name of a base type (as in pg_type.typname), hstore, enum, composite, range:<name of the " +
      "subtype>, multirange:<name of the subtype>, or array:<any of these>"

  /** The type that the option declares. */
  def declared(declaration: String): Option[PgType] = declaration.split(":", 2) match {
    case Array("array", element) =>
      declared(element).filterNot(_.isInstanceOf[PgArray]).map(new PgArray(_, 0))
    case Array("range", subtype) => declared(subtype).map(new PgRange("range", _))
    case Array("multirange", subtype) =>
      declared(subtype).map(found => new PgMultirange("multirange", new PgRange("range", found)))
    case Array(name) => byName.get(name)
    case _           => None
  }
}
