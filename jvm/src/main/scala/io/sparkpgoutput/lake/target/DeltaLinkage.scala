package io.sparkpgoutput.lake.target

import java.lang.invoke.{MethodHandle, MethodHandles, MethodType}

import scala.util.Using

import org.apache.spark.internal.Logging

import org.apache.xbean.asm9.ClassReader

/**
 * Direct commits call internal classes of Delta, and another version of Delta can lack some of their members. All of them
 * are looked up before the first call. Otherwise, a call after a commit could fail, and the commit would be there. If a
 * member is missing, all tables are written by MERGE.
 *
 * @param loader has the classes of Delta
 */
final class DeltaLinkage(loader: ClassLoader = classOf[DeltaLinkage].getClassLoader)
    extends Logging {
  import DeltaLinkage._

  private var isChecked = false
  private var found = Option.empty[String]

  /** Runs calls of internal classes of Delta. Returns why they cannot run, if a member is missing. */
  def apply[T](calls: => T): Either[String, T] = problem.toLeft(()).flatMap { _ =>
    try Right(calls)
    catch { case missing: LinkageError => Left(note(missing.toString)) }
  }

  private def problem: Option[String] = synchronized {
    if (!isChecked) {
      isChecked = true
      missing.foreach(note)
    }
    found
  }

  private def note(member: String): String = synchronized {
    if (found.isEmpty) {
      found = Some(s"this version of Delta has no $member")
      logWarning(s"The tables are written by MERGE, which takes longer: ${found.get}.")
    }
    found.get
  }

  private def missing: Option[String] = Callers.iterator.flatMap(referencesOf).collectFirst {
    case (owner, None) if !exists(owner) => owner.replace('/', '.')
    case (owner, Some((name, descriptor))) if !exists(owner, name, descriptor) =>
      s"${owner.replace('/', '.')}.$name$descriptor"
  }

  /** The classes of Delta that a class uses, and their members with their descriptors. */
  private def referencesOf(caller: String): Seq[(String, Option[(String, String)])] = {
    val file =
      Using.resource(loader.getResourceAsStream(s"$Package$caller.class"))(new ClassReader(_))
    val buffer = new Array[Char](file.getMaxStringLength)
    (1 until file.getItemCount).map(file.getItem).filter(_ > 0).flatMap { at =>
      file.readByte(at - 1) match {
        case ClassTag => Some(file.readUTF8(at, buffer) -> None)
        case FieldTag | MethodTag | InterfaceMethodTag =>
          val pair = file.getItem(file.readUnsignedShort(at + 2))
          val member = file.readUTF8(pair, buffer) -> file.readUTF8(pair + 2, buffer)
          Some(file.readClass(at, buffer) -> Some(member))
        case _ => None
      }
    }.filter { case (owner, _) =>
      // The members that a class inherits from Delta are called by its own name.
      owner.startsWith(Delta) || Callers.exists(Package + _ == owner)
    }
  }

  private def load(owner: String) = Class.forName(owner.replace('/', '.'), false, loader)

  private def exists(owner: String): Boolean = isThere(load(owner))

  private def exists(owner: String, name: String, descriptor: String): Boolean = {
    def has(find: (MethodHandles.Lookup, Class[_], MethodType) => MethodHandle) = isThere {
      val of = load(owner)
      val lookup = MethodHandles.privateLookupIn(of, MethodHandles.lookup())
      val signature = if (descriptor.startsWith("(")) descriptor else s"()$descriptor"
      find(lookup, of, MethodType.fromMethodDescriptorString(signature, loader))
    }
    if (name == "<init>") has(_.findConstructor(_, _))
    else if (descriptor.startsWith("("))
      has(_.findVirtual(_, name, _)) || has(_.findStatic(_, name, _))
    else
      has((lookup, of, as) => lookup.findGetter(of, name, as.returnType)) ||
      has((lookup, of, as) => lookup.findStaticGetter(of, name, as.returnType))
  }

  private def isThere(find: => Any): Boolean =
    try find != null
    catch {
      case _: ReflectiveOperationException | _: TypeNotPresentException | _: LinkageError => false
    }
}

private object DeltaLinkage {
  final private val Delta = "org/apache/spark/sql/delta/"
  final private val Package = "io/sparkpgoutput/lake/target/"

  /** The classes of direct commits that call Delta. */
  val Callers: Seq[String] = Seq(
    "DeltaDirect",
    "DeltaDirect$",
    "DeltaFile",
    "DeltaFiles",
    "DeltaFiles$",
    "DeltaHistory$",
    "DeltaLayout",
    "DeltaLayout$",
    "DeltaPartition$",
    "DeltaTransactions$",
    "DeltaVersion",
    "DirectTransaction",
    "KnownTransactions"
  )

  // The Java Virtual Machine Specification, table 4.4-A.
  final private val ClassTag = 7
  final private val FieldTag = 9
  final private val MethodTag = 10
  final private val InterfaceMethodTag = 11
}
