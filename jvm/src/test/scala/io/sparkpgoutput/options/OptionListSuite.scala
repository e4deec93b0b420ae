package io.sparkpgoutput.options

import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.InLocale

class OptionListSuite extends AnyFunSuite {
  private case class Drawing(
      size: Int = 1,
      filled: Boolean = false,
      colors: Map[String, String] = Map()
  )
  private case class Page(drawing: Drawing = Drawing())

  private val list = new OptionList(
    Drawing(),
    Seq(
      OptionSpec.parsed[Drawing, Int]("lineSize", "a number", "1", "How wide lines are.")(
        _.toIntOption
      )((drawing, size) => drawing.copy(size = size)),
      OptionSpec.choice[Drawing, Boolean]("fill", "no", "Whether areas are filled.")(
        "no" -> false,
        "yes | full" -> true
      )((drawing, filled) => drawing.copy(filled = filled)),
      OptionSpec[Drawing]("color.<part>", "names", "black", "The color of a part.")(
        (drawing, entry) =>
          Right(drawing.copy(colors = drawing.colors + (entry.name -> entry.value)))
      )
    )
  )

  test("options are read with their names in any case, in any locale") {
    InLocale("tr") {
      assert(list.parse(Nil) == Right(Drawing()))
      assert(list.parse(Seq("LINESIZE" -> "3", "Fill" -> "NO")) == Right(Drawing(3)))
      assert(list.parse(Seq("fILL" -> "Yes | Full")) == Right(Drawing(filled = true)))
    }
  }

  test("a name with a placeholder stands for all names that have its prefix") {
    val colors = Map("color.a" -> "red", "COLOR.b" -> "blue", "color.A" -> "green")
    assert(list.parse(colors.toSeq) == Right(Drawing(colors = colors)))
    assert(list.parse(Seq("color.a" -> "red", "COLOR.a" -> "blue")).isLeft)
    assert(list.parse(Seq("color" -> "red")).isLeft)
  }

  test("an error names the option and what is valid") {
    Seq(
      Seq("size" -> "1") ->
        "There is no option 'size'. The options are 'lineSize', 'fill', 'color.<part>'.",
      Seq(
        "lineSize" -> "big"
      ) -> "'big' is not valid for the option 'lineSize'. The valid values are: a number.",
      Seq(
        "fill" -> "maybe"
      ) -> "'maybe' is not valid for the option 'fill'. The valid values are: no, yes | full.",
      Seq("fill" -> null) -> "The option 'fill' is NULL. The valid values are: no, yes | full.",
      Seq("fill" -> "no", "FILL" -> "no") -> "The option 'fill' is given twice.",
      Seq("fill" -> "?", "lineSize" -> "?") ->
        "'?' is not valid for the option 'fill'. The valid values are: no, yes | full."
    ).foreach { case (entries, problem) => assert(list.parse(entries) == Left(problem)) }
  }

  test("a list of options can be part of another list") {
    val page = new OptionList(
      Page(),
      list.specs.map(_.within[Page](_.drawing)((page, drawing) => page.copy(drawing)))
    )
    assert(page.parse(Seq("lineSize" -> "2")) == Right(Page(Drawing(2))))
    assert(page.parse(Seq("lineSize" -> "?")) == list.parse(Seq("lineSize" -> "?")))
  }

  test("the description and the table have all options") {
    assert(
      list.describe ==
        """          lineSize (default: 1) - How wide lines are. The valid values are: a number.
          |          fill (default: no) - Whether areas are filled. The valid values are: no, yes | full.
          |          color.<part> (default: black) - The color of a part. The valid values are: names.""".stripMargin
    )
    assert(
      list.markdown ==
        """|| Option | Values | Default | Meaning |
           || --- | --- | --- | --- |
           || `lineSize` | a number | 1 | How wide lines are. |
           || `fill` | no, yes \| full | no | Whether areas are filled. |
           || `color.<part>` | names | black | The color of a part. |
           |""".stripMargin
    )
  }

  test("every option of the functions has a description that is a sentence") {
    Seq(DecodeOptions.decode, DecodeOptions.tryDecode, RowOptions.row, RowOptions.tryRow)
      .flatMap(_.specs)
      .foreach { spec =>
        assert(spec.description.matches("[A-Z].*\\."), spec.name)
        assert(spec.values.nonEmpty && spec.default.nonEmpty, spec.name)
      }
  }
}
