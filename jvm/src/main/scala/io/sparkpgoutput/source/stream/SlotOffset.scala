package io.sparkpgoutput.source.stream

import org.apache.spark.sql.connector.read.streaming.Offset

import io.sparkpgoutput.protocol.Lsn
import io.sparkpgoutput.source.SourceError

/** All transactions whose commit LSN is below this LSN are done. The text is the same for ever. */
final case class SlotOffset(lsn: Long) extends Offset {
  override def json(): String = s"""{"lsn":"${Lsn.format(lsn)}"}"""
}

object SlotOffset {
  private val Json = """\s*\{\s*"lsn"\s*:\s*"([0-9a-fA-F/]+)"\s*\}\s*""".r

  def of(json: String): SlotOffset = json match {
    case Json(lsn) =>
      Lsn.parse(lsn).map(SlotOffset(_)).getOrElse(throw SourceError.unknownOffset(json))
    case _ => throw SourceError.unknownOffset(json)
  }
}
