package io.sparkpgoutput.errors

import java.nio.file.{Files, Paths}

import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.SourceFiles.under

/** The calls that make an error must match the texts of `error-conditions.json`. */
class ErrorConditionsSuite extends AnyFunSuite {
  private val Main = Paths.get("jvm/src/main/scala")

  /** For each call, the name of its text and the names of its parameters. */
  private val calls: Seq[(String, Set[String])] = under(Main, ".scala").flatMap { file =>
    val text = Files.readString(file)
    "new (?:PgOutput|Source|Lake)Exception\\(".r.findAllMatchIn(text).map { call =>
      val arguments = untilClosed(text.substring(call.end))
      val name = "^\\s*\"(PGOUTPUT_[\\w.]+)\"".r.findFirstMatchIn(arguments)
      assert(name.nonEmpty, s"$file has an error without the name of its text: $arguments")
      name.get.group(1) -> "\"(\\w+)\"\\s*->".r.findAllMatchIn(arguments).map(_.group(1)).toSet
    }
  }

  /** The text before the bracket that closes a call. Brackets in a string do not count. */
  private def untilClosed(text: String): String = {
    var depth = 1
    var isString = false
    text.takeWhile { char =>
      if (char == '"') isString = !isString
      else if (!isString && char == '(') depth += 1
      else if (!isString && char == ')') depth -= 1
      depth > 0
    }
  }

  test("each call has the parameters of its text, and no others") {
    calls.foreach { case (name, parameters) =>
      assert(Errors.templates.get(name).contains(parameters), name)
    }
  }

  test("each text has a call") {
    assert(calls.map(_._1).toSet == Errors.templates.keySet)
  }

  test("code names only conditions that exist") {
    val conditions = Errors.templates.keySet.map(ErrorConditions.condition)
    under(Main, ".scala").foreach { file =>
      val named = "PGOUTPUT_[A-Z_]+".r.findAllIn(Files.readString(file)).toSet
      assert(named.subsetOf(conditions), file)
    }
  }

  test("each condition is expected by a test that raises it") {
    val raising = under(Paths.get("jvm/src/test/scala"), ".scala") ++
      under(Paths.get("tests"), ".py")
    // These suites name conditions, and raise none.
    val own =
      Set("ErrorConditionsSuite.scala", "PgOutputExceptionSuite.scala", "TableFailuresSuite.scala")
    val expectation = """\b(?:assert\b|(?:raised|raises|fails)\().*?(PGOUTPUT_[A-Z_]+)""".r
    val expected = raising.filterNot(file => own(file.getFileName.toString)).flatMap { file =>
      Files.readString(file).linesIterator
        .filterNot(line => line.contains("!=") || line.contains("not in"))
        .flatMap(expectation.findFirstMatchIn(_)).map(_.group(1))
    }.toSet
    assert(Errors.templates.keySet.map(ErrorConditions.condition) -- expected == Set.empty)
  }

  test("a text that says to run resync has the arguments that the command needs") {
    Errors.templates.keys.foreach { name =>
      val text = Errors.lake(name).head.getMessage
      val commands = "spark-pgoutput resync[^.]*".r.findAllIn(text)
      assert(commands.forall(_.matches(".*--(checkpoint|target).*")), text)
    }
  }

  test("each text is one line without double spaces, and has an SQLSTATE") {
    Errors.templates.keys.foreach { name =>
      val error = Errors.lake(name).head
      assert(error.getSqlState.matches("[0-9A-Z]{5}"), name)
      assert(!error.getMessage.contains("  ") && !error.getMessage.contains("\n"), error)
    }
  }
}
