package io.sparkpgoutput.protocol

import java.nio.ByteBuffer
import java.nio.charset.{CharacterCodingException, Charset, StandardCharsets}
import java.util.Locale

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
      val text = charset.newDecoder().decode(ByteBuffer.wrap(bytes, from, size)) // reports errors
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
    val pairs = Seq(
      '\u1e3f' -> '\ue7c7',
      '\u9fb4' -> '\ue81e',
      '\u9fb5' -> '\ue826',
      '\u9fb6' -> '\ue82b',
      '\u9fb7' -> '\ue82c',
      '\u9fb8' -> '\ue832',
      '\u9fb9' -> '\ue843',
      '\u9fba' -> '\ue854',
      '\u9fbb' -> '\ue864',
      '\ufe10' -> '\ue78d',
      '\ufe11' -> '\ue78f',
      '\ufe12' -> '\ue78e',
      '\ufe13' -> '\ue790',
      '\ufe14' -> '\ue791',
      '\ufe15' -> '\ue792',
      '\ufe16' -> '\ue793',
      '\ufe17' -> '\ue794',
      '\ufe18' -> '\ue795',
      '\ufe19' -> '\ue796'
    )
    val isOf2022 = new String(Array(0xa6, 0xd9).map(_.toByte), Gb18030) == "\ufe10"
    if (isOf2022) (pairs ++ pairs.map(_.swap)).toMap else Map.empty
  }

  /**
   * PostgreSQL's name, Java's name, PostgreSQL's other names. Java's is the charset that reads what
   * PostgreSQL's conversion writes, with the corrections above. Each pair was compared character by
   * character with `convert_to` of a server. Java refuses some characters of EUC_TW.
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
      ("EUC_TW", "x-EUC-TW", Nil),
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
  def of(name: String): Option[TextEncoding] = {
    val charset = byName.getOrElse(clean(name), name)
    Option.when(isCharset(charset))(new TextEncoding(Charset.forName(charset).name))
  }

  /** Keeps letters and digits, in lower case: PostgreSQL compares names of encodings so. */
  private def clean(name: String): String =
    name.filter(_.isLetterOrDigit).toLowerCase(Locale.ROOT)

  private def isCharset(name: String): Boolean =
    try Charset.isSupported(name)
    catch { case _: IllegalArgumentException => false }

  def isValidUtf8(bytes: Array[Byte], from: Int, size: Int): Boolean =
    UTF8String.fromBytes(bytes, from, size).isValid
}
