package io.sparkpgoutput.source.connection

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
}
