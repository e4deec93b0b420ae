package io.sparkpgoutput.types.families

import io.sparkpgoutput.protocol.TextEncoding
import io.sparkpgoutput.types._

/** A type whose binary value is its text: text, varchar, bpchar, name, an enum and others. */
final class PgText(name: String) extends PgType(name) {

  /** The modifier of varchar(n) and bpchar(n) is n + 4. */
  override def modifierText(modifier: Int): String = if (modifier < 4) "" else s"(${modifier - 4})"

  override def printer(options: ConversionOptions): Printer = new EncodedText(options.encoding)
}

/**
 * xml. The binary value is the text. If the encoding is not UTF-8, it begins with a declaration of the
 * encoding, which the text does not have. The declaration is not true in UTF-8, so it is left out.
 *
 * @see `src/backend/utils/adt/xml.c`: `xml_out`, `xml_send`, `print_xml_decl`
 */
object PgXml extends PgType("xml") {
  private val Declaration =
    """<\?xml( version="[^"]*")( encoding="[^"]*")( standalone="[^"]*")?\?>""".r
  private val DefaultVersion = """ version="1.0""""

  override def printer(options: ConversionOptions): Printer = {
    val text = new EncodedText(options.encoding)
    val declared = new TextBuffer
    if (options.encoding.isUtf8) text
    else
      (bytes, from, to, out) => {
        declared.clear()
        text.print(bytes, from, to, declared)
        out.add(withoutEncoding(declared.toString))
      }
  }

  private def withoutEncoding(text: String): String =
    Declaration.findPrefixMatchOf(text) match {
      case None => text
      case Some(declaration) =>
        val content = text.substring(declaration.end)
        val standalone = Option(declaration.group(3)).getOrElse("")
        // A server prints no declaration that says nothing, and no empty first line.
        if (declaration.group(1) == DefaultVersion && standalone.isEmpty) content.stripPrefix("\n")
        else s"<?xml${declaration.group(1)}$standalone?>$content"
    }
}

/**
 * tsvector. The binary value is an int32, the number of lexemes; for each lexeme its text, a uint16
 * number of positions, and each position as uint16, with the weight (3 to 0: A to D) in the two upper
 * bits.
 *
 * @see `src/backend/utils/adt/tsvector.c`: `tsvectorsend`, `tsvectorout`
 */
object PgTsVector extends PgType("tsvector") {
  override def printer(options: ConversionOptions): Printer = {
    val lexeme = new Lexeme(name, options.encoding)
    Printer.of(name) { (binary, out) =>
      out.list(binary.count(leastBytes = 3), ' ') {
        lexeme.print(binary, out)
        printPositions(binary, out)
      }
    }
  }

  private def printPositions(binary: BinaryReader, out: TextBuffer): Unit = {
    val count = binary.uint16()
    if (count > 0) out.add(':')
    out.list(count, ',') {
      val position = binary.uint16()
      val weight = position >> 14
      out.number(position & 0x3fffL)
      if (weight > 0) out.add('D' - weight) // a server does not print D
    }
  }
}

/**
 * tsquery. The binary value is an int32, the number of items, and the items. An operator comes before
 * its operands, and the right operand before the left. An operand is a byte 1, the weights (bits 3 to
 * 0: A to D), a byte that says whether it is a prefix, and a lexeme. An operator is a byte 2 and its
 * kind; a PHRASE also has its distance, an int16.
 *
 * @see `src/backend/utils/adt/tsquery.c`: `tsquerysend`, `tsqueryrecv`, `infix`
 */
object PgTsQuery extends PgType("tsquery") {

  // The priorities of the operators: `tsearch_op_priority`. An operand never needs parentheses.
  final private val Or = 1
  final private val And = 2
  final private val Phrase = 3
  final private val Not = 4
  final private val Operand = 5

  /**
   * An operator, or an operand with all that belongs to it. The text is a Vector, because two of these are
   * joined in little time, however deep the query is nested.
   *
   * Unlike other printers, this one makes objects for a value. Binary values of this type are rare and short.
   */
  final private case class Item(priority: Int, text: Vector[String]) {
    def atLeast(priority: Int): Vector[String] =
      if (this.priority < priority) "( " +: text :+ " )" else text
  }

  override def printer(options: ConversionOptions): Printer = {
    val lexeme = new Lexeme(name, options.encoding)
    Printer.of(name) { (binary, out) =>
      val items = Seq.fill(binary.count(leastBytes = 2))(readItem(binary, lexeme))
      // In this order, an operator follows its operands.
      items.reverseIterator.foldLeft(List.empty[Item])(join) match {
        case Nil         =>
        case List(query) => query.text.foreach(out.add(_))
        case _           => throw malformed
      }
    }
  }

  private def readItem(binary: BinaryReader, lexeme: Lexeme): Item = binary.uint8() match {
    case 1 => Item(Operand, Vector(readOperand(binary, lexeme)))
    case 2 => readOperator(binary)
    case _ => throw malformed
  }

  private def readOperand(binary: BinaryReader, lexeme: Lexeme): String = {
    val weights = binary.uint8()
    val isPrefix = binary.uint8() != 0
    if (weights > 15) throw malformed
    val text = new TextBuffer
    lexeme.print(binary, text)
    if (isPrefix || weights != 0) text.add(':')
    if (isPrefix) text.add('*')
    (3 to 0 by -1).foreach(weight => if ((weights & 1 << weight) != 0) text.add('D' - weight))
    text.toString
  }

  /** The kinds are those of `src/include/tsearch/ts_type.h`. */
  private def readOperator(binary: BinaryReader): Item = binary.uint8() match {
    case 1 => Item(Not, Vector("!"))
    case 2 => Item(And, Vector(" & "))
    case 3 => Item(Or, Vector(" | "))
    case 4 =>
      val distance = binary.int16()
      Item(Phrase, Vector(if (distance == 1) " <-> " else s" <$distance> "))
    case _ => throw malformed
  }

  /** Joins an operator with its operands, which are at the head of `parts`, the right one first. */
  private def join(parts: List[Item], item: Item): List[Item] = (item, parts) match {
    case (Item(Operand, _), _) => item :: parts
    case (Item(Not, operator), operand :: rest) =>
      Item(Not, operator ++ operand.atLeast(Not)) :: rest
    case (Item(priority, operator), right :: left :: rest) =>
      // A phrase is not associative, so a phrase on the right of another one needs parentheses.
      val least = if (priority == Phrase) Phrase + 1 else priority
      Item(priority, left.atLeast(priority) ++ operator ++ right.atLeast(least)) :: rest
    case _ => throw malformed
  }
}

/** Prints a word of a tsvector or tsquery, a text that ends with a 0, as `'it''s'`. */
final class Lexeme(typeName: String, encoding: TextEncoding) {
  private val decoder = new EncodedText(encoding)
  private val text = new TextBuffer

  def print(binary: BinaryReader, out: TextBuffer): Unit = {
    val from = binary.position
    var size = 0
    while (size < binary.left && binary.bytes(from + size) != 0) size += 1
    if (size == binary.left) throw InvalidValue.malformed(typeName)
    binary.take(size + 1)
    text.clear()
    decoder.print(binary.bytes, from, from + size, text)
    out.quoted(text.bytes, 0, text.size, quote = '\'', escape = '\'')
  }
}
