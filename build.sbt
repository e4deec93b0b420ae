import org.typelevel.sbt.tpolecat.CiMode
import org.typelevel.scalacoptions.ScalacOptions

// Compiled against the lowest Spark that is supported; the tests run the JAR on all of them.
val sparkVersion = "4.0.0"

// The users bring Delta or Iceberg. Only `lake.target` uses their classes.
val lakeFormats = Seq(
  "io.delta" % "delta-spark_4.0_2.13" % "4.4.0",
  "io.delta" % "delta-storage" % "4.4.0",
  "io.delta" % "delta-kernel-api" % "4.4.0",
  "io.delta" % "delta-kernel-defaults" % "4.4.0",
  "org.apache.iceberg" % "iceberg-spark-runtime-4.0_2.13" % "1.11.0"
).map(_.intransitive % Provided)

// The distribution has one version: pyproject.toml's.
ThisBuild / version := {
  val line = """version = "(.+)"""".r
  IO.readLines(file("pyproject.toml")).collectFirst { case line(number) => number }.get
}
ThisBuild / organization := "io.sparkpgoutput"
ThisBuild / scalaVersion := "2.13.16"
ThisBuild / tpolecatDefaultOptionsMode := CiMode // warnings are errors
ThisBuild / semanticdbEnabled := true // for scalafix
ThisBuild / semanticdbVersion := scalafixSemanticdb.revision

// What Spark's own launcher opens for Java 17: org.apache.spark.launcher.JavaModuleOptions.
val javaModuleOptions = Seq(
  "java.lang",
  "java.lang.invoke",
  "java.lang.reflect",
  "java.io",
  "java.net",
  "java.nio",
  "java.util",
  "java.util.concurrent",
  "java.util.concurrent.atomic",
  "jdk.internal.ref",
  "sun.nio.ch",
  "sun.nio.cs",
  "sun.security.action",
  "sun.util.calendar"
).map(module => s"--add-opens=java.base/$module=ALL-UNNAMED")

lazy val root =
  (project in file(".")).aggregate(jvm, benchmarks).settings(publish / skip := true)

lazy val jvm = (project in file("jvm")).settings(
  name := "spark-pgoutput",
  libraryDependencies ++= lakeFormats,
  libraryDependencies ++= Seq(
    "org.apache.spark" %% "spark-sql" % sparkVersion % Provided,
    "org.postgresql" % "postgresql" % "42.7.14" excludeAll ExclusionRule("org.checkerframework"),
    "org.apache.spark" %% "spark-core" % sparkVersion % Test classifier "tests",
    "org.apache.spark" %% "spark-catalyst" % sparkVersion % Test classifier "tests",
    "org.scalatest" %% "scalatest" % "3.2.19" % Test,
    "org.scalatestplus" %% "scalacheck-1-18" % "3.2.19.0" % Test
  ),
  scalacOptions += "-release:17",
  // A cursor and a buffer move on as they give a value, which need not always be used.
  tpolecatExcludeOptions ++= Set(
    ScalacOptions.warnNonUnitStatement,
    ScalacOptions.warnValueDiscard
  ),
  // The JAR is part of the Python package: one file, always the same name, so that none goes stale.
  Compile / Keys.`package` := assembly.value,
  assembly / assemblyOutputPath :=
    (ThisBuild / baseDirectory).value / "python" / "spark_pgoutput" / "jars" / "spark-pgoutput.jar",
  // Our classes come as the JAR of packageBin, because it also has the struct below.
  assembly / fullClasspath := (Runtime / fullClasspathAsJars).value,
  assembly / assemblyOption ~= (_.withIncludeScala(false)),
  Compile / mainClass := None,
  // The JAR has pgjdbc under another name, so that it can stand beside any other version.
  assembly / assemblyShadeRules :=
    Seq(ShadeRule.rename("org.postgresql.**" -> "io.sparkpgoutput.shaded.postgresql.@1").inAll),
  assembly / assemblyMergeStrategy := {
    // pgjdbc must not register as a driver, because `format("jdbc")` is to find its own.
    case PathList("META-INF", "services", "java.sql.Driver") => MergeStrategy.discard
    case PathList("META-INF", "LICENSE") =>
      CustomMergeStrategy.rename(_ => "META-INF/licenses/org.postgresql/LICENSE")
    // OSGi, and two classes of pgjdbc that exist for Java 8 too.
    case PathList("META-INF", "versions" | "MANIFEST.MF", _*) => MergeStrategy.discard
    case PathList("io", "sparkpgoutput", "shaded", "postgresql", "osgi", _*) =>
      MergeStrategy.discard
    case _ => MergeStrategy.deduplicate
  },
  // The JAR has what Python reads without a JVM: the struct of a decoded message, and a job's options.
  Compile / packageBin / mappings ++= {
    val classpath = (Compile / fullClasspath).value.files
    val log = streams.value.log
    val cache = streams.value.cacheDirectory
    val scala = (Compile / run / runner).value
    val classes = ((Compile / classDirectory).value ** "*.class").get().toSet
    val folder = target.value
    Seq(
      "message-schema.json" -> "io.sparkpgoutput.protocol.MessageSchemaFile",
      "replicate-options.json" -> "io.sparkpgoutput.lake.job.ReplicateOptionsFile"
    ).map { case (name, main) =>
      val file = folder / name
      FileFunction.cached(cache / name) { _ =>
        scala.run(main, classpath, Seq(file.getPath), log).get
        Set(file)
      }(classes)
      file -> s"io/sparkpgoutput/$name"
    }
  },
  Test / fork := true,
  Test / baseDirectory := (ThisBuild / baseDirectory).value, // tests/data is found from here
  Test / javaOptions ++= javaModuleOptions,
  // The tests are short: the optimizing compiler, and the check of each class, would cost more than
  // they give. The young generation has room for what a test throws away.
  Test / javaOptions ++= Seq(
    "-Xmx2g",
    "-Xmn700m",
    "-XX:MetaspaceSize=512m", // or it collects the whole heap whenever classes need more room
    "-XX:TieredStopAtLevel=1",
    "-XX:ReservedCodeCacheSize=240m", // for all that the tests compile
    "-XX:+UseSerialGC",
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:-BytecodeVerificationRemote"
  )
)

// The decoder by itself; with the messages that the tests make.
lazy val benchmarks = (project in file("jvm/benchmarks"))
  .enablePlugins(JmhPlugin)
  .dependsOn(jvm % "compile->test")
  .settings(
    publish / skip := true,
    libraryDependencies += "org.apache.spark" %% "spark-sql" % sparkVersion,
    Jmh / run / baseDirectory := (ThisBuild / baseDirectory).value,
    Jmh / javaOptions ++= javaModuleOptions
  )
