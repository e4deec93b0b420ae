package io.sparkpgoutput.types.datetime

import org.scalatest.funsuite.AnyFunSuite

class DateStyleSuite extends AnyFunSuite {
  test("a server's setting tells the style, if it tells whether days come first") {
    import DateStyle._
    Seq(
      "ISO, MDY" -> Some(Iso),
      "ISO" -> Some(Iso),
      "SQL, DMY" -> Some(SqlDmy),
      "sql,mdy" -> Some(SqlMdy),
      "SQL, YMD" -> Some(SqlMdy),
      "Postgres, DMY" -> Some(PostgresDmy),
      "Postgres, YMD" -> Some(PostgresMdy),
      "German" -> Some(German),
      "German, MDY" -> Some(German),
      "SQL" -> None,
      "Postgres" -> None,
      "ISO, XYZ" -> None,
      "SQL, DMY, DMY" -> None,
      "DMY" -> None,
      "" -> None,
      "," -> None
    ).foreach { case (setting, style) => assert(parse(setting) == style, setting) }
    assert(all.forall(style => parse(style.name).contains(style)))
  }
}
