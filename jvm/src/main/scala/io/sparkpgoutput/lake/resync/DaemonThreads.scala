package io.sparkpgoutput.lake.resync

import java.util.concurrent.ThreadFactory

/** Makes threads that do not keep a process alive whose session is stopped. */
final private[lake] class DaemonThreads(name: String) extends ThreadFactory {
  override def newThread(task: Runnable): Thread = {
    val thread = new Thread(task, name)
    thread.setDaemon(true)
    thread
  }
}
