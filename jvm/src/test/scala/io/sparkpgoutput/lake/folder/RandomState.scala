package io.sparkpgoutput.lake.folder

import java.time.Instant

import org.apache.spark.sql.types._

import org.scalacheck.{Arbitrary, Gen}

import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.lake.catalog._
import io.sparkpgoutput.lake.core.{
  FormerDefinition,
  JobState,
  NextDefinition,
  TableState,
  TableStatus
}
import io.sparkpgoutput.types.registry.TypeRegistry

/** Random states of a job, with names and values that are hard to write. */
object RandomState {
  private val odd =
    Gen.oneOf(
      "a.b",
      "\"c\"",
      "größe",
      "名前",
      "💎",
      "\\",
      "\u0000\n\u2028",
      " ",
      "{}",
      "Ab",
      "a\u0308"
    )

  private val name: Gen[String] =
    Gen.oneOf(odd, Gen.alphaNumStr, Gen.nonEmptyListOf(odd).map(_.mkString))

  private val oid = Gen.choose(1L, 0xffffffffL)
  private val lsn = Arbitrary.arbitrary[Long]
  private val count = Gen.choose(0, Int.MaxValue)
  private val flag = Gen.oneOf(true, false)
  private val time = for {
    second <- Gen.choose(-62135596800L, 253402300799L) // the years 1 to 9999
    nano <- Gen.oneOf(0, 1, 1000, 999999999)
  } yield Instant.ofEpochSecond(second, nano.toLong)
  private val tableName = for { schema <- name; table <- name } yield TableName(schema, table)
  private val identity = Gen.oneOf(ReplicaIdentity.all)

  private def few[A](of: Gen[A]): Gen[Seq[A]] = Gen.choose(0, 3).flatMap(Gen.listOfN(_, of))

  private val column = for {
    number <- count
    name <- name
    typeId <- oid
    modifier <- Arbitrary.arbitrary[Int]
    version <- oid
    hasMissing <- flag
    hash <- Gen.option(name)
  } yield TableColumn(number, name, typeId, modifier, version, hasMissing, hash)

  private val leaf = for {
    oid <- oid
    name <- tableName
    fileNode <- this.oid
    identity <- identity
    attached <- flag
    links <- odd
    isLogged <- flag
  } yield Leaf(oid, name, fileNode, identity, attached, links, isLogged)

  private def source(oid: Long): Gen[SourceTable] = for {
    table <- tableName
    columns <- few(column)
    unsent <- few(count)
    key <- few(name)
    identity <- identity
    publish <- Gen.someOf(SourceTable.Operations)
    rowFilter <- Gen.option(name)
    fileNode <- this.oid
    isPartitioned <- flag
    leaves <- few(leaf)
    horizon <- lsn
    memberships <- few(this.oid)
    publications <- few(Gen.zip(this.oid, this.oid))
    attributes <- count
    excluded <- few(column)
  } yield SourceTable(
    oid,
    table,
    columns,
    unsent,
    key,
    identity,
    publish.toSeq,
    rowFilter,
    fileNode,
    isPartitioned,
    leaves,
    horizon,
    memberships,
    publications.toMap,
    attributes,
    excluded
  )

  private val schema = few(for {
    name <- name
    dataType <- Gen.oneOf(
      LongType,
      DecimalType(38, 18),
      TimestampNTZType,
      VariantType,
      ArrayType(StringType),
      StructType(Seq(StructField("größe\"", BinaryType, nullable = false)))
    )
    comment <- this.name
  } yield StructField(name, dataType).withComment(comment)).map(StructType(_))

  private def mirrored(oid: Long): Gen[MirroredTable] = for {
    source <- source(oid)
    target <- name
    schema <- schema
    types <- few(Gen.zip(this.oid, Gen.oneOf("enum", "array:range:int4", "composite")))
    mode <- Gen.oneOf(
      Gen.oneOf(TableMode.Mirror, TableMode.Marking, TableMode.Versions),
      name.map(TableMode.History(_)),
      for (mirror <- Gen.oneOf(TableMode.Mirror, TableMode.Marking); prefix <- name)
        yield TableMode.Both(mirror, TableMode.History(prefix))
    )
    partition <- few(Gen.zip(name, Gen.oneOf("identity", "days")))
    cluster <- few(name)
    shape = TableShape(
      partition.map { case (column, transform) => PartitionField(column, transform) } :+
        PartitionField(target, "bucket", Some(16)),
      cluster
    )
  } yield MirroredTable(source, target, schema, TypeRegistry(types.toMap), mode, shape = shape)

  private val renames = few(Gen.zip(name, name)).map(_.toMap)

  private val status: Gen[TableStatus] = Gen.oneOf(
    Gen.zip(name, Gen.option(lsn)).map { case (reason, lsn) => TableStatus.Copying(reason, lsn) },
    Gen.const(TableStatus.Live),
    Gen.zip(name, time, flag, flag).map { case (reason, since, needsCopy, isLasting) =>
      TableStatus.Failed(reason, since, needsCopy, isLasting)
    },
    Gen.const(TableStatus.Dropped),
    Gen.const(TableStatus.Excluded)
  )

  private val table = for {
    oid <- oid
    table <- mirrored(oid)
    status <- status
    number <- count
    next <- Gen.option(Gen.zip(mirrored(oid), renames).map((NextDefinition.apply _).tupled))
    formerNames <- renames
    generation <- count
    mark <- Gen.option(lsn)
    lastChange <- Gen.option(time)
    copyReason <- Gen.option(name)
    former <- Gen.option(Gen.zip(mirrored(oid), count, Gen.mapOf(Gen.zip(count, name))))
  } yield TableState(
    table,
    status,
    number,
    next,
    formerNames,
    generation,
    mark,
    lastChange,
    copyReason = copyReason.filter(_ => status == TableStatus.Live),
    former = former.map { case (former, generation, renamed) =>
      FormerDefinition(former.copy(target = table.target), generation, renamed)
    }
  )

  val state: Gen[JobState] = for {
    id <- Gen.uuid
    systemIdentifier <- Gen.numStr
    timeline <- count
    database <- name
    slot <- name
    publications <- few(name)
    target <- name
    format <- Gen.oneOf("delta", "iceberg")
    confirmed <- lsn
    tables <- few(table)
    infinity <- Gen.oneOf("error", "null", "clamp")
    moneyScale <- Gen.choose(0, 10)
    startedFor <- few(name)
    serverStarted <- Gen.option(name)
  } yield tables.foldLeft(JobState(
    id.toString,
    systemIdentifier,
    timeline,
    database,
    slot,
    publications,
    target,
    format,
    confirmed,
    infinity = infinity,
    moneyScale = moneyScale,
    startedFor = startedFor,
    serverStarted = serverStarted
  ))(_.put(_))
}
