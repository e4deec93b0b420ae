package io.sparkpgoutput.source.connection

import java.nio.file.Files
import java.util.concurrent.ConcurrentLinkedQueue
import java.util.logging.{LogRecord, Logger, StreamHandler}

import scala.jdk.CollectionConverters._

import org.postgresql.{Driver, PGProperty}
import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.errors.SourceException

class ServerAddressSuite extends AnyFunSuite {
  private def shown(url: String) = ServerAddress(url, Some("lake"), Some("secret")).toString

  test("the text of an address is the URL without its query part") {
    Seq(
      "jdbc:postgresql://db.example.org/shop",
      "jdbc:postgresql://db.example.org:5432/shop",
      "jdbc:postgresql://a:5432,b,[fe80::1%25eth0]:5433/shop",
      "jdbc:postgresql:///shop",
      "jdbc:postgresql://",
      "jdbc:postgresql:shop"
    ).foreach { url =>
      assert(shown(url) == url)
      assert(shown(s"$url?password=p@ss/word?") == url)
    }
  }

  test("the text of an address shows nothing of a URL that pgjdbc cannot read") {
    Seq(
      "jdbc:postgresql://lake:secret@db.example.org/shop",
      "jdbc:postgresql://lake:se?cret@db.example.org/shop",
      "jdbc:postgresql://lake:se/cret@db.example.org/shop",
      "jdbc:postgresql://db.example.org:secret/shop",
      "jdbc:postgresql://db.example.org/shop&password=secret",
      "jdbc:postgresql://db.example.org/shop;password=secret",
      "jdbc:postgresql:shop;password=secret",
      "postgresql://lake:secret@db.example.org/shop",
      "jdbc:mysql://db.example.org/shop",
      "jdbc:postgresql://db.example.org",
      "jdbc:postgresql:/shop"
    ).foreach(url => assert(shown(url) == "jdbc:postgresql:…", url))
  }

  test("tasks get the role and the password that the driver has") {
    val file = Files.createTempFile("pgpass", "")
    Files.writeString(file, "db.example.org:5432:shop:lake:of the file\n*:*:*:other:of another\n")
    val setting = s"${classOf[Driver].getPackageName}.pgpassfile"
    System.setProperty(setting, file.toString)
    def tasks(
        parameters: String,
        user: Option[String],
        password: Option[String],
        hosts: String = "db.example.org"
    ) = {
      val address =
        ServerAddress(s"jdbc:postgresql://$hosts/shop$parameters", user, password).forTasks
      address.user -> address.password
    }
    try {
      assert(tasks("", Some("lake"), None) == (Some("lake") -> Some("of the file")))
      assert(tasks("", Some("lake"), Some("given")) == (Some("lake") -> Some("given")))
      assert(tasks("?user=other", None, None) == (Some("other") -> Some("of another")))
      assert(tasks("?user=other&password=own", None, None) == (Some("other") -> Some("own")))
      assert(tasks("", None, None) == (Some(System.getProperty("user.name")) -> None))
      Seq("db1,db.example.org", "db.example.org:5432,db2:5433").foreach(hosts =>
        assert(tasks("", Some("lake"), None, hosts) == (Some("lake") -> Some("of the file")))
      )
      assert(tasks("", Some("lake"), None, "db1,db.example.org:5433")._2.isEmpty)
    } finally {
      System.clearProperty(setting)
      Files.delete(file)
    }
  }
}

class DriverParametersSuite extends AnyFunSuite {
  private def address(parameters: String) =
    ServerAddress(s"jdbc:postgresql://db.example.org/shop?$parameters", None, None)

  private def read(parameters: String) = DriverParameters.of(address(parameters))

  private def refused(parameters: String): String =
    intercept[SourceException](read(parameters)).getMessage

  test("parameters that say how to connect are passed on, URL-decoded") {
    val parameters = read("sslmode=verify-full&sslpassword=a%26b+c&ssl&targetServerType=primary")
    val decoded = Map(
      "sslmode" -> "verify-full",
      "sslpassword" -> "a&b c",
      "ssl" -> "",
      "targetServerType" -> "primary"
    )
    assert(parameters == decoded)
  }

  test("parameters that say how statements run, or that the source sets itself, have no effect") {
    val names = PGProperty.values.toSet -- DriverParameters.passedOn -- DriverParameters.classes
    val used = Set(
      PGProperty.REPLICATION,
      PGProperty.PREFER_QUERY_MODE,
      PGProperty.APPLICATION_NAME,
      PGProperty.SOCKET_TIMEOUT,
      PGProperty.READ_ONLY,
      PGProperty.AUTOSAVE,
      PGProperty.CURRENT_SCHEMA
    )
    assert(used.subsetOf(names))
    (names - PGProperty.SERVICE).foreach(name => assert(read(s"${name.getName}=1").isEmpty, name))
  }

  // If a new version of pgjdbc has more parameters, decide whether the value of each is a class.
  test("all parameters whose value is a class are known as such") {
    val described = PGProperty.values.filter { property =>
      val text = s"${property.getName} ${property.getDescription}".toLowerCase
      text.contains("class") || text.contains("factory")
    }
    val others = Set(
      PGProperty.SSL_FACTORY_ARG,
      PGProperty.SOCKET_FACTORY_ARG,
      PGProperty.CONNECT_EXECUTOR_ARG,
      PGProperty.CLASS_LOADER_STRATEGY,
      PGProperty.SSPI_SERVICE_CLASS
    )
    assert(described.toSet == DriverParameters.classes ++ others)
    assert(PGProperty.values.length == 92)
  }

  test("a class of the driver is the one in this JAR, and a user's class is an error") {
    assert(classOf[Driver].getPackageName == "org.postgresql") // not relocated yet
    DriverParameters.classes.map(_.getName).foreach { name =>
      assert(read(s"$name=org.postgresql.ssl.NonValidatingFactory").contains(name))
      assert(refused(s"$name=com.example.Factory").contains(s"The parameter $name of the URL"))
    }
  }

  test("an unknown parameter is an error that says which one is meant") {
    val error = refused("sslMode=verify-full")
    assert(error.contains("'sslMode', which pgjdbc does not know. Write sslmode."))
    assert(refused("channel_binding=require").contains("Write channelBinding."))
    assert(refused("colour=red").contains("Remove it."))
  }

  test("a service that pgjdbc cannot read is an error, and no log shows its lines") {
    val file = Files.createTempFile("pg_service", ".conf")
    Files.writeString(file, "[good]\nhost=db\n[bad]\nhost=db\npasword=secret\n")
    val setting = s"${classOf[Driver].getPackageName}.pgservicefile"
    val logged = new ConcurrentLinkedQueue[String]
    val handler = new StreamHandler {
      override def publish(record: LogRecord): Unit = logged.add(record.getMessage): Unit
    }
    Logger.getLogger("").addHandler(handler)
    System.setProperty(setting, file.toString)
    try {
      assert(read("service=good") == Map("PGHOST" -> "db"))
      Seq("bad", "no_such_service").foreach { name =>
        val error = refused(s"service=$name")
        assert(error.startsWith("[PGOUTPUT_SOURCE_OPTION] ") && error.contains("does not know"))
      }
      assert(logged.asScala.forall(!_.contains("pasword")), logged)
    } finally {
      System.clearProperty(setting)
      Logger.getLogger("").removeHandler(handler)
      Files.delete(file)
    }
  }

  test("a value that is not URL-encoded is an error without the value") {
    val error = refused("sslpassword=100%secret")
    assert(error.contains("'sslpassword' is not URL-encoded") && !error.contains("secret"))
  }

  test("host, port and database can be parameters, and stay in the URL") {
    def url(parameters: String) = DriverParameters.url(address(parameters))
    assert(url("sslmode=require&host=a,b&port=1,2&dbname=ä&password=secret") ==
      "jdbc:postgresql://db.example.org/shop?PGHOST=a%2Cb&PGPORT=1%2C2&PGDBNAME=%C3%A4")
    assert(url("sslmode=require&password=secret") == "jdbc:postgresql://db.example.org/shop")
  }

  test("values of the URL's parameters are hidden in a text") {
    val secrets = address("sslmode=require&sslcert=%2Fkeys%2Flake&sslpassword=/keys/lake.p&ssl=1")
    val text = "Cannot require /keys/lake.p1 and /keys/lake, %2Fkeys%2Flake"
    assert(DriverParameters.hidden(secrets, text) ==
      "Cannot require <sslpassword>1 and <sslcert>, <sslcert>")
  }
}
