package io.sparkpgoutput.changes

import scala.collection.mutable
import scala.util.Random

/**
 * Random histories of a database, and the streams that two readers store of each. One reader is never
 * interrupted. The other loses its connection anywhere and starts again at the LSN that it has confirmed.
 * Tables are altered only where no transaction is open, because of their locks.
 *
 * @param handedOver
 *   whether a test reads streams in several batches; then each transaction has a change of its own xid
 */
final class Histories(random: Random, handedOver: Boolean = false) {
  import Histories._
  import StreamMessages._

  private val tables = Seq(Table, 5L)
  private var nextXid = 10L
  private var nextValue = 0

  private def xid(): Long = { nextXid += 1 + random.nextInt(3); nextXid }
  private def chance(percent: Int): Boolean = random.nextInt(100) < percent

  /** A change of a table by one of the xids. */
  private def change(xids: Seq[Long]): Change = {
    nextValue += 1
    val cells = nextValue.toString +: Seq.fill(width - 1)(if (chance(20)) null else "v")
    val kind = random.nextInt(6)
    Change(xids(random.nextInt(xids.size)), tables(random.nextInt(2)), width, kind, cells)
  }

  /** How many columns the tables have now. */
  private var width = 2

  private def changes(xids: Seq[Long]): Seq[Change] = Seq.fill(random.nextInt(5))(change(xids))

  private def certain(xid: Long): Seq[Change] = if (handedOver) Seq(change(Seq(xid))) else Nil

  /** The pieces of a transaction in order. Pieces of other transactions can be between them. */
  private def transaction(): Seq[Piece] = {
    val top = xid()
    val gid = s"g${random.nextInt(3)}-$top"
    val origin = if (chance(20)) Some(s"origin$top") else None
    random.nextInt(10) match {
      case 0 | 1 | 2 | 3 => Seq(Whole(top, origin, certain(top) ++ changes(Seq(top))))
      case 4 | 5 =>
        val decision = if (chance(70)) CommitPrepared(top, gid) else RollbackPrepared(top, gid)
        Seq(Prepared(top, gid, origin, certain(top) ++ changes(Seq(top))), decision)
      case kind =>
        val subxids = Seq.fill(random.nextInt(3))(xid())
        val blocks = Seq.tabulate(1 + random.nextInt(3)) { index =>
          val first = if (index == 0) certain(top) else Nil
          Block(top, index == 0, origin, first ++ changes(top +: subxids))
        }
        val pieces = blocks.map(Seq(_)).reduce[Seq[Piece]] { (before, block) =>
          before ++ subxids.filter(_ => chance(20)).map(RollBack(top, _)) ++ block
        }
        kind match {
          case 6 => pieces :+ RollBack(top, top)
          case 7 => pieces ++ Seq(StreamPrepared(top, gid), CommitPrepared(top, gid))
          case _ => pieces :+ StreamCommitted(top)
        }
    }
  }

  /** Pieces in the order in which the server sends them. */
  private def history(): Seq[Piece] = {
    val waiting = mutable.ArrayBuffer.empty[Seq[Piece]]
    val sent = mutable.ArrayBuffer.empty[Piece]
    val transactions = 1 + random.nextInt(12)
    (1 to transactions).foreach { _ =>
      if (waiting.isEmpty && chance(30)) width = 1 + random.nextInt(4)
      waiting += transaction()
      while (waiting.nonEmpty && chance(60)) {
        val index = random.nextInt(waiting.size)
        sent += waiting(index).head
        waiting(index) = waiting(index).tail
        if (waiting(index).isEmpty) waiting.remove(index)
      }
      if (chance(20)) sent += Said
    }
    while (waiting.nonEmpty) {
      val index = random.nextInt(waiting.size)
      sent += waiting(index).head
      waiting(index) = waiting(index).tail
      if (waiting(index).isEmpty) waiting.remove(index)
    }
    sent.toSeq
  }

  /** The streams of a history without a break, and with breaks. */
  def streams(): (Seq[Array[Byte]], Seq[Array[Byte]]) = {
    val pieces = history()
    val lsns = pieces.zipWithIndex.collect {
      case (piece, index) if piece.commits => piece.xid -> (1000L + 10 * index)
    }.toMap
    val clean = new Session(lsns)
    val data = mutable.ArrayBuffer.empty[Array[Byte]]
    var left = pieces.zipWithIndex
    var confirmed = 0
    (1 to random.nextInt(4)).foreach { _ =>
      val session = new Session(lsns)
      val ends = left.map { case (piece, _) => session.send(piece); session.all.size }
      val stored = random.nextInt(session.all.size + 1)
      data ++= session.all.take(stored)
      val whole = left.take(random.nextInt(ends.count(_ <= stored) + 1))
      confirmed = (confirmed +: whole.map(_._2 + 1)).max
      left = afterReconnect(pieces, confirmed)
    }
    val last = new Session(lsns)
    left.foreach { case (piece, _) => last.send(piece) }
    data ++= last.all
    pieces.foreach(clean.send)
    (clean.all.toSeq, data.toSeq)
  }

  /**
   * What the server sends if everything before a piece is confirmed: the pieces from there on, and the
   * earlier pieces of transactions that had not ended. The server may send a streamed transaction as a whole,
   * and does not send what was rolled back.
   */
  private def afterReconnect(pieces: Seq[Piece], confirmed: Int): Seq[(Piece, Int)] = {
    val ends = pieces.zipWithIndex.collect {
      case (piece, index) if piece.endsSending => piece.xid -> index
    }.toMap
    val streamed = pieces.collect { case Block(xid, true, _, _) => xid }
    val notStreamed = streamed.filter(xid => ends(xid) >= confirmed && chance(30)).toSet
    pieces.zipWithIndex
      .filter { case (piece, index) =>
        index >= confirmed || ends.get(piece.xid).exists(_ >= confirmed)
      }
      .flatMap { case (piece, index) =>
        val sent = if (notStreamed(piece.xid)) atItsEnd(piece, pieces) else Some(piece)
        sent.map(_ -> index)
      }
  }

  /** What replaces a piece of a streamed transaction if the server sends the transaction at its end. */
  private def atItsEnd(piece: Piece, pieces: Seq[Piece]): Option[Piece] = {
    val blocks = pieces.collect { case block: Block if block.xid == piece.xid => block }
    def origin = blocks.head.origin
    piece match {
      case StreamCommitted(xid)     => Some(Whole(xid, origin, kept(xid, pieces)))
      case StreamPrepared(xid, gid) => Some(Prepared(xid, gid, origin, kept(xid, pieces)))
      case _: Block | _: RollBack   => None
      case other                    => Some(other)
    }
  }

  private def kept(xid: Long, pieces: Seq[Piece]): Seq[Change] = {
    val aborted = pieces.collect { case RollBack(`xid`, subxid) => subxid }.toSet
    pieces.collect { case Block(`xid`, _, _, changes) => changes }.flatten
      .filterNot(change => aborted(change.xid))
  }

  /** The messages of one connection. */
  final private class Session(lsns: Map[Long, Long]) {
    val all = mutable.ArrayBuffer.empty[Array[Byte]]

    /** How many columns of each table the reader knows: in general, and in streamed transactions. */
    private val known = mutable.HashMap.empty[Long, Int]
    private val sentOutside = mutable.HashSet.empty[Long]
    private val streamed = mutable.HashMap.empty[(Long, Long), Int]

    def send(piece: Piece): Seq[Array[Byte]] = {
      val messages = encode(piece)
      all ++= messages
      messages
    }

    private def encode(piece: Piece): Seq[Array[Byte]] = piece match {
      case Whole(xid, origin, changes) =>
        begin(xid, lsns(xid)) +: (origin.map(StreamMessages.origin).toSeq ++ outside(changes)) :+
          commit(lsns(xid))
      case Prepared(xid, gid, origin, changes) =>
        beginPrepare(xid, gid) +: (origin.map(StreamMessages.origin).toSeq ++ outside(changes)) :+
          prepare(xid, gid)
      case Block(xid, isFirst, origin, changes) =>
        streamStart(xid, isFirst) +:
          (origin.filter(_ => isFirst).map(StreamMessages.origin).toSeq ++
            changes.flatMap(inBlock(xid, _))) :+ streamStop
      case RollBack(xid, subxid) =>
        streamed.keys.filter(_._1 == xid).toSeq.foreach(streamed.remove)
        Seq(streamAbort(xid, subxid))
      case StreamCommitted(xid) =>
        streamed.foreach {
          // The current definition may have been sent outside of the block, and may differ.
          case ((`xid`, oid), width) =>
            if (sentOutside.add(oid)) known.update(oid, width) else known.remove(oid)
          case _ =>
        }
        Seq(streamCommit(xid, lsns(xid)))
      case StreamPrepared(xid, gid)   => Seq(streamPrepare(xid, gid))
      case CommitPrepared(xid, gid)   => Seq(commitPrepared(xid, gid, lsns(xid)))
      case RollbackPrepared(xid, gid) => Seq(rollbackPrepared(xid, gid))
      case Said                       => Seq(logicalMessage(transactional = false))
    }

    private def outside(changes: Seq[Change]) = changes.flatMap { change =>
      val oids = if (change.kind == Truncate) tables else Seq(change.oid)
      oids.filterNot(known.get(_).contains(change.width)).map { oid =>
        sentOutside.add(oid)
        known.update(oid, change.width)
        relationOf(oid, change.width, 0)
      } ++ Seq(encode(change, 0)) ++
        (if (change.kind == 0) Seq(logicalMessage(transactional = true)) else Nil)
    }

    private def inBlock(top: Long, change: Change) = {
      val oids = if (change.kind == Truncate) tables else Seq(change.oid)
      oids.filterNot(oid => streamed.get((top, oid)).contains(change.width)).map { oid =>
        streamed.update((top, oid), change.width)
        // The table was altered, so its earlier definitions are not valid any more.
        if (!known.get(oid).contains(change.width)) known.remove(oid)
        relationOf(oid, change.width, change.xid)
      } ++ Seq(encode(change, change.xid)) ++
        (if (change.kind == 0) Seq(logicalMessage(transactional = true, top)) else Nil)
    }

    private def relationOf(oid: Long, width: Int, xid: Long) = {
      val columns = Seq.tabulate(width)(index => Column(s"c$index", isKey = index == 0))
      relation(columns, oid, s"t$oid", xid = xid)
    }

    private def encode(change: Change, xid: Long): Array[Byte] = {
      val Change(_, oid, width, kind, cells) = change
      val key = cells.take(1) ++ Seq.fill(width - 1)(null)
      val toasted = cells.dropRight(1) :+ (if (width > 1) Unchanged else cells.last)
      kind match {
        case 0 | 1    => insert(cells, xid, oid)
        case 2        => update(toasted, xid = xid, oid = oid)
        case 3        => update(toasted, key = key, xid = xid, oid = oid)
        case 4        => delete(old = cells, xid = xid, oid = oid)
        case Truncate => truncate(tables, xid)
      }
    }
  }
}

private object Histories {
  final val Truncate = 5

  final case class Change(xid: Long, oid: Long, width: Int, kind: Int, cells: Seq[String])

  /** Messages that are sent together. */
  sealed abstract class Piece {
    def xid: Long

    /** Whether it is the last piece before a decision. After its confirmation, no piece is sent again. */
    def endsSending: Boolean = false
    def commits: Boolean = false
  }

  final case class Whole(xid: Long, origin: Option[String], changes: Seq[Change]) extends Piece {
    override def endsSending: Boolean = true
    override def commits: Boolean = true
  }

  final case class Prepared(xid: Long, gid: String, origin: Option[String], changes: Seq[Change])
      extends Piece {
    override def endsSending: Boolean = true
  }

  final case class Block(xid: Long, isFirst: Boolean, origin: Option[String], changes: Seq[Change])
      extends Piece

  /** The rollback of a subtransaction, or of the whole transaction if both xids are the same. */
  final case class RollBack(xid: Long, subxid: Long) extends Piece {
    override def endsSending: Boolean = xid == subxid
  }

  final case class StreamCommitted(xid: Long) extends Piece {
    override def endsSending: Boolean = true
    override def commits: Boolean = true
  }

  final case class StreamPrepared(xid: Long, gid: String) extends Piece {
    override def endsSending: Boolean = true
  }

  final case class CommitPrepared(xid: Long, gid: String) extends Piece {
    override def commits: Boolean = true
  }

  final case class RollbackPrepared(xid: Long, gid: String) extends Piece

  /** A logical message outside of transactions. */
  case object Said extends Piece {
    override val xid: Long = 0
  }
}
