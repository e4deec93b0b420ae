package io.sparkpgoutput.source.connection

import java.nio.file.Files

import org.postgresql.Driver
import org.scalatest.funsuite.AnyFunSuite

class ServerAddressSuite extends AnyFunSuite {
  private def shown(url: String) = ServerAddress(url, Some("lake"), Some("secret")).toString

  test("the text is the URL without its query part") {
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

  test("the text of a URL that pgjdbc cannot read shows nothing of it") {
    Seq(
      "jdbc:postgresql://lake:secret@db.example.org/shop",
      "jdbc:postgresql://lake:se?cret@db.example.org/shop",
      "jdbc:postgresql://lake:se/cret@db.example.org/shop",
      "jdbc:postgresql://db.example.org:secret/shop",
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
    def tasks(parameters: String, user: Option[String], password: Option[String]) = {
      val address =
        ServerAddress(s"jdbc:postgresql://db.example.org/shop$parameters", user, password).forTasks
      address.user -> address.password
    }
    try {
      assert(tasks("", Some("lake"), None) == (Some("lake") -> Some("of the file")))
      assert(tasks("", Some("lake"), Some("given")) == (Some("lake") -> Some("given")))
      assert(tasks("?user=other", None, None) == (Some("other") -> Some("of another")))
      assert(tasks("?user=other&password=own", None, None) == (Some("other") -> Some("own")))
      assert(tasks("", None, None) == (Some(System.getProperty("user.name")) -> None))
    } finally {
      System.clearProperty(setting)
      Files.delete(file)
    }
  }
}
