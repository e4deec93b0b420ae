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
    Known(PgBytea, 17, 1001),
    Known(PgPrinted.Char, 18, 1002),
    Known(PgInteger.Int8, 20, 1016),
    Known(PgInteger.Int2, 21, 1005),
    Known(PgPrinted.Int2Vector, 22, 1006),
    Known(PgInteger.Int4, 23, 1007),
    Known(new PgReg("regproc"), 24, 1008),
    Known(new PgText("text"), 25, 1009),
    Known(PgInteger.Oid, 26, 1028),
    Known(PgPrinted.Tid, 27, 1010),
    Known(PgInteger.Xid, 28, 1011),
    Known(PgInteger.Cid, 29, 1012),
    Known(PgPrinted.OidVector, 30, 1013),
    Known(PgFloat.Float4, 700, 1021),
    Known(PgFloat.Float8, 701, 1022),
    Known(PgMoney, 790, 791),
    Known(new PgText("varchar"), 1043, 1015),
    Known(PgBits.Bit, 1560, 1561),
    Known(PgBits.Varbit, 1562, 1563),
    Known(PgNumeric, 1700, 1231),
    Known(new PgReg("regprocedure"), 2202, 2207),
    Known(new PgReg("regoper"), 2203, 2208),
    Known(new PgReg("regoperator"), 2204, 2209),
    Known(new PgReg("regclass"), 2205, 2210),
    Known(new PgReg("regtype"), 2206, 2211),
    Known(PgPrinted.Uuid, 2950, 2951),
    Known(PgPrinted.TxidSnapshot, 2970, 2949),
    Known(PgPrinted.PgLsn, 3220, 3221),
    Known(new PgReg("regconfig"), 3734, 3735),
    Known(new PgReg("regdictionary"), 3769, 3770),
    Known(new PgReg("regnamespace"), 4089, 4090),
    Known(new PgReg("regrole"), 4096, 4097),
    Known(new PgReg("regcollation"), 4191, 4192),
    Known(PgPrinted.PgSnapshot, 5038, 5039),
    Known(PgXid8, 5069, 271)
  )
}
