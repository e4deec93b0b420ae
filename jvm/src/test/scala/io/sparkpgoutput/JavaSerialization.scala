package io.sparkpgoutput

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, ObjectInputStream, ObjectOutputStream}

object JavaSerialization {

  /** Returns the copy of an object that another process gets from Spark. */
  def copied[A <: AnyRef](sent: A): A = {
    val bytes = new ByteArrayOutputStream
    new ObjectOutputStream(bytes).writeObject(sent)
    new ObjectInputStream(new ByteArrayInputStream(bytes.toByteArray)).readObject.asInstanceOf[A]
  }
}
