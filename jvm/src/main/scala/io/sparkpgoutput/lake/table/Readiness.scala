package io.sparkpgoutput.lake.table

/**
 * What is missing before tables can be kept equal. Each text is whole and has the statement that mends it.
 *
 * @param job what is missing for all tables, such as a right of the role to read a slot
 * @param tables what is missing for single tables, by their oids. A table that lacks nothing is not in it.
 */
final case class Readiness(job: Seq[String], tables: Map[Long, Seq[String]])
