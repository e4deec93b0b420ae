package io.sparkpgoutput.types

/**
 * The types that PostgreSQL has from the start, whose oids never change: name, oid, oid of the array
 * type.
 *
 * @see
 *   `src/include/catalog/pg_type.dat`
 */
private[sparkpgoutput] object PgTypes {
  final case class Known(pgType: PgType, oid: Long, arrayOid: Long)

  val all: Seq[Known] = Seq(
    Known(PgBoolean, 16, 1000),
    Known(PgInteger.Int8, 20, 1016),
    Known(PgInteger.Int2, 21, 1005),
    Known(PgInteger.Int4, 23, 1007),
    Known(new PgText("text"), 25, 1009),
    Known(PgInteger.Oid, 26, 1028),
    Known(PgInteger.Xid, 28, 1011),
    Known(new PgText("varchar"), 1043, 1015),
    Known(PgDate, 1082, 1182),
    Known(PgTime.Time, 1083, 1183),
    Known(PgTimestamp.Timestamp, 1114, 1115),
    Known(PgTimestamp.Timestamptz, 1184, 1185),
    Known(PgInterval, 1186, 1187),
    Known(PgTime.Timetz, 1266, 1270)
  )
}
