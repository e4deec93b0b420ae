package io.sparkpgoutput.lake.catalog

import java.io.{ByteArrayOutputStream, ObjectOutputStream}
import java.nio.charset.StandardCharsets.{ISO_8859_1, UTF_8}
import java.nio.file.Files

import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.errors.LakeException

class HiddenColumnsSuite extends AnyFunSuite {
  private val salt = HashSalt.of("salt")

  private def table(name: String, columns: String*) = SourceTable(
    oid = 16385,
    name = TableName("public", name),
    columns = columns.zipWithIndex.map { case (column, index) =>
      TableColumn(index + 1, column, 25, -1, 738, hasMissing = false)
    },
    unsent = Nil,
    key = Seq("id"),
    identity = ReplicaIdentity.Default,
    publish = SourceTable.Operations,
    rowFilter = None,
    fileNode = 16385,
    isPartitioned = false,
    leaves = Nil,
    horizon = 745,
    attributes = columns.length
  )

  private def hiding(exclude: String*)(hash: String*) =
    ColumnHiding(Map("users" -> HiddenColumns(exclude, hash)), salt)

  private val users = table("users", "id", "email", "ssn")
  private val hidden = hiding("ssn")("email")(users, None)

  test("a hash is the HMAC of RFC 4231") {
    val text = "what do ya want for nothing?".getBytes(UTF_8)
    val hash = new ValueHash(HashSalt.of("Jefe").get).of(text, 0, text.length)
    assert(new String(hash, UTF_8) ==
      "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843")
  }

  test("a salt is shown only in the bytes that executors get") {
    val found = HashSalt.of("my-secret-salt").get
    assert(!s"$found ${found.fingerprint} ${hiding()("email").copy(salt = Some(found))}"
      .contains("secret"))
    val bytes = new ByteArrayOutputStream
    new ObjectOutputStream(bytes).writeObject(found)
    assert(bytes.toString(ISO_8859_1).contains("my-secret-salt"))
    assert(found != HashSalt.of("another").get && found == HashSalt.of("my-secret-salt").get)
  }

  test("a salt is the first line of a file, or a variable, and never empty") {
    val file = Files.createTempFile("salt", "")
    try {
      Files.writeString(file, "sält\r\nmore\n")
      assert(HashSalt.ofFile(file.toString) == Right(HashSalt.of("sält").get))
      Files.writeString(file, "\nmore")
      assert(HashSalt.ofFile(file.toString).left.exists(_.contains("empty")))
    } finally Files.delete(file)
    assert(HashSalt.ofFile(file.toString).left.exists(_.contains("NoSuchFile")))
    val (name, value) = sys.env.find(_._2.nonEmpty).get
    assert(HashSalt.ofVariable(name) == Right(HashSalt.of(value).get))
    assert(HashSalt.ofVariable("NO_SUCH_VARIABLE_1").isLeft)
  }

  test("a table lacks its excluded columns, and its hashed columns are texts") {
    assert(hidden.columns.map(column => (column.name, column.isHashed)) ==
      Seq("id" -> false, "email" -> true))
    assert(hidden.excluded.map(_.number) == Seq(3))
    val number = users.copy(columns = users.columns.map(_.copy(typeId = 1700)))
    assert(hiding()("email")(number, None).columns.map(_.readType) == Seq(1700, 25, 1700))
    assert(hiding("ssn")("email")(table("other", "id", "ssn"), None).hidden.isEmpty)
    assert(users.hidingAs(hidden) == hidden)
  }

  private def refused(hiding: ColumnHiding, now: SourceTable, kept: Option[SourceTable] = None) = {
    val error = intercept[LakeException](hiding(now, kept))
    assert(error.getCondition == "PGOUTPUT_REPLICATE_OPTION")
    error.getMessage
  }

  test("an option that does not fit the table is an error that names its columns") {
    val unknown = refused(hiding("snn")(), users)
    assert(unknown.contains("excludeColumns.public.users names the column 'snn'"))
    assert(unknown.contains("id, email, ssn"))
    assert(refused(hiding()("mail"), users).contains("hashColumns.public.users"))
    assert(refused(hiding("id")(), users).contains("in the key"))
  }

  test("a hidden column or table that was renamed is an error, and is never shown") {
    val own = hiding("ssn")("email")
    val renamed = table("users", "id", "email", "social")
    assert(refused(own, renamed, Some(hidden)).contains("has the name 'social' now"))
    // Another column has the former name of the hidden one.
    val replaced = table("users", "id", "email", "social", "ssn")
    assert(refused(own, replaced, Some(hidden)).contains("has the name 'social' now"))
    assert(own(replaced, None).columns.map(_.name) == Seq("id", "email", "social"))
    assert(hiding("ssn", "social")("email")(replaced, Some(hidden)).excluded.length == 2)
    // The column was dropped, and made again.
    val again = table("users", "id", "email", "", "ssn")
    val columns = again.columns.filter(_.name.nonEmpty)
    assert(own(again.copy(columns = columns), Some(hidden)).excluded.map(_.number) == Seq(4))
    val moved = refused(own, table("people", "id", "email", "ssn"), Some(hidden))
    assert(moved.contains("public.users") && moved.contains("public.people"))
    // The options do not name the table any more.
    assert(ColumnHiding()(table("people", "id", "email", "ssn"), Some(hidden)).hidden.isEmpty)
  }

  test("a table that gets the name of another one keeps its own columns hidden") {
    val own = hiding("ssn")().hide("people", HiddenColumns(excluded = Seq("pin")))
    val people = own(table("people", "id", "pin", "ssn"), None)
    assert(people.excluded.map(_.name) == Seq("pin"))
    val moved = table("users", "id", "pin", "ssn")
    val error = refused(own, moved, Some(people))
    assert(error.contains("column 'pin'") && error.contains("excludeColumns.public.users"))
    val renamed = refused(own, table("users", "id", "code", "ssn"), Some(people))
    assert(renamed.contains("has the name 'code' now"))
    val again = moved.copy(columns =
      moved.columns.map(column =>
        if (column.name == "pin") column.copy(number = 9) else column
      )
    )
    assert(refused(own, again, Some(people)).contains("column 'pin'"))
    val all = own.hide("users", HiddenColumns(hashed = Seq("pin")))
    assert(all(moved, Some(people)).hidden.map(_.name) == Seq("ssn", "pin"))
    val dropped = moved.copy(columns = moved.columns.filterNot(_.name == "pin"))
    assert(own(dropped, Some(people)).excluded.map(_.name) == Seq("ssn"))
  }

  test("other hidden columns, and another salt, need a copy") {
    def reason(kept: SourceTable, now: SourceTable) =
      TableComparison.compare(kept, now, Set.empty).left.toOption.getOrElse("")
    assert(TableComparison.compare(hidden, hidden, Set.empty) == Right(Nil))
    assert(reason(users, hiding("ssn")()(users, None)).contains("exclude the column 'ssn' now"))
    assert(reason(hidden, hiding()("email")(users, None)).contains("not exclude the column 'ssn'"))
    assert(reason(users, hiding()("email")(users, None)).contains("hash the column 'email' now"))
    assert(reason(hidden, hiding("ssn")()(users, None)).contains("not hash the column 'email'"))
    val other = hiding("ssn")("email").copy(salt = HashSalt.of("other"))(users, None)
    assert(reason(hidden, other).contains("another salt"))
  }

  test("a hidden column that was altered needs a copy, because another one can have had its name") {
    def altered(name: String, kept: SourceTable) = {
      def again(columns: Seq[TableColumn]) = columns.map(column =>
        if (column.name == name) column.copy(version = column.version + 1) else column
      )
      val now = kept.copy(columns = again(kept.columns), excluded = again(kept.excluded))
      assert(TableComparison.compare(kept, now, Set.empty) == Right(Nil))
      TableComparison.altered(kept, now)
    }
    for (name <- Seq("ssn", "email")) {
      assert(altered(name, hidden).exists(_.contains(s"'$name'")))
      assert(altered(name, users).isEmpty)
    }
    assert(altered("id", hidden).isEmpty)
  }

  test(
    "changes have the hidden columns of an earlier definition if the options hide the same ones"
  ) {
    val own = hiding("ssn", "unknown")("email")
    assert(own.isAsIn(hidden, Set(users.name)) && ColumnHiding().isAsIn(users, Set(users.name)))
    for (
      (hiding, kept) <- Seq(
        own -> users,
        ColumnHiding() -> hidden,
        hiding("ssn")() -> hidden,
        hiding()("email") -> hidden,
        own.copy(salt = HashSalt.of("other")) -> hidden
      )
    ) assert(!hiding.isAsIn(kept, Set(users.name)))
    // The table has had another name in some of its changes.
    val people = TableName("public", "people")
    assert(!own.isAsIn(users, Set(people, users.name)) && own.isAsIn(users, Set(people)))
  }
}
