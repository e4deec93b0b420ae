package io.sparkpgoutput.errors

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import org.scalatest.Assertions

/** The errors of `error-conditions.json`, for tests. */
object Errors extends Assertions {

  /** The parameters of each text, by its name: the condition, and the case if the condition has cases. */
  val templates: Map[String, Set[String]] = {
    val file = classOf[PgOutputException].getResource("error-conditions.json")
    val conditions = new ObjectMapper().readTree(file).properties.asScala.toSeq
    conditions.flatMap { condition =>
      val cases = condition.getValue.path("subClass").properties.asScala.toSeq
      if (cases.isEmpty) Seq(condition.getKey -> parameters(condition.getValue))
      else cases.map(of => s"${condition.getKey}.${of.getKey}" -> parameters(of.getValue))
    }.toMap
  }

  private def parameters(condition: JsonNode) =
    "<([a-zA-Z0-9_-]+)>".r.findAllMatchIn(condition.path("message").toString).map(_.group(1)).toSet

  def source(name: String): SourceException = new SourceException(name, values(name): _*)

  def lake(names: String*): Seq[LakeException] =
    names.map(name => new LakeException(name, values(name): _*))

  private def values(name: String) = templates(name).toSeq.map(_ -> "x")

  /** Returns the error that the body raises. The error must have this condition. */
  def raised(condition: String)(body: => Any): PgOutputException = {
    val error = intercept[PgOutputException](body)
    assert(error.getCondition == condition, error)
    error
  }
}
