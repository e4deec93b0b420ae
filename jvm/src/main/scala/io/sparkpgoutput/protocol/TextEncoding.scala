package io.sparkpgoutput.protocol

import java.nio.ByteBuffer
import java.nio.charset.{CharacterCodingException, Charset, StandardCharsets}
import java.util.Locale

import scala.util.control.Exception.catching

import org.apache.spark.unsafe.types.UTF8String

/**
 * The encoding that the server sent text in: its `client_encoding` when the messages were written.
 * Names, prefixes, gids, origins and text cells are in it. Equal encodings make two decodes equal, and
 * Spark evaluates equal expressions once.
 *
 * @param name the name that Java's charset has, of several names
 */
final case class TextEncoding private (name: String) {
  import TextEncoding._

  /** Java's charsets are not serializable. */
  @transient lazy val charset: Charset = Charset.forName(name)

  val isUtf8: Boolean = name == StandardCharsets.UTF_8.name

  override def toString: String = name

  /** The text in UTF-8; null if the bytes are not valid in this encoding. */
  def toUtf8(bytes: Array[Byte], from: Int, size: Int): Array[Byte] =
    try {
      val sent = if (name == EucTw.Name) EucTw.forJava(bytes, from, size)
      else ByteBuffer.wrap(bytes, from, size)
      val text = charset.newDecoder().decode(sent) // reports errors
      corrected(text.toString).getBytes(StandardCharsets.UTF_8)
    } catch { case _: CharacterCodingException => null }

  private def corrected(text: String): String =
    if (corrections.isEmpty) text
    else text.map(character => corrections.getOrElse(character, character))

  @transient private lazy val corrections: Map[Char, Char] = name match {
    case EucJp   => EucJpCorrections
    case Gb18030 => Gb18030Corrections
    case _       => Map.empty
  }
}

object TextEncoding {
  val Utf8: TextEncoding = new TextEncoding(StandardCharsets.UTF_8.name)

  private val EucJp = "x-eucJP-Open"

  /** Characters for which Java follows JIS X 0208, and PostgreSQL Microsoft's code page 932. */
  private val EucJpCorrections: Map[Char, Char] = Map(
    '\u2014' -> '\u2015', // dash
    '\u2016' -> '\u2225', // double vertical line
    '\u2212' -> '\uff0d', // minus
    '\u301c' -> '\uff5e', // wave dash
    '\u00a2' -> '\uffe0', // cent
    '\u00a3' -> '\uffe1', // pound
    '\u00ac' -> '\uffe2' // not
  )

  private val Gb18030 = "GB18030"

  /**
   * Characters that GB18030-2022 and GB18030-2000 have at each other's places. Java follows the former,
   * unless a system property says the latter, which PostgreSQL follows.
   */
  private lazy val Gb18030Corrections: Map[Char, Char] = {
    // A character of one text changes places with the one at the same place of the other text.
    val of2022 =
      "\u1e3f\u9fb4\u9fb5\u9fb6\u9fb7\u9fb8\u9fb9\u9fba\u9fbb" +
        "\ufe10\ufe11\ufe12\ufe13\ufe14\ufe15\ufe16\ufe17\ufe18\ufe19"
    val of2000 =
      "\ue7c7\ue81e\ue826\ue82b\ue82c\ue832\ue843\ue854\ue864" +
        "\ue78d\ue78f\ue78e\ue790\ue791\ue792\ue793\ue794\ue795\ue796"
    val pairs = of2022.zip(of2000)
    val isOf2022 = new String(Array(0xa6, 0xd9).map(_.toByte), Gb18030) == "\ufe10"
    if (isOf2022) (pairs ++ pairs.map(_.swap)).toMap else Map.empty
  }

  /**
   * PostgreSQL's name, Java's name, PostgreSQL's other names. Java's is the charset that reads what
   * PostgreSQL's conversion writes, with the corrections above. Each pair was compared character by
   * character with `convert_to` of a server.
   * SQL_ASCII is not here: it means that the server does not convert, so the messages are in the
   * database's encoding. Java has no MULE_INTERNAL, EUC_JIS_2004, LATIN6 and LATIN8.
   *
   * @see `src/common/encnames.c`; PostgreSQL documentation, "Character Set Support"
   */
  private val known: Seq[(String, String, Seq[String])] = Seq(
    Seq(("UTF8", "UTF-8", Seq("UNICODE"))),
    Seq(1 -> 1, 2 -> 2, 3 -> 3, 4 -> 4, 5 -> 9, 7 -> 13, 9 -> 15, 10 -> 16).map {
      case (latin, part) => (s"LATIN$latin", s"ISO-8859-$part", Nil)
    },
    (5 to 8).map(part => (s"ISO_8859_$part", s"ISO-8859-$part", Nil)),
    Seq(("WIN1250", "windows-1250", Nil), ("WIN1251", "windows-1251", Seq("WIN"))),
    (1252 to 1257).map(page => (s"WIN$page", s"windows-$page", Nil)),
    Seq(
      ("WIN1258", "windows-1258", Seq("ABC", "TCVN", "TCVN5712", "VSCII")),
      ("WIN866", "IBM866", Seq("ALT")),
      ("WIN874", "x-windows-874", Nil),
      ("KOI8R", "KOI8-R", Seq("KOI8")),
      ("KOI8U", "KOI8-U", Nil),
      ("EUC_JP", EucJp, Nil),
      ("SJIS", "windows-31j", Seq("MSKANJI", "SHIFT_JIS", "WIN932")),
      ("SHIFT_JIS_2004", "x-SJIS_0213", Nil),
      ("EUC_CN", "GB2312", Nil),
      ("GBK", "x-mswin-936", Seq("WIN936")),
      ("GB18030", "GB18030", Nil),
      ("EUC_KR", "EUC-KR", Nil),
      ("UHC", "x-windows-949", Seq("WIN949")),
      ("JOHAB", "x-Johab", Nil),
      ("EUC_TW", EucTw.Name, Nil),
      ("BIG5", "x-Big5-Solaris", Seq("WIN950"))
    )
  ).flatten

  private val byName: Map[String, String] = known.flatMap { case (name, charset, others) =>
    val names = Seq(name, charset) ++ others
    val windows = names.filter(_.matches("WIN\\d+")).map(_.replace("WIN", "WINDOWS"))
    (names ++ windows).map(clean(_) -> charset)
  }.toMap

  /** PostgreSQL's names of the encodings, for an error message. */
  def names: Seq[String] = known.map(_._1)

  /** The encoding with this name of PostgreSQL's, or else of Java's. */
  def of(name: String): Option[TextEncoding] = catching(classOf[IllegalArgumentException])
    .opt(Charset.forName(byName.getOrElse(clean(name), name)))
    .map(charset => new TextEncoding(charset.name))

  /** Keeps letters and digits, in lower case: PostgreSQL compares names of encodings so. */
  private def clean(name: String): String =
    name.filter(_.isLetterOrDigit).toLowerCase(Locale.ROOT)

  def isValidUtf8(bytes: Array[Byte], from: Int, size: Int): Boolean =
    UTF8String.fromBytes(bytes, from, size).isValid

  /**
   * Returns whether a text is one byte that is not ASCII, so that it is not valid in UTF-8. PostgreSQL 14 and 15 print
   * such a value of the type "char" so.
   */
  def isBareByte(bytes: Array[Byte], from: Int, to: Int): Boolean =
    to - from == 1 && bytes(from) < 0

  /** The text that later versions print for such a byte: a backslash and three octal digits. */
  def escaped(byte: Byte): Array[Byte] =
    Array[Int]('\\', '0' + (byte >> 6 & 3), '0' + (byte >> 3 & 7), '0' + (byte & 7)).map(_.toByte)

  final private val BlockSize = 32
  final private val NotAscii = 0x8080808080808080L

  /**
   * Returns whether all bytes are ASCII. It looks at blocks, the last of which overlaps the block before it. So
   * their number depends on the size only.
   */
  def isAscii(bytes: Array[Byte], from: Int, to: Int): Boolean = {
    var bits = 0L
    var at = from
    if (to - from >= BlockSize) {
      while (at + BlockSize < to) {
        bits |= block(bytes, at)
        at += BlockSize
      }
      bits |= block(bytes, to - BlockSize)
    } else while (at < to) {
      bits |= bytes(at).toLong
      at += 1
    }
    (bits & NotAscii) == 0
  }

  private def block(bytes: Array[Byte], at: Int): Long =
    BigEndian.int64(bytes, at) | BigEndian.int64(bytes, at + 8) |
      BigEndian.int64(bytes, at + 16) | BigEndian.int64(bytes, at + 24)
}

/** What PostgreSQL writes in EUC_TW otherwise than Java reads it. Both follow editions of CNS 11643. */
private object EucTw {
  val Name = "x-EUC-TW"

  /**
   * Characters of plane 14 that Java has in plane 4: the last two bytes of both. Java has the others at the same
   * places of plane 3.
   */
  private lazy val inPlane4: Map[Int, Int] = (
    "e2c9a1f1 e2caa1f3 e2d1a2f1 e2d7a4c6 e2daa5d0 e2dca6a3 e2dea6e2 e2dfa6e5 e2e0a6fb " +
      "e2e1a6fd e2e3a8be e2e4a9b1 e2e6a9b6 e2e7a9bf e2e9a9f2 e2eaaaa6 e2ecaad2 e2f0acbe " +
      "e2f1acdc e2f2ace1 e2f9adf5 e3a3b0ba e3a5b0c1 e3adb3fa e3aeb4d0 e3b0b5bd e3b4b6ad " +
      "e3b6b6ef e3b7b6f1 e3b9b7ef e3bdb8df e3c3bcd3 e3c5bcee e3c6bddd e3cac0f8 e3ccc2ad " +
      "e3cdc2b5 e3d2c3f9 e3d4c4b1 e3d6c6b3 e3e3cad7 e3e6cbf8 e3e7cca1 e3eccebb e3eeceda " +
      "e3f4d1a3 e3f5d1b8 e3fbd9f0 e4a2e0ef e4a8e4cf e4aae5ac e4ade7bb e4afe8be e4b1eba9 " +
      "e4b2ebf4 e4b3edb7"
  ).split(' ').map(pair =>
    Integer.parseInt(pair.take(4), 16) -> Integer.parseInt(pair.drop(4), 16)
  ).toMap

  /**
   * Returns the text with the bytes that Java reads for the same characters. PostgreSQL writes plane 14, and a
   * server whose own encoding is EUC_TW can send plane 1 in its long form. What is not valid stays so.
   */
  def forJava(bytes: Array[Byte], from: Int, size: Int): ByteBuffer = {
    val found = ByteBuffer.allocate(size)
    val end = from + size
    var at = from
    while (at < end) {
      val length = lengthAt(bytes, at, end)
      if (length == 4) put(found, bytes, at) else found.put(bytes, at, length)
      at += length
    }
    found.flip()
  }

  private def lengthAt(bytes: Array[Byte], at: Int, end: Int): Int = {
    def follow(count: Int) = at + count < end && (at + 1 to at + count).forall(isPart(bytes, _))
    if (bytes(at) == 0x8e.toByte && follow(3)) 4 else if (isPart(bytes, at) && follow(1)) 2 else 1
  }

  private def isPart(bytes: Array[Byte], at: Int) = (bytes(at) & 0xff) >= 0xa1

  private def put(found: ByteBuffer, bytes: Array[Byte], at: Int): Unit = {
    val code = ((bytes(at + 2) & 0xff) << 8) | (bytes(at + 3) & 0xff)
    bytes(at + 1) & 0xff match {
      case 0xa1 => found.putShort(code.toShort)
      case 0xae =>
        val (plane, place) = inPlane4.get(code).fold((0xa3, code))((0xa4, _))
        found.put(0x8e.toByte).put(plane.toByte).putShort(place.toShort)
      case _ => found.put(bytes, at, 4)
    }
  }
}
