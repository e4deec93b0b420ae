package io.sparkpgoutput.lake.folder

import java.nio.charset.StandardCharsets.UTF_8
import java.time.Instant

import scala.collection.immutable.ListMap
import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import com.fasterxml.jackson.core.{JsonProcessingException, StreamReadFeature}
import com.fasterxml.jackson.databind.json.JsonMapper
import com.fasterxml.jackson.databind.{DeserializationFeature, JsonNode}

import io.sparkpgoutput.lake.LakeException
import io.sparkpgoutput.protocol.Lsn

/** The JSON of the files in the checkpoint folder of a job. */
private[folder] object JsonFile {

  private val mapper = JsonMapper.builder()
    .enable(StreamReadFeature.STRICT_DUPLICATE_DETECTION)
    .enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS)
    .build()

  /** An object with its fields in this order. */
  def fields(values: (String, Any)*): java.util.Map[String, Any] = ListMap(values: _*).asJava

  def write(values: (String, Any)*): Array[Byte] =
    (mapper.writeValueAsString(fields(values: _*)) + "\n").getBytes(UTF_8)

  def tree(json: String): JsonNode = mapper.readTree(json)

  /**
   * Reads the object in a file.
   *
   * @param damaged
   *   makes the error of a file that is torn, or lacks a field, or has a value of another type. It gets a
   *   sentence that says what is wrong.
   */
  def read[A](
      file: String,
      content: Array[Byte],
      damaged: String => Throwable
  )(of: Fields => A): A =
    try of(new Fields(file, "", mapper.readTree(content)))
    catch {
      case known: LakeException => throw known
      case problem: Malformed   => throw damaged(problem.getMessage)
      case problem: JsonProcessingException =>
        throw damaged(s"It is not JSON: ${problem.getOriginalMessage}.")
      case NonFatal(problem) => throw damaged(s"$problem.")
    }

  final private class Malformed(problem: String) extends Exception(problem)

  /** The fields of an object in a file. A field that is missing or has another type is an error. */
  final class Fields(val file: String, path: String, node: JsonNode) {
    if (node == null || !node.isObject) throw damaged(path, "an object")

    def text(name: String): String = value(name, "a text")(_.isTextual).asText
    def long(name: String): Long = longOf(name, value(name, "an integer")(_ => true))
    def int(name: String): Int = value(name, "an integer")(_.isInt).asInt
    def boolean(name: String): Boolean = value(name, "true or false")(_.isBoolean).asBoolean
    def lsn(name: String): Long = parsed(name, "an LSN")(Lsn.parse)
    def instant(name: String): Instant =
      parsed(name, "a time")(text => scala.util.Try(Instant.parse(text)).toOption)

    /** The text of an object, for those who have a reader of their own. */
    def json(name: String): String = value(name, "an object")(_.isObject).toString

    def fields(name: String): Fields = new Fields(file, pathOf(name), node.get(name))

    def seq(name: String): Seq[Fields] = elements(name).zipWithIndex.map { case (element, index) =>
      new Fields(file, s"${pathOf(name)}[$index]", element)
    }

    def texts(name: String): Seq[String] = elements(name).map { element =>
      if (!element.isTextual) throw damaged(pathOf(name), "a list of texts")
      element.asText
    }

    def longs(name: String): Seq[Long] = elements(name).map(longOf(name, _))

    def textMap(name: String): Map[String, String] = entries(name).map { case (key, entry) =>
      if (!entry.isTextual) throw damaged(pathOf(name), "an object of texts")
      key -> entry.asText
    }

    def longMap(name: String): Map[Long, Long] =
      entries(name).map { case (key, entry) => oid(name, key) -> longOf(name, entry) }

    def textsByOid(name: String): Map[Long, String] =
      textMap(name).map { case (key, text) => oid(name, key) -> text }

    /** Reads a field that can be missing. */
    def optional[A](name: String)(read: Fields => String => A): Option[A] =
      Option.when(node.has(name))(read(this)(name))

    /** Reads a word, which is one of several. Another word comes from a later version. */
    def word[A](name: String)(of: String => Option[A]): A = {
      val found = text(name)
      of(found).getOrElse(throw FolderError.unknownWord(file, pathOf(name), found))
    }

    private def value(name: String, wanted: String)(fits: JsonNode => Boolean): JsonNode =
      Option(node.get(name)).filter(fits).getOrElse(throw damaged(pathOf(name), wanted))

    private def parsed[A](name: String, wanted: String)(parse: String => Option[A]): A =
      parse(text(name)).getOrElse(throw damaged(pathOf(name), wanted))

    private def elements(name: String): Seq[JsonNode] =
      value(name, "a list")(_.isArray).elements.asScala.toSeq

    private def entries(name: String): Map[String, JsonNode] =
      value(name, "an object")(_.isObject).properties.asScala
        .map(entry => entry.getKey -> entry.getValue).toMap

    private def longOf(name: String, element: JsonNode): Long = {
      if (!element.isIntegralNumber || !element.canConvertToLong)
        throw damaged(pathOf(name), "made of integers")
      element.asLong
    }

    private def oid(name: String, key: String): Long =
      key.toLongOption.getOrElse(throw damaged(pathOf(name), "an object whose fields are oids"))

    private def pathOf(name: String) = if (path.isEmpty) name else s"$path.$name"

    private def damaged(path: String, wanted: String) =
      malformed(s"${if (path.isEmpty) "It" else s"Its field $path"} is not $wanted.")

    def malformed(problem: String): Throwable = new Malformed(problem)
  }
}
