package io.sparkpgoutput.changes.rows

import java.nio.charset.StandardCharsets

import io.sparkpgoutput.changes.ChangesError
import io.sparkpgoutput.types.containers.{KeyValueBuffer, StringMapWriter}
import io.sparkpgoutput.types.{InvalidValue, ValueWriter}

/**
 * Writes a table's columns as a map of their names to PostgreSQL's text. A NULL is a key with a NULL
 * value. A column that the message does not carry has no key.
 */
final class MapWriter(relation: Relation, format: ChangeFormat, writer: ValueWriter)
    extends TableWriter(relation) {
  private val names = relation.columns.map(_.name.getBytes(StandardCharsets.UTF_8)).toArray
  private val printers =
    relation.columns.map(column =>
      format.types.byOid(column.typeId).printer(format.options)
    ).toArray
  private val pairs = new KeyValueBuffer
  private val map = new StringMapWriter

  override def writeNulls(): Unit = writer.setNull()

  override protected def begin(): Unit = pairs.clear()

  override protected def write(column: Int, kind: Int, tuple: RowImage, position: Long): Unit = {
    pairs.keys.add(names(column), 0, names(column).length)
    val isNull = kind == 'n' || !addText(column, kind, tuple, position)
    pairs.addPair(isNull)
  }

  /** Adds the text of a value. Returns false if the value is not valid. */
  private def addText(column: Int, kind: Int, tuple: RowImage, position: Long): Boolean = {
    val cells = tuple.cells
    if (kind == 't') {
      pairs.values.add(cells.bytes, cells.from, cells.to)
      true
    } else
      try {
        printers(column).print(cells.bytes, cells.from, cells.to, pairs.values)
        true
      } catch {
        case _: InvalidValue if !format.failFast => false
        case invalid: InvalidValue =>
          val name = relation.columns(column).name
          throw ChangesError.invalid(invalid, name, relation.name, position)
      }
  }

  override protected def end(position: Long): Unit = map.write(pairs, writer)
}
