package io.sparkpgoutput.types.datetime

import java.time.{Instant, LocalDateTime, ZoneId, ZoneOffset}
import java.util.concurrent.ThreadLocalRandom

import scala.jdk.CollectionConverters._

import org.scalatest.funsuite.AnyFunSuite

class ZoneOffsetsSuite extends AnyFunSuite {
  private val UnixEpochs = 946684800L // seconds from 1970 to 2000

  private def micros(epochSecond: Long) = (epochSecond - UnixEpochs) * 1000000

  test("the offsets of every zone are those of java.time, by UTC and by the wall clock") {
    ZoneId.getAvailableZoneIds.asScala.foreach { id =>
      val rules = ZoneId.of(id).getRules
      val offsets = new ZoneOffsets(ZoneId.of(id))
      val switches = Iterator
        .iterate(rules.nextTransition(Instant.MIN))(last => rules.nextTransition(last.getInstant))
        .takeWhile(next => next != null && next.getInstant.getEpochSecond < 4200000000L)
        .flatMap { next =>
          val second = next.getInstant.getEpochSecond
          for {
            near <- Seq(-1, 0, 1)
            offset <- Seq(
              0,
              next.getOffsetBefore.getTotalSeconds,
              next.getOffsetAfter.getTotalSeconds
            )
          } yield second + offset + near
        }
      val random = ThreadLocalRandom.current
      val others = Iterator.continually(random.nextLong(-210000000000L, 9224318016000L)).take(20)
      (switches ++ others).foreach { second =>
        val byUtc = rules.getOffset(Instant.ofEpochSecond(second))
        assert(offsets.ofUtc(micros(second)) == byUtc.getTotalSeconds * 1000000L, (id, second))
        val byClock = rules.getOffset(LocalDateTime.ofEpochSecond(second, 0, ZoneOffset.UTC))
        assert(offsets.ofLocal(micros(second)) == byClock.getTotalSeconds * 1000000L, (id, second))
      }
    }
  }
}
