package io.sparkpgoutput.source

/**
 * The names of publications in an option, with commas between them. A name keeps its case. A name
 * with a comma, a double quote or a space is in double quotes, and a double quote in it is doubled, as in SQL.
 */
object PublicationNames {

  /** What an error and the documentation say of the option's values. */
  final val Values = "names such as shop or \"a,b\", with commas between them"

  // The quantifiers are possessive, so that a long list does not take a deep stack.
  private val Name = """\s*(?:"((?:[^"]|"")++)"|([^\s",]+))\s*""".r
  private val Names = s"$Name(?:,$Name)*+".r

  /** Reads names. None if the text is not a list of them, or if one comes twice. */
  def parse(list: String): Option[Seq[String]] = {
    val names = Name.findAllMatchIn(list).map { found =>
      Option(found.group(1)).fold(found.group(2))(_.replace("\"\"", "\""))
    }.toSeq
    Option.when(Names.matches(list) && names.distinct == names)(names)
  }

  /** Writes a name for a user, in quotes only if it needs them. */
  def one(name: String): String = if (parse(name).contains(Seq(name))) name else format(Seq(name))

  /** Writes names so that [[parse]] reads them. */
  def format(names: Seq[String]): String =
    names.map(SqlIdentifier.quoted).mkString(",")
}
