package io.sparkpgoutput.changes

import java.io.{BufferedReader, InputStreamReader}
import java.nio.charset.StandardCharsets
import java.nio.file.{Files, Path}
import java.util.zip.GZIPInputStream

import scala.collection.concurrent.TrieMap
import scala.jdk.CollectionConverters._
import scala.util.Using

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}

import io.sparkpgoutput.protocol.Fields

/** Streams of real servers. */
object Captures {
  private val mapper = new ObjectMapper

  /** The names of the captures. Each has the stream of a whole history. */
  def names: Seq[String] = list("tests/data/captures")

  def messages(name: String): Seq[Positioned] = known.getOrElseUpdate(
    name,
    Positioned.all(
      read(s"tests/data/captures/$name").map(line => Fields.unhex(line.path("data").textValue))
    )
  )
  private val known = TrieMap.empty[String, Seq[Positioned]]

  /** The names of the captures of histories that were read with breaks. */
  def seams: Seq[String] = list("tests/data/seams")

  /** A history as it was read without a break, and with breaks. */
  def seam(name: String): (Seq[Positioned], Seq[Positioned]) = {
    val lines = read(s"tests/data/seams/$name")
    def of(member: String) = Positioned.all(
      lines.filter(_.has(member)).map(line => Fields.unhex(line.path(member).textValue))
    )
    (of("clean"), of("data"))
  }

  private def list(directory: String) = Using.resource(Files.list(Path.of(directory))) { files =>
    files.iterator.asScala.map(_.getFileName.toString).filter(_.endsWith(".jsonl.gz")).toSeq.sorted
  }

  /** All lines except for the first, which describes the others. */
  private def read(file: String): Seq[JsonNode] = {
    val stream = new GZIPInputStream(Files.newInputStream(Path.of(file)))
    val reader = new BufferedReader(new InputStreamReader(stream, StandardCharsets.UTF_8))
    Using.resource(reader)(_.lines.iterator.asScala.drop(1).map(mapper.readTree).toSeq)
  }
}
