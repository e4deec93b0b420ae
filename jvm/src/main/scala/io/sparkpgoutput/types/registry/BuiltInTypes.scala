package io.sparkpgoutput.types.registry

import io.sparkpgoutput.types.PgType
import io.sparkpgoutput.types.containers.{PgArray, PgMultirange, PgRange}
import io.sparkpgoutput.types.datetime.{PgDate, PgInterval, PgTime, PgTimestamp}
import io.sparkpgoutput.types.families._
import io.sparkpgoutput.types.numbers.{PgFloat, PgInteger, PgMoney, PgNumeric, PgXid8}

/**
 * The types that PostgreSQL itself has. Their oids never change. Each has its oid and the oid of
 * its array type, which is 0 if there is none.
 *
 * @see `src/include/catalog/pg_type.dat`
 */
object BuiltInTypes {

  /** A type, its oid, and the oid of its array type. */
  final case class BuiltInType(pgType: PgType, oid: Long, arrayOid: Long)

  private val int4Range = new PgRange("int4range", PgInteger.Int4)
  private val numRange = new PgRange("numrange", PgNumeric)
  private val tsRange = new PgRange("tsrange", PgTimestamp.Timestamp)
  private val tstzRange = new PgRange("tstzrange", PgTimestamp.Timestamptz)
  private val dateRange = new PgRange("daterange", PgDate)
  private val int8Range = new PgRange("int8range", PgInteger.Int8)

  val all: Seq[BuiltInType] = Seq(
    BuiltInType(PgBoolean, 16, 1000),
    BuiltInType(PgBytea, 17, 1001),
    BuiltInType(PgChar, 18, 1002),
    BuiltInType(new PgText("name"), 19, 1003),
    BuiltInType(PgInteger.Int8, 20, 1016),
    BuiltInType(PgInteger.Int2, 21, 1005),
    BuiltInType(new PgVector("int2vector", PgInteger.Int2), 22, 1006),
    BuiltInType(PgInteger.Int4, 23, 1007),
    BuiltInType(new PgReg("regproc"), 24, 1008),
    BuiltInType(new PgText("text"), 25, 1009),
    BuiltInType(PgInteger.Oid, 26, 1028),
    BuiltInType(PgTid, 27, 1010),
    BuiltInType(PgInteger.Xid, 28, 1011),
    BuiltInType(PgInteger.Cid, 29, 1012),
    BuiltInType(new PgVector("oidvector", PgInteger.Oid), 30, 1013),
    BuiltInType(PgJson.Json, 114, 199),
    BuiltInType(PgXml, 142, 143),
    BuiltInType(PgGeometry.Point, 600, 1017),
    BuiltInType(PgGeometry.Lseg, 601, 1018),
    BuiltInType(PgGeometry.Path, 602, 1019),
    BuiltInType(PgGeometry.Box, 603, 1020),
    BuiltInType(PgGeometry.Polygon, 604, 1027),
    BuiltInType(PgGeometry.Line, 628, 629),
    BuiltInType(PgInet.Cidr, 650, 651),
    BuiltInType(PgFloat.Float4, 700, 1021),
    BuiltInType(PgFloat.Float8, 701, 1022),
    BuiltInType(new PgText("unknown"), 705, 0),
    BuiltInType(PgGeometry.Circle, 718, 719),
    BuiltInType(new PgMacAddress("macaddr8", 8), 774, 775),
    BuiltInType(PgMoney, 790, 791),
    BuiltInType(new PgMacAddress("macaddr", 6), 829, 1040),
    BuiltInType(PgInet.Inet, 869, 1041),
    BuiltInType(PgAclItem, 1033, 1034),
    BuiltInType(new PgText("bpchar"), 1042, 1014),
    BuiltInType(new PgText("varchar"), 1043, 1015),
    BuiltInType(PgDate, 1082, 1182),
    BuiltInType(new PgTime("time", zoned = false), 1083, 1183),
    BuiltInType(PgTimestamp.Timestamp, 1114, 1115),
    BuiltInType(PgTimestamp.Timestamptz, 1184, 1185),
    BuiltInType(PgInterval, 1186, 1187),
    BuiltInType(new PgTime("timetz", zoned = true), 1266, 1270),
    BuiltInType(PgBits.Bit, 1560, 1561),
    BuiltInType(PgBits.Varbit, 1562, 1563),
    BuiltInType(PgNumeric, 1700, 1231),
    BuiltInType(new PgText("refcursor"), 1790, 2201),
    BuiltInType(new PgReg("regprocedure"), 2202, 2207),
    BuiltInType(new PgReg("regoper"), 2203, 2208),
    BuiltInType(new PgReg("regoperator"), 2204, 2209),
    BuiltInType(new PgReg("regclass"), 2205, 2210),
    BuiltInType(new PgReg("regtype"), 2206, 2211),
    BuiltInType(PgUuid, 2950, 2951),
    BuiltInType(new PgSnapshot("txid_snapshot"), 2970, 2949),
    BuiltInType(PgLsn, 3220, 3221),
    BuiltInType(PgTsVector, 3614, 3643),
    BuiltInType(PgTsQuery, 3615, 3645),
    BuiltInType(new PgReg("regconfig"), 3734, 3735),
    BuiltInType(new PgReg("regdictionary"), 3769, 3770),
    BuiltInType(PgJson.Jsonb, 3802, 3807),
    BuiltInType(int4Range, 3904, 3905),
    BuiltInType(numRange, 3906, 3907),
    BuiltInType(tsRange, 3908, 3909),
    BuiltInType(tstzRange, 3910, 3911),
    BuiltInType(dateRange, 3912, 3913),
    BuiltInType(int8Range, 3926, 3927),
    BuiltInType(PgJsonPath, 4072, 4073),
    BuiltInType(new PgReg("regnamespace"), 4089, 4090),
    BuiltInType(new PgReg("regrole"), 4096, 4097),
    BuiltInType(new PgReg("regcollation"), 4191, 4192),
    BuiltInType(new PgMultirange("int4multirange", int4Range), 4451, 6150),
    BuiltInType(new PgMultirange("nummultirange", numRange), 4532, 6151),
    BuiltInType(new PgMultirange("tsmultirange", tsRange), 4533, 6152),
    BuiltInType(new PgMultirange("tstzmultirange", tstzRange), 4534, 6153),
    BuiltInType(new PgMultirange("datemultirange", dateRange), 4535, 6155),
    BuiltInType(new PgMultirange("int8multirange", int8Range), 4536, 6157),
    BuiltInType(new PgSnapshot("pg_snapshot"), 5038, 5039),
    BuiltInType(PgXid8, 5069, 271)
  )

  /** The types by their oids, with the arrays. */
  val byOid: Map[Long, PgType] = all.flatMap { case BuiltInType(pgType, oid, arrayOid) =>
    (oid -> pgType) +: Option.when(arrayOid != 0)(arrayOid -> new PgArray(pgType, oid)).toSeq
  }.toMap

  /** The types by their names in `pg_type`. The name of an array type begins with an underscore. */
  val byName: Map[String, PgType] = all.flatMap { case BuiltInType(pgType, _, arrayOid) =>
    (pgType.name -> pgType) +: byOid.get(arrayOid).map(s"_${pgType.name}" -> _).toSeq
  }.toMap
}
