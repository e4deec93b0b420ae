package io.sparkpgoutput.changes.batch

/**
 * A stream after the first pass.
 *
 * @param segments the segments of the stream in order
 * @param transactions the transactions that the summaries of the segments tell
 */
final case class AssembledStream(
    segments: Seq[SegmentSummary],
    transactions: SummaryAssembler,
    earlier: EarlierRelations
) {
  def source: Any = segments.head.source
  def messages: Long = segments.map(_.fingerprint.messages).sum

  /** Returns what the second pass has to know about each segment. */
  def reads: Map[(Any, Long), SegmentRead] = segments
    .zip(transactions.starts)
    .map { case (segment, start) =>
      val repeated = earlier.repeated.filter { case (position, _) =>
        segment.first <= position && position <= segment.last
      }
      segment.key -> SegmentRead(segment.fingerprint, start, repeated)
    }
    .toMap
}
