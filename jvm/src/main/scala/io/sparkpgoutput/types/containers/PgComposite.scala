package io.sparkpgoutput.types.containers

import scala.collection.mutable

import org.apache.spark.sql.types.{DataType, StructType}

import io.sparkpgoutput.types._

/**
 * Composite types: STRING by default, or a STRUCT with the fields by position. The STRUCT says how text
 * is read, and a text that is not exactly a value of the STRUCT's type is refused. Binary values name the
 * types of their fields.
 *
 * Text: `(1,"a b",)`. Binary: int32 number of fields; for each field uint32 oid of its type, int32
 * length, which is -1 for NULL, and value.
 *
 * @see `record_out`, `record_send`
 */
final class PgComposite(types: TypeLookup) extends PgType("composite") {
  override def conversion(target: DataType, options: ConversionOptions): Option[Conversion] =
    target match {
      case struct: StructType if struct.forall(_.nullable) =>
        val ofText = options.copy(keepsDigits = true)
        val fields = struct.map(field => types.byOid(0).to(field.dataType, ofText))
        if (fields.contains(None)) None
        else Some(new CompositeConversion(struct, fields.flatten.toArray, options))
      case _ => None
    }

  override def printer(options: ConversionOptions): Printer = {
    val printers = mutable.LongMap.empty[Printer]
    val text = new TextBuffer
    val special = Ascii.set("\"\\()," + Ascii.Spaces)

    def newPrinter(oid: Long): Printer = {
      val pgType = types.partByOid(oid)
      val found = pgType.printer(options)
      // Unknown types are not kept, because the bytes can name any number of them.
      if (pgType.isKnown) printers(oid) = found
      found
    }

    Printer.of(name) { (reader, out) =>
      val fields = reader.count(8)
      out.add('(')
      out.list(fields, ',') {
        val oid = reader.uint32()
        val at = reader.part()
        if (at != -1) {
          text.clear()
          printers.getOrElse(oid, newPrinter(oid)).print(reader.bytes, at, reader.position, text)
          out.quotedIfNeeded(text, special, escape = '"')
        }
      }
      out.add(')')
    }
  }

  final private class CompositeConversion(
      struct: StructType,
      textFields: Array[Conversion],
      options: ConversionOptions
  ) extends Conversion {
    private val field = new TextPart(name, endings = ",)", special = "(", doubled = true)
    private val reader = new BinaryReader(name)
    private val binaryFields = new Array[Conversion](struct.length)
    private val binaryOids = new Array[Long](struct.length)

    override def fromText(bytes: Array[Byte], from: Int, to: Int, out: ValueWriter): Unit = {
      if (from >= to || bytes(from) != '(') throw malformed
      val start = out.writer.cursor
      val slots = out.openStruct()
      var at = from
      var ordinal = 0
      if (struct.isEmpty) at += 1
      else
        do {
          if (ordinal == struct.length) throw otherLength(s"more than $ordinal")
          at = field.read(bytes, at + 1, to)
          field.write(textFields(ordinal), slots(ordinal))
          ordinal += 1
        } while (bytes(at) == ',')
      if (ordinal < struct.length) throw otherLength(ordinal.toString)
      if (at != to - 1 || bytes(at) != ')') throw malformed
      out.close(start)
    }

    override def fromBinary(bytes: Array[Byte], from: Int, to: Int, out: ValueWriter): Unit = {
      reader.start(bytes, from, to)
      val fields = reader.count(8)
      if (fields != struct.length) throw otherLength(fields.toString)
      val start = out.writer.cursor
      val slots = out.openStruct()
      var ordinal = 0
      while (ordinal < fields) {
        val oid = reader.uint32()
        val at = reader.part()
        if (at == -1) slots(ordinal).setNull()
        else binaryField(ordinal, oid).fromBinary(bytes, at, reader.position, slots(ordinal))
        ordinal += 1
      }
      reader.finish()
      out.close(start)
    }

    private def binaryField(ordinal: Int, oid: Long): Conversion = {
      if (binaryFields(ordinal) == null || binaryOids(ordinal) != oid) {
        val target = struct(ordinal).dataType
        val pgType = types.byOid(oid)
        binaryFields(ordinal) = pgType
          .to(target, options)
          .getOrElse(
            throw new InvalidValue(
              s"has type $pgType in field ${ordinal + 1}, which cannot be read as ${target.sql}",
              s"use ${pgType.sparkType(-1).sql} there"
            )
          )
        binaryOids(ordinal) = oid
      }
      binaryFields(ordinal)
    }

    private def otherLength(fields: String) =
      new InvalidValue(s"has $fields fields, the STRUCT has ${struct.length}", "use STRING")
  }
}
