package io.sparkpgoutput.source.stream

import java.nio.charset.StandardCharsets
import java.util.UUID

import scala.collection.immutable.ListMap
import scala.jdk.CollectionConverters._
import scala.util.{Try, Using}

import org.apache.spark.internal.Logging
import org.apache.spark.sql.catalyst.util.QuotingUtils
import org.apache.spark.sql.types.{DataType, StructType}

import com.fasterxml.jackson.databind.ObjectMapper
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, FileSystem, Path, StreamCapabilities}

import io.sparkpgoutput.changes.rows.ChangeSchema
import io.sparkpgoutput.errors.{PgOutputException, SourceException}
import io.sparkpgoutput.protocol.Lsn
import io.sparkpgoutput.source.connection.ServerClient
import io.sparkpgoutput.source.slot.{Server, SlotChecks, SlotCreation, SlotState, SourceIdentity}

/** The start of a stream: where it begins the first time, and the checks of each start. */
final class StreamStart(
    options: SourceOptions,
    schema: StructType,
    client: ServerClient,
    log: SourceLog
) extends Logging {
  private var checked: Option[(SourceIdentity, Server)] = None
  private var connections = 0

  /** Returns whether this start was checked. */
  def isChecked: Boolean = checked.isDefined

  /** What the checkpoint keeps, after the check. */
  def source: SourceIdentity = checked.get._1

  /** The server, after the check. */
  def server: Server = checked.get._2

  /** Returns the LSN at which the stream began at its first start: the slot's confirmed LSN at that time. */
  def firstLsn(): Long = log.read().getOrElse(begin()).firstLsn

  private def begin(): SourceIdentity = {
    val server = client.replication(Server.of)
    val publications = client.query(SlotChecks.publications(_, options.publications))
    val found = SlotChecks.readable(findSlot(), server, options.slot)
    val identity = SourceIdentity(
      UUID.randomUUID().toString,
      server.systemIdentifier,
      Seq(server.timeline),
      server.database,
      options.slot,
      publications,
      found.confirmedFlush.get,
      schema
    )
    log.write(identity)
    identity
  }

  private def findSlot(): Option[SlotState] = {
    val found = client.query(SlotState.read(_, options.slot))
    if (found.isEmpty && options.createSlot) {
      SlotCreation.create(options.address, options.slot, options.failover)
      client.query(SlotState.read(_, options.slot))
    } else found
  }

  /**
   * The columns of the table as DDL without comments, for the option `schema`. The columns that all changes
   * have are left out.
   */
  private def ddl(schema: StructType) = schema
    .filterNot(field => ChangeSchema.schema.fieldNames.contains(field.name))
    .map(field => s"${QuotingUtils.quoteIfNeeded(field.name)} ${field.dataType.sql}")
    .mkString(", ")

  /**
   * Checks that the stream can go on without a gap: at the start, and when the connection was lost,
   * because the new one can lead to a standby that was promoted. A standby that is read itself keeps
   * its connections when it is promoted, so its timeline is checked before each batch.
   *
   * @param begin the LSN below which all is done
   * @param isPlanned whether a batch is about to be read
   */
  def check(begin: Long, isPlanned: Boolean = false): Unit =
    if (checked.isEmpty || client.connections != connections || (isPlanned && server.inRecovery)) {
      refuseAsyncProgress()
      val kept = log.read().getOrElse(throw new SourceException(
        "PGOUTPUT_CHECKPOINT_VERSION.NO_SOURCE_FILES",
        "folder" -> log.folder
      ))
      checked = Some(client.replication { replication =>
        val server = Server.of(replication)
        val publications = client.query(SlotChecks.publications(_, options.publications))
        kept.check(server, options.slot, publications).foreach(text => logWarning(text))
        if (!kept.hasColumns(schema))
          throw new SourceException(
            "PGOUTPUT_SCHEMA_CHANGED",
            "kept" -> ddl(kept.schema),
            "found" -> ddl(schema)
          )
        val timelines = SlotChecks.timeline(replication, server, kept.timelines, begin)
        client.query { sql =>
          SlotChecks.beforeReading(SlotState.read(sql, options.slot), server, kept, begin)
        }
        val now = kept.copy(timelines = timelines, publications = publications)
        // A later start compares with the timeline that was read, so it is written before a batch is.
        if (now != kept) log.write(now)
        (now, server)
      })
      connections = client.connections
    }

  private val OuterField = "$outer"
  private val AsyncProgress = "AsyncProgressTracking"

  /**
   * Refuses asynchronous progress tracking. With it, Spark asks for the next batch before it has written that
   * the previous one is done, so an LSN would be confirmed too early.
   *
   * Spark does not inform a source of it, but it calls the source in the thread of the query, whose class
   * is an inner class of the query's.
   */
  private def refuseAsyncProgress(): Unit = {
    val thread = Thread.currentThread()
    val query = Try {
      val field = thread.getClass.getDeclaredField(OuterField)
      field.setAccessible(true)
      field.get(thread).getClass.getSimpleName
    }
    if (query.toOption.exists(_.startsWith(AsyncProgress)))
      throw new SourceException("PGOUTPUT_SOURCE_OPTION.ASYNC_PROGRESS")
  }
}

/**
 * Keeps the identity of a source in its folder of the checkpoint. Each change is a new file, `0.json`,
 * `1.json` and so on, which appears whole. The last one counts.
 */
final class SourceLog(val folder: String, configuration: Configuration) {
  import SourceLog._

  private val path = new Path(folder)
  private val files: FileSystem = path.getFileSystem(configuration)

  /**
   * Reads the identity; None if the source has not begun. After a power failure, the last file can be empty, because
   * not every file system writes the content before the name. Then the write before it counts.
   */
  def read(): Option[SourceIdentity] = {
    val all = written
    all.filter(_._2.getLen > 0).lastOption.orElse(all.lastOption).map { case (_, status) =>
      val file = status.getPath
      val text = Using.resource(files.open(file))(in => new String(in.readAllBytes(), Utf8))
      fromJson(text, file.toString)
    }
  }

  /** Writes an identity as the last one. */
  def write(identity: SourceIdentity): Unit = {
    val number = written.lastOption.fold(0)(_._1 + 1)
    val part = new Path(path, s".$number$Suffix.part")
    Using.resource(files.create(part, true)) { out =>
      out.write(toJson(identity).getBytes(Utf8))
      if (out.hasCapability(StreamCapabilities.HSYNC)) out.hsync()
    }
    if (!files.rename(part, new Path(path, s"$number$Suffix")))
      throw new java.io.IOException(s"cannot write $number$Suffix in $folder.")
  }

  /** The files in the order of their numbers. */
  private def written: Seq[(Int, FileStatus)] =
    if (!files.exists(path)) Nil
    else
      files.listStatus(path).toSeq
        .map(status => (status.getPath.getName, status))
        .collect { case (Name(number), status) => number.toInt -> status }
        .sortBy(_._1)
}

object SourceLog {
  final private val Version = 1
  final private val Suffix = ".json"
  private val Name = """(\d{1,9})\.json""".r
  private val Utf8 = StandardCharsets.UTF_8
  private val mapper = new ObjectMapper

  private[stream] def toJson(identity: SourceIdentity): String =
    mapper.writeValueAsString(ListMap[String, Any](
      "version" -> Version,
      "id" -> identity.id,
      "systemIdentifier" -> identity.systemIdentifier,
      "timelines" -> identity.timelines.asJava,
      "database" -> identity.database,
      "slot" -> identity.slot,
      "publications" -> ListMap(identity.publications.toSeq.sorted: _*).asJava,
      "firstLsn" -> Lsn.format(identity.firstLsn),
      "schema" -> mapper.readTree(identity.schema.json)
    ).asJava)

  private[stream] def fromJson(text: String, file: String): SourceIdentity = {
    val json = mapper.readTree(text)
    val version = json.path("version").asInt()
    if (version != Version)
      throw new PgOutputException(
        "PGOUTPUT_CHECKPOINT_VERSION.SOURCE_FILE",
        "file" -> file,
        "found" -> version,
        "known" -> Version
      )
    SourceIdentity(
      id = json.required("id").asText,
      systemIdentifier = json.required("systemIdentifier").asText,
      timelines = json.required("timelines").elements.asScala.map(_.asInt).toSeq,
      database = json.required("database").asText,
      slot = json.required("slot").asText,
      publications = json
        .required("publications")
        .fields
        .asScala
        .map(publication => publication.getKey -> publication.getValue.asLong)
        .toMap,
      firstLsn = Lsn.parse(json.required("firstLsn").asText).get,
      schema = DataType.fromJson(json.required("schema").toString).asInstanceOf[StructType]
    )
  }
}
