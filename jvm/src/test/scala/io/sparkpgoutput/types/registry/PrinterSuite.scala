package io.sparkpgoutput.types.registry

import java.nio.charset.StandardCharsets

import org.apache.spark.sql.types.StringType

import org.scalacheck.Gen

import io.sparkpgoutput.PropertySuite
import io.sparkpgoutput.protocol.TextEncoding
import io.sparkpgoutput.types.containers.PgHstore
import io.sparkpgoutput.types.families.{
  PgAclItem,
  PgGeometry,
  PgInet,
  PgJson,
  PgJsonPath,
  PgText,
  PgTsQuery,
  PgTsVector,
  PgXml
}
import io.sparkpgoutput.types.{
  ConversionOptions,
  ConversionTests,
  InvalidValue,
  PgType,
  PrintedValues
}

/**
 * Prints binary values of text-like types, JSON, network addresses, geometry and text search. The values
 * that a server printed are in `types/text.tsv` and `types/hstore.tsv`, which the queries in the .sql files
 * beside them made.
 */
class PrinterSuite extends PropertySuite with ConversionTests {
  private val values =
    PrintedValues.read("/types/text.tsv") ++ PrintedValues.read("/types/hstore.tsv")
  private val types =
    (BuiltInTypes.all.map(_.pgType) :+ PgHstore).map(each => each.name -> each).toMap
  private val latin1 = ConversionOptions(encoding = TextEncoding.of("LATIN1").get)

  private def printed(
      pgType: PgType,
      binary: Array[Byte],
      options: ConversionOptions = ConversionOptions()
  ) = fromBinary(pgType, StringType, binary, options).toString

  private def int4(value: Int) = Array(24, 16, 8, 0).map(shift => (value >> shift).toByte)
  private def bytes(values: Int*) = values.map(_.toByte).toArray
  private def inLatin1(text: String) = text.getBytes(StandardCharsets.ISO_8859_1)

  test("binary values print as the server prints them") {
    values.foreach { value =>
      assert(printed(types(value.typeName), value.binary) == value.text, value.typeName)
    }
  }

  test("a damaged value is printed or refused, and never fails otherwise") {
    val damaged = for {
      value <- Gen.oneOf(values)
      keep <- Gen.chooseNum(0, value.binary.length)
      middle <- Gen.listOfN(3, Gen.chooseNum(Byte.MinValue, Byte.MaxValue))
      skip <- Gen.chooseNum(0, 4)
    } yield (value, value.binary.take(keep) ++ middle ++ value.binary.drop(keep + skip))
    forAll(damaged, minSuccessful(5000)) { case (value, binary) =>
      val pgType = types(value.typeName)
      (pgType.sparkType(-1) +: Seq(StringType)).foreach { target =>
        try fromBinary(pgType, target, binary)
        catch { case _: InvalidValue => }
      }
    }
  }

  test("a value that is cut off or too long is refused") {
    val withoutText = values.filter { value =>
      types(value.typeName) match {
        case _: PgText | _: PgJson | PgJsonPath => false
        case _                                  => true
      }
    }
    withoutText.foreach { value =>
      val pgType = types(value.typeName)
      problem(printed(pgType, value.binary.dropRight(1)))
      problem(printed(pgType, value.binary :+ 0.toByte))
    }
  }

  test("a count that is too great for the value is refused before memory is allocated") {
    Seq(PgTsVector, PgTsQuery, PgHstore, PgGeometry.Polygon).foreach { pgType =>
      Seq(Int.MaxValue, -1).foreach { count =>
        assert(problem(printed(pgType, int4(count))) == s"is not a valid $pgType")
      }
    }
  }

  test("a path or polygon without points is refused") {
    assert(problem(printed(PgGeometry.Polygon, int4(0))) == "is not a valid polygon")
    assert(problem(printed(PgGeometry.Path, bytes(1, 0, 0, 0, 0))) == "is not a valid path")
  }

  test("an address must have a known family, the size of its family, and no more bits than that") {
    assert(printed(PgInet.Inet, bytes(2, 32, 0, 4, 1, 2, 3, 4)) == "1.2.3.4")
    Seq(
      bytes(4, 32, 0, 4, 1, 2, 3, 4),
      bytes(2, 33, 0, 4, 1, 2, 3, 4),
      bytes(2, 32, 0, 5, 1, 2, 3, 4),
      bytes(3, 32, 0, 4, 1, 2, 3, 4)
    ).foreach { binary =>
      assert(problem(printed(PgInet.Inet, binary)) == "is not a valid inet")
    }
  }

  test("a tsquery can be nested to any depth") {
    val depth = 100000
    val leaf = bytes(1, 0, 0, 'a', 0)
    val negations = Array.fill(depth)(bytes(2, 1)).flatten
    val negated = printed(PgTsQuery, int4(depth + 1) ++ negations ++ leaf) == "!" * depth + "'a'"
    assert(negated)

    // Each phrase is the right operand of the previous one, so it needs parentheses.
    val phrases = Array.fill(depth)(bytes(2, 4, 0, 1)).flatten
    val leaves = Array.fill(depth + 1)(leaf).flatten
    val text = "'a' <-> ( " * (depth - 1) + "'a' <-> 'a'" + " )" * (depth - 1)
    val nested = printed(PgTsQuery, int4(2 * depth + 1) ++ phrases ++ leaves) == text
    assert(nested)
  }

  test("a tsquery must be one tree of valid operators and operands") {
    val leaf = bytes(1, 0, 0, 'a', 0)
    Seq(
      int4(2) ++ leaf ++ leaf,
      int4(2) ++ bytes(2, 2) ++ leaf,
      int4(1) ++ bytes(2, 1),
      int4(1) ++ bytes(1, 16, 0, 'a', 0),
      int4(2) ++ bytes(2, 5) ++ leaf,
      int4(1) ++ bytes(3, 0, 0, 'a', 0)
    ).foreach { binary =>
      assert(problem(printed(PgTsQuery, binary)) == "is not a valid tsquery")
    }
  }

  test("text in binary values has the encoding of the option") {
    val text = inLatin1("é")
    assert(printed(new PgText("text"), text, latin1) == "é")
    assert(printed(PgTsVector, int4(1) ++ text ++ bytes(0, 0, 0), latin1) == "'é'")
    assert(printed(PgTsQuery, int4(1) ++ bytes(1, 0, 0) ++ text ++ bytes(0), latin1) == "'é'")
    assert(printed(PgJson.Jsonb, bytes(1, '"') ++ text ++ bytes('"'), latin1) == "\"é\"")
    assert(problem(printed(new PgText("text"), text)).endsWith("use the option encoding"))
  }

  test("binary xml prints without the declaration of its encoding") {
    Seq(
      """<?xml version="1.0" encoding="LATIN1"?><é/>""" -> "<é/>",
      "<?xml version=\"1.0\" encoding=\"LATIN1\"?>\n\n<a/>" -> "\n<a/>",
      """<?xml version="1.1" encoding="LATIN1"?><a/>""" -> """<?xml version="1.1"?><a/>""",
      """<?xml version="1.0" encoding="LATIN1" standalone="no"?><a/>""" ->
        """<?xml version="1.0" standalone="no"?><a/>""",
      "<a/>" -> "<a/>"
    ).foreach { case (sent, text) =>
      assert(printed(PgXml, inLatin1(sent), latin1) == text)
    }
    val asItIs = """<?xml version="1.0" encoding="LATIN1"?><a/>"""
    assert(printed(PgXml, asItIs.getBytes(StandardCharsets.UTF_8)) == asItIs)
  }

  test("another version of jsonb or jsonpath is refused, and so is a binary aclitem") {
    Seq(PgJson.Jsonb, PgJsonPath).foreach { pgType =>
      assert(problem(printed(pgType, bytes(2, '1'))).contains("has version 2"))
      assert(problem(printed(pgType, bytes())) == s"is not a valid $pgType")
    }
    assert(problem(printed(PgAclItem, bytes('a'))).startsWith("is binary"))
    assert(fromText(PgAclItem, StringType, "a=r/b").toString == "a=r/b")
  }

  test("only arrays of box have another delimiter") {
    assert(types.values.filter(_.delimiter != ',').toSeq == Seq(PgGeometry.Box))
  }
}
