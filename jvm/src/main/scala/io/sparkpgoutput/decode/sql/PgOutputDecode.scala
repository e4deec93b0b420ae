package io.sparkpgoutput.decode.sql

import org.apache.spark.sql.catalyst.expressions.{Expression, ExpressionDescription}

// scalastyle:off
@ExpressionDescription(
  usage = """
    _FUNC_(data[, in_stream[, options]]) - Decodes a message of PostgreSQL's logical replication
      (plugin pgoutput, protocol versions 1 to 4) to a struct. A malformed message is an error, or
      NULL with mode PERMISSIVE.
  """,
  arguments =
    """
    Arguments:
      * data - BINARY: one message as pgoutput wrote it, without the header of CopyData or XLogData.
          NULL and a message of zero bytes give NULL.
      * in_stream - BOOLEAN: whether the message stands between Stream Start and Stream Stop. It is
          ignored for messages that cannot stand there. NULL or left out: found out from the message.
      * options - a constant map:
          mode - FAILFAST (the default): a malformed message is an error with the condition
            PGOUTPUT_MALFORMED_MESSAGE; PERMISSIVE: it gives NULL.
          encoding - the server's client_encoding when the messages were written, by PostgreSQL's
            name or Java's; UTF8 is the default.
  """,
  examples =
    """
    Examples:
      > SELECT _FUNC_(X'420000000001851440000303B0970EA19E0000030C').xid;
       780
      > SELECT d.type, d.new.kinds, d.new.text FROM (SELECT _FUNC_(X'49000040104E0003740000000234326E75') AS d);
       INSERT	tnu	["42",null,null]
      > SELECT _FUNC_(X'490000030C000040104E0000', true).xid;
       780
      > SELECT _FUNC_(X'4F00000000018514406EF6646500', NULL, map('encoding', 'LATIN1')).origin;
       nöde
      > SELECT _FUNC_(X'4500', NULL, map('mode', 'PERMISSIVE'));
       NULL
  """,
  note = """
    LSNs are the 64 bits as a BIGINT: pg_lsn_format shows them as PostgreSQL does.
  """,
  since = "0.1.0",
  group = "misc_funcs"
)
case class PgOutputDecode(data: Expression, inStream: Expression, options: Expression)
    extends DecodeFunction {

  def this(data: Expression, inStream: Expression) =
    this(data, inStream, MessageFunction.noOptions)
  def this(data: Expression) = this(data, MessageFunction.unknownContext)

  override def prettyName: String = "pgoutput_decode"

  override lazy val failFast: Boolean = decodeOptions.failFast

  override protected def withNewChildrenInternal(
      data: Expression,
      inStream: Expression,
      options: Expression
  ): Expression = copy(data, inStream, options)
}
