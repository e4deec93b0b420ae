package io.sparkpgoutput.source

import scala.annotation.tailrec

/**
 * The names of publications in an option, with commas between them. A name keeps its case. A name
 * with a comma, a double quote or a space is in double quotes, and a double quote in it is doubled, as in SQL.
 */
object PublicationNames {

  /** What an error and the documentation say of the option's values. */
  final val Values = "names such as shop or \"a,b\", with commas between them"

  private val Name = """\s*(?:"((?:[^"]|"")+)"|([^\s",]+))\s*""".r

  /** Reads names. None if the text is not a list of them, or if one comes twice. */
  def parse(list: String): Option[Seq[String]] =
    parts(list).filter(names => names.distinct == names)

  private def parts(list: String): Option[Seq[String]] = {
    val found = Name.pattern.matcher(list)
    @tailrec def add(from: Int, names: Vector[String]): Option[Seq[String]] =
      if (!found.region(from, list.length).lookingAt()) None
      else {
        val name = Option(found.group(1)).fold(found.group(2))(_.replace("\"\"", "\""))
        if (found.end == list.length) Some(names :+ name)
        else if (list.charAt(found.end) == ',') add(found.end + 1, names :+ name)
        else None
      }
    add(0, Vector.empty)
  }

  /** Writes names so that [[parse]] reads them. */
  def format(names: Seq[String]): String =
    names.map(name => "\"" + name.replace("\"", "\"\"") + "\"").mkString(",")
}
