package io.sparkpgoutput.types

import java.nio.file.{Files, Path, Paths}

import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.SourceFiles.under

/** The rules for the folders of types, which prevent circles. */
class TypeFoldersSuite extends AnyFunSuite {
  private val Sources = Paths.get("jvm/src/main/scala/io/sparkpgoutput")

  /** The folders that each folder of types may import from, in addition to itself and `protocol`. */
  private val allowed: Map[String, Set[String]] = Map(
    "types" -> Set.empty[String],
    "types.numbers" -> Set("types"),
    "types.datetime" -> Set("types", "types.numbers"),
    "types.families" -> Set("types", "types.numbers"),
    "types.containers" -> Set("types", "types.numbers"),
    "types.registry" -> Set(
      "types",
      "types.numbers",
      "types.datetime",
      "types.families",
      "types.containers"
    )
  )

  private def files(folder: Path): Seq[Path] = under(folder, ".scala")

  private def folder(file: Path): String =
    Sources.relativize(file.getParent).toString.replace('/', '.')

  /** The folders of this project that a file imports from. */
  private def imports(file: Path): Set[String] =
    """import io\.sparkpgoutput\.((?:[a-z]+\.)*[a-z]+)\.[A-Z_{]""".r
      .findAllMatchIn(Files.readString(file))
      .map(_.group(1))
      .toSet

  test("a folder of types imports only from those that its rule names") {
    val sources = files(Sources.resolve("types"))
    assert(sources.exists(imports(_).nonEmpty))
    sources.foreach { file =>
      val others = imports(file) -- Seq(folder(file), "protocol") -- allowed(folder(file))
      assert(others.isEmpty, file)
    }
  }

  test("only options, rows, changes, source and lake know the registry of types") {
    val users = files(Sources).filter(imports(_).contains("types.registry")).map(folder).toSet
    assert(users.nonEmpty)
    assert(users.map(_.takeWhile(_ != '.')) -- Set(
      "options",
      "rows",
      "changes",
      "source",
      "lake"
    ) == Set.empty)
  }

  test("no files of types refer to each other in a circle") {
    val sources = files(Sources.resolve("types"))
    val definition =
      """(?m)^(?:(?:final|sealed|abstract|private|case) )*(?:class|object|trait) (\w+)""".r
    val names = """(?<![.\w])[A-Z]\w*""".r
    def code(file: Path) =
      Files.readString(file).replaceAll("(?s)/\\*.*?\\*/", "").replaceAll("//.*|\"[^\"\n$]*\"", "")
    val definedIn = sources.flatMap { file =>
      definition.findAllMatchIn(code(file)).map(_.group(1) -> file)
    }.toMap
    val uses = sources.map { file =>
      file -> (names.findAllIn(code(file)).flatMap(definedIn.get).toSet - file)
    }.toMap
    assert(uses.values.exists(_.nonEmpty))
    // Each step removes the files that use none of the remaining files. At the end, none is left, unless
    // there is a circle.
    val circles = Iterator
      .iterate(uses)(left => left.filter(_._2.exists(left.contains)))
      .sliding(2)
      .collectFirst { case Seq(before, after) if before.size == after.size => after.keySet }
    assert(circles.contains(Set.empty))
  }
}
