package io.sparkpgoutput

import java.util.Locale

/** Runs a body with another default locale. */
object InLocale {
  def apply[T](tag: String)(body: => T): T = {
    val here = Locale.getDefault
    Locale.setDefault(Locale.forLanguageTag(tag))
    try body
    finally Locale.setDefault(here)
  }
}
