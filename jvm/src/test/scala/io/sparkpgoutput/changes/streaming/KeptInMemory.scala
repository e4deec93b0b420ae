package io.sparkpgoutput.changes.streaming

import scala.collection.mutable

import org.apache.spark.sql.streaming.MapState

/** A state store in memory. */
final class KeptInMemory[K, V] extends MapState[K, V] {
  val kept: mutable.Map[K, V] = mutable.HashMap.empty

  override def exists(): Boolean = kept.nonEmpty
  override def getValue(key: K): V = kept(key)
  override def containsKey(key: K): Boolean = kept.contains(key)
  override def updateValue(key: K, value: V): Unit = kept.update(key, value)
  override def iterator(): Iterator[(K, V)] = kept.iterator
  override def keys(): Iterator[K] = kept.keysIterator
  override def values(): Iterator[V] = kept.valuesIterator
  override def removeKey(key: K): Unit = kept.remove(key)
  override def clear(): Unit = kept.clear()
}
