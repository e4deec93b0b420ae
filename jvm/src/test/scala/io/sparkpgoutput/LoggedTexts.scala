package io.sparkpgoutput

import java.util.concurrent.ConcurrentLinkedQueue

import scala.jdk.CollectionConverters._

import org.apache.logging.log4j.core.appender.AbstractAppender
import org.apache.logging.log4j.core.config.Configurator
import org.apache.logging.log4j.core.{LogEvent, Logger}
import org.apache.logging.log4j.{Level, LogManager}

object LoggedTexts {

  /** Returns the warnings and errors that a class logs while something runs. */
  def of(logging: Class[_])(body: => Any): Seq[String] = {
    Configurator.setLevel(logging.getName, Level.WARN)
    val logger = LogManager.getLogger(logging).asInstanceOf[Logger]
    val texts = new ConcurrentLinkedQueue[String]
    val appender = new AbstractAppender("texts", null, null, false, Array.empty) {
      override def append(event: LogEvent): Unit = texts.add(event.getMessage.getFormattedMessage)
    }
    appender.start()
    logger.addAppender(appender)
    try body
    finally logger.removeAppender(appender)
    texts.asScala.toSeq
  }
}
