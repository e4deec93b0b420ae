package io.sparkpgoutput.types

/**
 * The types that PostgreSQL has from the start, whose oids never change: name, oid, oid of the
 * array type (0: it has none).
 *
 * @see
 *   `src/include/catalog/pg_type.dat`
 */
private[sparkpgoutput] object PgTypes {
  final case class Known(pgType: PgType, oid: Long, arrayOid: Long)

  val all: Seq[Known] = Seq(
    Known(PgBoolean, 16, 1000),
    Known(new PgText("name"), 19, 1003),
    Known(PgInteger.Int8, 20, 1016),
    Known(PgInteger.Int2, 21, 1005),
    Known(PgInteger.Int4, 23, 1007),
    Known(new PgText("text"), 25, 1009),
    Known(PgInteger.Oid, 26, 1028),
    Known(PgInteger.Xid, 28, 1011),
    Known(PgJson.Json, 114, 199),
    Known(PgXml, 142, 143),
    Known(PgGeometry.Point, 600, 1017),
    Known(PgGeometry.Lseg, 601, 1018),
    Known(PgGeometry.Path, 602, 1019),
    Known(PgGeometry.Box, 603, 1020),
    Known(PgGeometry.Polygon, 604, 1027),
    Known(PgGeometry.Line, 628, 629),
    Known(PgInet.Cidr, 650, 651),
    Known(new PgText("unknown"), 705, 0),
    Known(PgGeometry.Circle, 718, 719),
    Known(new PgMacAddress("macaddr8", 8), 774, 775),
    Known(new PgMacAddress("macaddr", 6), 829, 1040),
    Known(PgInet.Inet, 869, 1041),
    Known(PgAclItem, 1033, 1034),
    Known(new PgText("bpchar"), 1042, 1014),
    Known(new PgText("varchar"), 1043, 1015),
    Known(new PgText("refcursor"), 1790, 2201),
    Known(PgTsVector, 3614, 3643),
    Known(PgTsQuery, 3615, 3645),
    Known(PgJson.Jsonb, 3802, 3807),
    Known(PgJsonPath, 4072, 4073)
  )
}
