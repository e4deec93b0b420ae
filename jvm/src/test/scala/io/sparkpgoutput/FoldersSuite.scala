package io.sparkpgoutput

import java.nio.file.{Files, Path, Paths}

import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.SourceFiles.under

/**
 * The rules for the folders of the sources. The folders follow the data: protocol, decode, types, rows,
 * changes, source, lake. `TypeFoldersSuite` has the rules for the folders in `types`.
 */
class FoldersSuite extends AnyFunSuite {
  private val Sources = Paths.get("jvm/src/main/scala/io/sparkpgoutput")

  /** The folders that a folder may import from, in addition to itself. */
  private val allowed: Map[String, Set[String]] = Map(
    "errors" -> Set(),
    "protocol" -> Set("errors"),
    "decode" -> Set("errors", "protocol"),
    "types" -> Set("protocol"),
    "rows" -> Set("errors", "protocol", "decode", "types", "types.registry"),
    "options" -> Set("protocol", "types", "types.registry"),
    "sql" -> Set("errors", "options"),
    "decode.sql" -> Set("errors", "protocol", "decode", "options", "sql"),
    "rows.sql" -> Set("protocol", "decode", "decode.sql", "types", "rows", "options", "sql"),
    "changes" -> Set("errors", "protocol", "decode"),
    "changes.transactions" -> Set("errors", "protocol", "decode", "changes"),
    "changes.rows" -> Set(
      "errors",
      "protocol",
      "decode",
      "types",
      "types.containers",
      "types.registry",
      "rows",
      "changes",
      "changes.transactions"
    ),
    "changes.batch" -> Set("errors", "protocol", "changes", "changes.transactions", "changes.rows"),
    "changes.streaming" ->
      Set("errors", "protocol", "changes", "changes.transactions", "changes.rows"),
    "changes.sql" -> Set(
      "errors",
      "protocol",
      "rows",
      "types.registry",
      "options",
      "sql",
      "changes",
      "changes.transactions",
      "changes.rows",
      "changes.batch",
      "changes.streaming"
    ),
    "source" -> Set(),
    "source.connection" -> Set("errors", "protocol", "source"),
    "source.slot" -> Set("errors", "protocol", "source", "source.connection"),
    "source.table" -> Set(
      "errors",
      "protocol",
      "types",
      "types.registry",
      "changes",
      "source",
      "source.connection",
      "source.slot"
    ),
    "source.output" -> Set(
      "errors",
      "protocol",
      "changes.transactions",
      "changes.rows",
      "changes.batch"
    ),
    "source.session" ->
      Set("errors", "protocol", "source", "source.connection", "source.slot", "source.output"),
    "source.reader" -> Set("errors", "protocol", "source.output", "source.session"),
    "source.stream" -> Set(
      "errors",
      "options",
      "protocol",
      "changes",
      "changes.rows",
      "changes.sql",
      "source",
      "source.connection",
      "source.slot",
      "source.output",
      "source.session",
      "source.reader"
    ),
    "source.sql" -> Set(
      "errors",
      "changes",
      "changes.rows",
      "source.output",
      "source.table",
      "source.reader",
      "source.stream"
    ),
    "lake.catalog" -> Set(
      "errors",
      "changes",
      "changes.rows",
      "types",
      "types.registry",
      "source",
      "source.connection",
      "source.slot",
      "source.table"
    ),
    "lake.core" ->
      Set(
        "errors",
        "protocol",
        "types",
        "types.registry",
        "changes",
        "source.slot",
        "lake.catalog"
      ),
    "lake.folder" ->
      Set("errors", "protocol", "changes", "types.registry", "lake.catalog", "lake.core"),
    "lake.queue" -> Set(
      "errors",
      "protocol",
      "changes",
      "changes.transactions",
      "changes.rows",
      "source.connection",
      "source.slot",
      "source.session",
      "lake.catalog",
      "lake.core"
    ),
    "lake.route" -> Set(
      "errors",
      "protocol",
      "rows",
      "changes",
      "changes.transactions",
      "changes.rows",
      "lake.catalog"
    ),
    "lake.fold" -> Set(
      "errors",
      "protocol",
      "types",
      "types.registry",
      "rows",
      "changes",
      "changes.transactions",
      "changes.rows",
      "lake.catalog",
      "lake.route"
    ),
    "lake.direct" -> Set(),
    "lake.target" ->
      Set(
        "errors",
        "protocol",
        "changes",
        "lake.catalog",
        "lake.core",
        "lake.direct",
        "lake.folder"
      ),
    "lake.apply" -> Set(
      "errors",
      "types",
      "changes",
      "lake.catalog",
      "lake.core",
      "lake.direct",
      "lake.target",
      "lake.route",
      "lake.fold",
      "lake.queue"
    ),
    "lake.copy" -> Set(
      "errors",
      "protocol",
      "types",
      "rows",
      "changes",
      "changes.rows",
      "source.connection",
      "source.slot",
      "source.table",
      "lake.catalog"
    ),
    "lake.verify" -> Set("protocol", "lake.core", "lake.target", "lake.copy"),
    "lake.job" -> Set(
      "errors",
      "protocol",
      "types",
      "options",
      "changes",
      "source",
      "source.connection",
      "source.slot",
      "source.session",
      "lake.catalog",
      "lake.core",
      "lake.direct",
      "lake.folder",
      "lake.queue",
      "lake.apply",
      "lake.target",
      "lake.copy",
      "lake.verify"
    ),
    "optimizer" -> Set("protocol", "decode", "decode.sql", "rows", "rows.sql", "changes.sql"),
    "" -> Set(
      "options",
      "sql",
      "decode.sql",
      "rows.sql",
      "changes.sql",
      "optimizer",
      "source.sql",
      "source.stream"
    )
  )

  /** The sources that use private parts of Spark. They must be in a package of Spark. */
  private val InSpark = Paths.get("jvm/src/main/scala/org/apache/spark/sql/pgoutput")

  private val files: Seq[Path] = sources(Sources)

  private def sources(folder: Path): Seq[Path] = under(folder, ".scala")

  private def folder(file: Path): String =
    Sources.relativize(file.getParent).toString.replace('/', '.')

  private def isOfTypes(folder: String) = folder.startsWith("types.")

  /** The folders of this project that a file imports from. */
  private def imports(file: Path): Set[String] =
    """import io\.sparkpgoutput\.((?:[a-z]+\.)*)[A-Z_{]""".r
      .findAllMatchIn(Files.readString(file))
      .map(_.group(1).stripSuffix("."))
      .toSet

  test("every folder has a rule") {
    assert(files.map(folder).filterNot(isOfTypes).toSet == allowed.keySet)
  }

  test("the tables in docs/architecture.md have all folders of source and of lake") {
    val page = Files.readString(Paths.get("docs/architecture.md"))
    val titles = Seq("source" -> "From a slot to a stream", "lake" -> "From a slot to tables")
    titles.foreach { case (stage, title) =>
      val section = page.split(s"\n## $title\n")(1).split("\n## ")(0)
      val described = """(?m)^\| (`[^|]*`) \|""".r.findAllMatchIn(section).flatMap { row =>
        "[a-z]+".r.findAllIn(row.group(1))
      }
      val prefix = s"$stage."
      val folders = allowed.keySet.filter(_.startsWith(prefix)).map(_.stripPrefix(prefix))
      assert(described.toSet == folders, title)
    }
  }

  test("no folder has more than 22 files") {
    files.groupBy(folder).foreach { case (name, inside) => assert(inside.size <= 22, name) }
  }

  test("a folder imports only from those that its rule names") {
    files.filterNot(file => isOfTypes(folder(file))).foreach { file =>
      val others = imports(file) - folder(file) -- allowed(folder(file))
      assert(others.isEmpty, file)
    }
  }

  test("the sources in a package of Spark import from none of these folders") {
    sources(InSpark).foreach(file => assert(imports(file) == Set.empty, file))
  }

  /** The types that begin after an indent: each name with each file that has it. */
  private def types(all: Seq[Path], indent: String): Seq[(String, Path)] = {
    val defined = s"(?m)^$indent(?:[a-z]+(?:\\[\\w+\\])? )*(?:class|trait|object|type) (\\w+)".r
    all.flatMap { file =>
      defined.findAllMatchIn(Files.readString(file)).map(_.group(1) -> file).toSeq.distinct
    }
  }

  test("no two files have a type of one name, also inside other types") {
    val main = types(files ++ sources(InSpark), indent = " *")
    val twice = main.groupMap(_._1)(_._2).filter(_._2.size > 1)
    assert(twice == Map.empty)
    val names = main.map(_._1).toSet
    val inTests = types(sources(Paths.get("jvm/src/test/scala")), indent = "")
    assert(inTests.filter { case (name, _) => names(name) } == Seq.empty)
  }

  /** Phrases that readers have to read twice, each with a better one. */
  private val dialect: Map[String, String] = Map(
    """anew""" -> "again",
    """of (?:before|now|then)""" -> "earlier, current, at that time",
    """told|tells? (?:if|whether|which|why|nothing|(?:\w+ )?apart)""" ->
      "says whether, reports, distinguishes",
    """(?:gives?|gave|giving) way""" -> "releases its locks",
    """meanwhile|by now""" -> "during this time, now",
    """the one before""" -> "the previous one",
    """at the most""" -> "at most",
    """(?:hands?|handed) on""" -> "passes on",
    """mends?|mended""" -> "corrects",
    """what (?:came|became|becomes) of""" -> "the result of",
    """(?:stands?|stood) (?:in|at|behind|between|outside|still)""" -> "is in, is at, comes after",
    """nobody need take""" -> "the caller may ignore",
    """(?<!there )(?:is|are|was|were|be) no (?!longer|more)""" -> "is not a",
    """for people""" -> "human-readable"
  )

  /** A file with blanks for line breaks, the marks of comments, parts of a text, and parts of a Python name. */
  private def words(file: Path): String =
    Files.readString(file).replaceAll("""[\s_]+(?:\*|//|#|--)?[\s"+]*""", " ")

  test("sources, errors, tests and pages have plain words") {
    val folders = Seq("jvm/src", "python", "tests", "benchmarks", "examples", "docs")
    val code = Seq(".scala", ".py", ".json", ".sql", ".yaml", ".md")
    val beside = Seq("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "Makefile", "build.sbt")
    val all = folders.map(Paths.get(_)).flatMap(under(_, code: _*)) ++ beside.map(Paths.get(_))
    val itself = Paths.get("jvm/src/test/scala/io/sparkpgoutput/FoldersSuite.scala")
    def pattern(phrase: String) = s"(?i)\\b(?:$phrase)\\b".r
    val any = pattern(dialect.keys.mkString("|"))
    val patterns = dialect.map { case (phrase, better) => pattern(phrase) -> better }
    val bad = for {
      file <- all if file != itself
      text = words(file) if any.findFirstIn(text).nonEmpty
      (pattern, better) <- patterns
      found <- pattern.findFirstIn(text)
    } yield s"$file: '$found': write $better"
    assert(bad == Seq.empty)
  }

  test("the rules have no circle") {
    val rules = allowed.view.mapValues(_.filterNot(isOfTypes)).toMap
    // Each step removes the folders that import from none of the remaining folders. At the end, none is left.
    val left = Iterator
      .iterate(rules)(rules => rules.filter(_._2.exists(rules.contains)))
      .drop(rules.size)
      .next()
    assert(left.keySet == Set.empty)
  }

  test("only the SQL folders and the optimizer know Spark's expressions and plans") {
    val plans = """import org\.apache\.spark\.sql\.catalyst\.(?:plans|analysis|optimizer)\b""".r
    files.filterNot { file =>
      val name = folder(file)
      name.isEmpty || name == "optimizer" || name == "sql" || name.endsWith(".sql")
    }.foreach { file =>
      val source = Files.readString(file)
      assert(plans.findFirstIn(source).isEmpty, file)
      assert(!source.linesIterator.exists(_.matches(".*(: |\\[)Expression\\b.*")), file)
    }
  }
}
