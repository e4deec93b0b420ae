package io.sparkpgoutput.source.stream

import java.time.Duration

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.util.CaseInsensitiveStringMap

import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.errors.SourceException

class SourceOptionsSuite extends AnyFunSuite {
  private val Password = "s3cret"
  private val required = Map(
    "url" -> s"jdbc:postgresql://db.example.org/shop?password=$Password",
    "slot" -> "lake",
    "publication" -> "shop, other"
  )

  private def parse(options: (String, String)*): SourceOptions =
    SourceOptions.parse(new CaseInsensitiveStringMap((required ++ options).asJava))

  private def refused(options: (String, String)*): String =
    intercept[SourceException](parse(options: _*)).getMessage

  test("options are read, with names in any case") {
    val options = parse(
      "User" -> "lake",
      "password" -> Password,
      "output" -> "MESSAGES",
      "maxbytespertrigger" -> "2m",
      "idleInterval" -> "250ms",
      "createSlot" -> "true"
    )
    assert(options.publications == Seq("shop", "other"))
    assert(options.user.contains("lake"))
    assert(options.asMessages && options.createSlot && !options.failover)
    assert(options.maxBytesPerTrigger == (2L << 20))
    assert(options.idleInterval == Duration.ofMillis(250))
    Map("250" -> 250L, "0" -> 0L, "2min" -> 120000L, "365d" -> 365L * 24 * 3600 * 1000).foreach {
      case (text, millis) =>
        assert(parse("idleInterval" -> text).idleInterval == Duration.ofMillis(millis), text)
    }
    val odd = "shop, \"a,b\" ,\" say \"\"hi\"\"\",Größe-1"
    assert(parse("publication" -> odd).publications == Seq("shop", "a,b", " say \"hi\"", "Größe-1"))
    assert(parse("table" -> "\"My\".orders").table.contains(TableName("My", "orders")))
  }

  test("a list of publications can be long") {
    val names = (1 to 50000).map(number => s"p$number")
    assert(parse("publication" -> names.mkString(",")).publications == names)
  }

  test("a text of the options shows no password and no query part of the URL") {
    val options = parse("password" -> Password)
    Seq(options.toString, options.address.toString).foreach { text =>
      assert(text.contains("db.example.org") && !text.contains(Password))
    }
  }

  test("an option that is missing, unknown or wrong is an error that says what to do") {
    required.keys.foreach { name =>
      val error = intercept[SourceException](
        SourceOptions.parse(new CaseInsensitiveStringMap((required - name).asJava))
      )
      assert(error.getMessage.contains(s"The option '$name' is missing"))
    }
    Seq(
      Seq("foo" -> "1") -> "There is no option 'foo'",
      Seq("encoding" -> "UTF8") -> "the server sends UTF-8",
      Seq("two_phase" -> "true") -> "when it is committed",
      Seq("startingOffsets" -> "earliest") -> "where the slot is",
      Seq("maxBytesPerTrigger" -> "0") -> "'0' is not valid for the option 'maxBytesPerTrigger'",
      Seq("maxBytesPerTrigger" -> "many") -> "is not valid",
      Seq("idleInterval" -> "-1s") -> "is not valid",
      Seq("idleInterval" -> "366d") -> "is not valid",
      Seq("idleInterval" -> "107000d") -> "is not valid",
      Seq("publication" -> "a,,b") -> "is not valid",
      Seq("publication" -> "a,\"a\"") -> "is not valid",
      Seq("publication" -> "a,") -> "is not valid",
      Seq("publication" -> "a b") -> "is not valid",
      Seq("publication" -> "\"a") -> "\"a,b\"",
      Seq("table" -> "a, b") -> "is not valid",
      Seq("table" -> "sales.*") -> "is not valid",
      Seq("table" -> "a", "row" -> "map") -> "exclude each other",
      Seq("table" -> "a", "schema" -> "id INT") -> "exclude each other",
      Seq("schema" -> "id INT") -> "needs the option 'tables'",
      Seq("output" -> "messages", "table" -> "a") -> "have no effect",
      Seq("failover" -> "true") -> "needs the option 'createSlot'"
    ).foreach { case (options, text) =>
      val error = refused(options: _*)
      assert(error.contains(text), options)
      assert(error.startsWith("[PGOUTPUT_SOURCE_OPTION]"), options)
    }
  }
}
