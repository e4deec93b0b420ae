package io.sparkpgoutput.lake.fold

import io.sparkpgoutput.changes.rows.RowImage
import io.sparkpgoutput.lake.batch.{ChangeTuples, KeyBytes}

/** Reads the cells of row images. Not thread-safe. */
final class ImageReader(format: FoldFormat) {
  private val tuples = new ChangeTuples
  private val cells = new RowImage
  private val isIdentity: Array[Array[Boolean]] =
    format.definitions.map(_.relation.columns.map(_.isKey).toArray).toArray
  private val ordinals: Array[Array[Int]] = format.definitions.map(_.ordinals.toArray).toArray

  /** Starts with the cells of an image, from the first column on. */
  def start(image: Image): RowImage = {
    tuples.start(image.bytes, image.from)
    if (image.isOld) tuples.readOld(isIdentity(image.definition), cells)
    else tuples.readNew(isIdentity(image.definition), cells)
    cells
  }

  /** Tells for each column of the target if the image has its value. */
  def sent(image: Image): Array[Boolean] = {
    val found = new Array[Boolean](format.schema.length)
    if (image.isWhole) java.util.Arrays.fill(found, true)
    else {
      val row = start(image)
      val targets = ordinals(image.definition)
      targets.indices.foreach { column =>
        val isSent = row.goTo(column) != RowImage.Missing
        if (targets(column) >= 0) found(targets(column)) = isSent
      }
    }
    found
  }

  /** The bytes of all values of an image, which are equal if the rows are. */
  def values(image: Image): KeyBytes = {
    val row = start(image)
    val found = new KeyBytes
    ordinals(image.definition).indices.foreach { column =>
      if (row.goTo(column) == 't') found.add(row.cells.bytes, row.cells.from, row.cells.to)
      else found.addNull()
    }
    found
  }
}
