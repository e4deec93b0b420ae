package io.sparkpgoutput

import java.util.Locale

/** Runs something on a machine somewhere else. */
object InLocale {
  def apply[T](tag: String)(body: => T): T = {
    val here = Locale.getDefault
    Locale.setDefault(Locale.forLanguageTag(tag))
    try body
    finally Locale.setDefault(here)
  }
}
