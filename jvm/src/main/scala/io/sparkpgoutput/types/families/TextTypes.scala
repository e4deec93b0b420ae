package io.sparkpgoutput.types.families

import java.util.Arrays

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
        val text = lexeme.read(binary)
        out.add(text.bytes, 0, text.size)
        printPositions(binary, out)
      }
    }
  }

  private def printPositions(binary: BinaryReader, out: TextBuffer): Unit = {
    val count = binary.uint16()
    if (count > 0) out.add(':')
    out.list(count, ',') {
      val position = binary.uint16()
      out.number(position & 0x3fffL)
      position >> 14 match {
        case 3 => out.add('A')
        case 2 => out.add('B')
        case 1 => out.add('C')
        case _ => // a server does not print D
      }
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
  override def printer(options: ConversionOptions): Printer = new TsQueryPrinter(options.encoding)
}

/**
 * Prints the items in their order, from the right end of the text to the left: the first item is last
 * in the text. A stack has an Int for each operator that is not yet complete, so that no nesting is
 * too deep.
 */
final private class TsQueryPrinter(encoding: TextEncoding) extends Printer {
  import TsQueryPrinter._

  private val binary = new BinaryReader(PgTsQuery.name)
  private val lexeme = new Lexeme(PgTsQuery.name, encoding)
  private val part = new TextBuffer
  private val backwards = new TextBuffer
  private var operators = new Array[Int](16)
  private var depth = 0

  // The priority of the next operand's operator, and whether it is the right operand of a PHRASE.
  private var priority = 0
  private var rightOfPhrase = false

  override def print(bytes: Array[Byte], from: Int, to: Int, out: TextBuffer): Unit = {
    binary.start(bytes, from, to)
    backwards.clear()
    depth = 0
    priority = 0
    rightOfPhrase = false
    var left = binary.count(leastBytes = 2)
    var complete = left == 0
    while (left > 0) {
      if (complete) throw malformed
      binary.uint8() match {
        case 1 =>
          operand()
          complete = !nextOperand()
        case 2 => operator()
        case _ => throw malformed
      }
      left -= 1
    }
    if (!complete) throw malformed
    binary.finish()
    var at = backwards.size
    while (at > 0) {
      at -= 1
      out.add(backwards.bytes(at).toInt)
    }
  }

  private def operand(): Unit = {
    val weights = binary.uint8()
    val isPrefix = binary.uint8() != 0
    if (weights > 15) throw malformed
    part.clear()
    val text = lexeme.read(binary)
    part.add(text.bytes, 0, text.size)
    if (isPrefix || weights != 0) part.add(':')
    if (isPrefix) part.add('*')
    if ((weights & 8) != 0) part.add('A')
    if ((weights & 4) != 0) part.add('B')
    if ((weights & 2) != 0) part.add('C')
    if ((weights & 1) != 0) part.add('D')
    prepend()
  }

  private def operator(): Unit = {
    val kind = binary.uint8()
    if (kind < Not || kind > Phrase) throw malformed
    val distance = if (kind == Phrase) binary.int16() else 0
    val own = Priorities(kind)
    val inParentheses = own < priority || kind == Phrase && rightOfPhrase
    if (inParentheses) prepend(" )")
    push(distance << 16 | (if (inParentheses) Parentheses else 0) | kind)
    priority = own
    rightOfPhrase = kind == Phrase
  }

  /** Goes on to the next operand. Returns false if the query is complete. */
  private def nextOperand(): Boolean = {
    var found = false
    while (!found && depth > 0) {
      val operator = operators(depth - 1)
      val kind = operator & Kind
      if (kind != Not && (operator & OnTheLeft) == 0) {
        prependOperator(kind, operator >> 16)
        operators(depth - 1) = operator | OnTheLeft
        priority = Priorities(kind)
        rightOfPhrase = false
        found = true
      } else {
        if (kind == Not) prepend("!")
        if ((operator & Parentheses) != 0) prepend("( ")
        depth -= 1
      }
    }
    found
  }

  private def prependOperator(kind: Int, distance: Int): Unit = kind match {
    case And                     => prepend(" & ")
    case Or                      => prepend(" | ")
    case Phrase if distance == 1 => prepend(" <-> ")
    case Phrase                  => prepend(s" <$distance> ")
  }

  private def push(operator: Int): Unit = {
    if (depth == operators.length) operators = Arrays.copyOf(operators, 2 * depth)
    operators(depth) = operator
    depth += 1
  }

  private def prepend(): Unit = {
    var at = part.size
    while (at > 0) {
      at -= 1
      backwards.add(part.bytes(at).toInt)
    }
  }

  private def prepend(text: String): Unit = {
    part.clear()
    part.add(text)
    prepend()
  }

  private def malformed = InvalidValue.malformed(PgTsQuery.name)
}

private object TsQueryPrinter {
  // `src/include/tsearch/ts_type.h`
  final private val Not = 1
  final private val And = 2
  final private val Or = 3
  final private val Phrase = 4

  /** The priorities of the operators: `tsearch_op_priority`. */
  private val Priorities = Array(0, 4, 2, 1, 3)

  // An operator on the stack has its kind, its distance in the upper half, and two flags.
  private val Kind = 7
  private val Parentheses = 8

  /** The operator is printed, and its left operand comes next. */
  private val OnTheLeft = 16
}

/** Reads a word of a tsvector or tsquery: text that ends with a 0, and prints as `'it''s'`. */
final class Lexeme(typeName: String, encoding: TextEncoding) {
  private val decoder = new EncodedText(encoding)
  private val text = new TextBuffer
  private val quoted = new TextBuffer

  /** Reads a word and quotes it. The next word overwrites it. */
  def read(binary: BinaryReader): TextBuffer = {
    val from = binary.position
    var size = 0
    while (size < binary.left && binary.bytes(from + size) != 0) size += 1
    if (size == binary.left) throw InvalidValue.malformed(typeName)
    binary.take(size + 1)
    text.clear()
    decoder.print(binary.bytes, from, from + size, text)
    quoted.clear()
    quoted.quoted(text.bytes, 0, text.size, quote = '\'', escape = '\'')
    quoted
  }
}
