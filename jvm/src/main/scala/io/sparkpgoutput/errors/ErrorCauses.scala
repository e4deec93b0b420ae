package io.sparkpgoutput.errors

/** The causes of an error, of which one can be what the caller looks for. */
object ErrorCauses {

  // Causes can form a circle.
  final private val Most = 20

  /** Returns an error and its causes, the outermost first. */
  def of(error: Throwable): Iterator[Throwable] =
    Iterator.iterate(error)(_.getCause).takeWhile(_ != null).take(Most)
}
