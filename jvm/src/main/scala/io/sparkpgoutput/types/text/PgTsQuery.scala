package io.sparkpgoutput.types.text

import java.util.Arrays

import io.sparkpgoutput.protocol.TextEncoding
import io.sparkpgoutput.types._

/**
 * tsquery. The binary value is an int32, the number of items, and the items. An operator comes before
 * its operands, and the right operand before the left. An operand is a byte 1, the weights (bits 3 to
 * 0: A to D), a byte that tells whether it is a prefix, and a lexeme. An operator is a byte 2 and its
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
    var left = binary.count(LeastBytes)
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
    case Phrase =>
      part.clear()
      part.add(" <")
      part.number(distance.toLong)
      part.add("> ")
      prepend()
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
  private val LeastBytes = 2

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
