package io.sparkpgoutput.types.containers

import org.apache.spark.sql.types.{BooleanType, DataType, StructType}

import io.sparkpgoutput.types._

/**
 * Ranges: STRING by default, or a STRUCT of lower, upper, lower_inclusive, upper_inclusive and empty.
 * In a STRUCT, a missing bound is NULL and not inclusive, and an empty range has no bounds. If the option
 * infinity makes a bound NULL, the bound is inclusive if the server says so.
 *
 * Text: `[1,5)`, `(,5]`, `empty`. Binary: uint8 flags (1 empty, 2 lower inclusive, 4 upper inclusive,
 * 8 no lower bound, 16 no upper bound); for each bound int32 length and value.
 *
 * @see `range_out`, `range_send`
 */
final class PgRange(name: String, subtype: PgType) extends PgType(name) {
  import PgRange._

  override def conversion(target: DataType, options: ConversionOptions): Option[Conversion] =
    target match {
      case struct: StructType if isRange(struct) =>
        for {
          lower <- subtype.to(struct(Lower).dataType, options)
          upper <- subtype.to(struct(Upper).dataType, options)
        } yield new RangeConversion(lower, upper)
      case _ => None
    }

  override def printer(options: ConversionOptions): Printer = {
    val bound = subtype.printer(options)
    val text = new TextBuffer
    val special = Ascii.set("\"\\()[]," + Ascii.Spaces)

    def printBound(reader: BinaryReader, out: TextBuffer): Unit = {
      text.clear()
      reader.print(bound, text)
      out.quotedIfNeeded(text, special, escape = '"')
    }

    Printer.of(name) { (reader, out) =>
      val flags = readFlags(reader)
      if ((flags & EmptyFlag) != 0) out.add("empty")
      else {
        out.add(if ((flags & LowerInclusiveFlag) != 0) '[' else '(')
        if ((flags & NoLowerFlag) == 0) printBound(reader, out)
        out.add(',')
        if ((flags & NoUpperFlag) == 0) printBound(reader, out)
        out.add(if ((flags & UpperInclusiveFlag) != 0) ']' else ')')
      }
    }
  }

  final private class RangeConversion(lower: Conversion, upper: Conversion) extends Conversion {
    private val bound = new TextPart(name, endings = ",])", special = "(", doubled = true)
    private val reader = new BinaryReader(name)

    override def fromText(bytes: Array[Byte], from: Int, to: Int, out: ValueWriter): Unit = {
      val start = out.writer.cursor
      val slots = out.openStruct()
      if (Ascii.equal(bytes, from, to, "empty")) writeEmpty(slots)
      else {
        if (to - from < 3 || bytes(from) != '[' && bytes(from) != '(') throw malformed
        val comma = bound.read(bytes, from + 1, to)
        bound.write(lower, slots(Lower))
        if (bytes(comma) != ',') throw malformed
        slots(LowerInclusive).write(bytes(from) == '[' && !bound.isMissing)
        val last = bound.read(bytes, comma + 1, to)
        bound.write(upper, slots(Upper))
        if (bytes(last) == ',' || last != to - 1) throw malformed
        slots(UpperInclusive).write(bytes(last) == ']' && !bound.isMissing)
        slots(Empty).write(false)
      }
      out.close(start)
    }

    override def fromBinary(bytes: Array[Byte], from: Int, to: Int, out: ValueWriter): Unit = {
      reader.start(bytes, from, to)
      val start = out.writer.cursor
      val slots = out.openStruct()
      val flags = readFlags(reader)
      readBound(flags, NoLowerFlag, lower, slots(Lower))
      readBound(flags, NoUpperFlag, upper, slots(Upper))
      slots(LowerInclusive).write((flags & LowerInclusiveFlag) != 0)
      slots(UpperInclusive).write((flags & UpperInclusiveFlag) != 0)
      slots(Empty).write((flags & EmptyFlag) != 0)
      reader.finish()
      out.close(start)
    }

    private def readBound(flags: Int, missing: Int, to: Conversion, slot: ValueWriter): Unit =
      if ((flags & missing) != 0) slot.setNull()
      else {
        val at = reader.take(reader.int32())
        to.fromBinary(reader.bytes, at, reader.position, slot)
      }

    private def writeEmpty(slots: Array[ValueWriter]): Unit = {
      slots(Lower).setNull()
      slots(Upper).setNull()
      slots(LowerInclusive).write(false)
      slots(UpperInclusive).write(false)
      slots(Empty).write(true)
    }
  }

  /** Reads the flags. A missing bound cannot be inclusive, and an empty range has no bounds. */
  private def readFlags(reader: BinaryReader): Int = {
    val flags = reader.uint8()
    val contradict =
      (flags & NoLowerFlag) != 0 && (flags & LowerInclusiveFlag) != 0 ||
        (flags & NoUpperFlag) != 0 && (flags & UpperInclusiveFlag) != 0
    if ((flags & ~AllFlags) != 0 || contradict) throw malformed
    if ((flags & EmptyFlag) != 0) EmptyFlag | NoLowerFlag | NoUpperFlag else flags
  }
}

object PgRange {
  final private val Lower = 0
  final private val Upper = 1
  final private val LowerInclusive = 2
  final private val UpperInclusive = 3
  final private val Empty = 4

  // The flags of binary ranges: `src/include/utils/rangetypes.h`.
  final private val EmptyFlag = 1
  final private val LowerInclusiveFlag = 2
  final private val UpperInclusiveFlag = 4
  final private val NoLowerFlag = 8
  final private val NoUpperFlag = 16
  final private val AllFlags = 31

  private val names = Seq("lower", "upper", "lower_inclusive", "upper_inclusive", "empty")

  /** Returns whether a struct has the members of a range, in this order. */
  def isRange(struct: StructType): Boolean =
    struct.length == names.length &&
      struct.fieldNames.zip(names).forall { case (a, b) => a.equalsIgnoreCase(b) } &&
      struct.take(LowerInclusive).forall(_.nullable) &&
      struct.drop(LowerInclusive).forall(_.dataType == BooleanType)
}

/**
 * Multiranges: STRING, such as `{[1,3),[5,8)}`. Binary: int32 number of ranges; for each range int32
 * length and value.
 *
 * @see `multirange_out`, `multirange_send`
 */
final class PgMultirange(name: String, range: PgType) extends PgType(name) {
  override def printer(options: ConversionOptions): Printer = {
    val printer = range.printer(options)
    Printer.of(name) { (reader, out) =>
      val ranges = reader.count(5)
      out.add('{')
      out.list(ranges, ',')(reader.print(printer, out))
      out.add('}')
    }
  }
}
