package io.sparkpgoutput.lake.target

import java.nio.charset.StandardCharsets.ISO_8859_1
import java.nio.file.{Files, Path}

import scala.jdk.CollectionConverters._
import scala.util.{Random, Using}

import org.apache.xbean.asm9.{ClassReader, ClassVisitor, ClassWriter, MethodVisitor, Opcodes}

import io.sparkpgoutput.lake.apply.{CutApply, CutOfServer, ServerHistory}
import io.sparkpgoutput.lake.core.MarkName
import io.sparkpgoutput.lake.direct.KeyCache
import io.sparkpgoutput.{DeltaTests, LoggedTexts, TakesLong}

/** The members of Delta's classes that direct commits use. */
class DeltaLinkageSuite extends DeltaTests {
  private val name = MarkName("job", 1, 0)

  /** Has a class without one of its methods. */
  final private class Without(of: String, method: String)
      extends ClassLoader(classOf[DeltaLinkageSuite].getClassLoader) {
    override def loadClass(name: String, resolves: Boolean): Class[_] =
      if (name == of) Option(findLoadedClass(name)).getOrElse(rest)
      else super.loadClass(name, resolves)

    private def rest = {
      val made = new ClassWriter(0)
      val visitor = new ClassVisitor(Opcodes.ASM9, made) {
        override def visitMethod(
            access: Int,
            name: String,
            descriptor: String,
            signature: String,
            errors: Array[String]
        ): MethodVisitor =
          if (name == method) null
          else super.visitMethod(access, name, descriptor, signature, errors)
      }
      val found = getResourceAsStream(of.replace('.', '/') + ".class")
      new ClassReader(found).accept(visitor, 0)
      defineClass(of, made.toByteArray, 0, made.toByteArray.length)
    }
  }

  test(
    "if Delta lacks a member, tables are written by MERGE, and the log says so once",
    TakesLong
  ) {
    val lacking =
      new Without("org.apache.spark.sql.delta.util.DeltaFileOperations$", "absolutePath")
    val place = new FolderPlace(spark, Files.createTempDirectory("linkage").toString)
    val lines = LoggedTexts.of(classOf[DeltaLinkage]) {
      val target = new DeltaTarget(spark, place, KeyCache.none, new DeltaLinkage(lacking))
      val table = new ServerHistory(new Random(1)).wide
      target.create(table.name, table.target.schema, table.key, Map.empty)
      target.commit(spark, table.name, name, None, 1)(
        TargetWrite.Append(target.read(spark, table.name).limit(0))
      )
      assert(target.look(table.name).notDirect.exists(_.contains("absolutePath")))
      val messages =
        CutOfServer.transaction(10, Seq(table.relation, table.insert(Seq("1", "a", "1", "b", "c"))))
      val cut = CutOfServer(table.oid, messages, 11)
      val found = new CutApply(target, repairs = false)
        .commit(spark, table.target, Map.empty, name, 1, cut)
      assert(found.byMerge.exists(_.contains("absolutePath")))
      assert(target.mark(table.name, name).contains(11L))
      assert(target.read(spark, table.name).count() == 1)
      target.checkpoint(table.name)
      assert(!target.compact(table.name))
    }
    assert(lines.length == 1 && lines.head.contains("written by MERGE"))
  }

  test("this version of Delta has all members, and one that is found to be missing is noted") {
    val linked = new DeltaLinkage
    assert(linked(1) == Right(1))
    val lines = LoggedTexts.of(classOf[DeltaLinkage]) {
      val reasons = Seq("one", "another").map { name =>
        def failing: Int = throw new NoSuchMethodError(name)
        linked(failing)
      }
      assert(reasons.forall(_.left.exists(_.contains("NoSuchMethodError: one"))))
    }
    assert(lines.length == 1)
  }

  test("the members that all classes of direct commits use are looked up") {
    val folder = Path.of(classOf[DeltaLinkage].getProtectionDomain.getCodeSource.getLocation.toURI)
      .resolve("io/sparkpgoutput/lake/target")
    val files = Using.resource(Files.list(folder))(_.iterator.asScala.toSet)
    val callers = files.filter { file =>
      val bytes = Files.readAllBytes(file)
      var isDirect = false
      new ClassReader(bytes).accept(
        new ClassVisitor(Opcodes.ASM9) {
          override def visitSource(source: String, debug: String): Unit =
            isDirect = Set("DeltaDirect.scala", "DeltaFiles.scala")(source)
        },
        0
      )
      isDirect && new String(bytes, ISO_8859_1).contains("org/apache/spark/sql/delta/")
    }.map(_.getFileName.toString.stripSuffix(".class")).filterNot(_.contains("$$anonfun"))
    assert(callers.size > 9 && callers.diff(DeltaLinkage.Callers.toSet).isEmpty)
  }
}
