"""Connections of the source to a server, with the pgjdbc in the JAR."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import IllegalArgumentException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from support.pooler import pgbouncer, proxy
from support.processes import free_port
from support.servers import Server, server_fixture

SECRET = "Marker-7f3a"

SETTINGS = {
    "client_encoding": "UTF8",
    "DateStyle": "ISO, MDY",
    "IntervalStyle": "postgres",
    "TimeZone": "UTC",
    "extra_float_digits": "3",
    "bytea_output": "hex",
    "lc_monetary": "C",
    "search_path": "",
    "quote_all_identifiers": "off",
}
OTHERS = {
    "client_encoding": "latin1",
    "DateStyle": "German",
    "IntervalStyle": "iso_8601",
    "TimeZone": "Asia/Kathmandu",
    "extra_float_digits": "-2",
    "bytea_output": "escape",
    "lc_monetary": "POSIX",
    "search_path": "information_schema",
    "quote_all_identifiers": "on",
}

OTHER_DRIVER = "org.postgresql:postgresql:42.7.13"

TLS_VERSION = 14  # the binaries of the newest have no TLS


Address = Any  # a Java object


class Client:
    """The Scala classes for connections, in the JVM of a session."""

    def __init__(self, spark: SparkSession) -> None:
        jvm: Any = spark._jvm
        self.jvm = jvm
        self.classes = jvm.io.sparkpgoutput.source.connection

    def address(
        self, url: str, user: str | None = "lake", password: str | None = SECRET
    ) -> Address:
        some = self.jvm.scala.Option.apply
        return self.classes.ServerAddress(url, some(user), some(password))

    def open(self, address: Address, replication: bool) -> Any:  # noqa: ANN401 - a Java object
        connections = self.classes.Connections
        connect = connections.openReplication if replication else connections.open
        return connect(address, "test")

    def ask(self, address: Address, query: str, replication: bool = False) -> list[str]:
        """Return the first row of a query on a new connection."""
        connection = self.open(address, replication)
        try:
            rows = connection.connection().createStatement().executeQuery(query)
            assert rows.next()
            return [rows.getString(i + 1) for i in range(rows.getMetaData().getColumnCount())]
        finally:
            connection.close()

    def fail(self, address: Address, replication: bool = False) -> IllegalArgumentException:
        """Return the error of a new connection, after a check that it does not show the secret."""
        with pytest.raises(IllegalArgumentException) as raised:
            self.open(address, replication).close()
        assert SECRET not in str(raised.value)
        error: Any = raised.value
        complete = self.jvm.org.apache.spark.util.Utils.exceptionString(error._origin)
        assert SECRET not in complete
        return raised.value


@pytest.fixture(scope="module")
def client(spark: SparkSession) -> Client:
    return Client(spark)


server = server_fixture(f"CREATE ROLE lake LOGIN REPLICATION PASSWORD '{SECRET}'", "module")


@pytest.mark.parametrize("replication", [False, True])
def test_text_of_values_depends_on_no_setting(
    client: Client, server: Server, replication: bool
) -> None:
    for name, value in OTHERS.items():
        server.execute(f"ALTER ROLE lake SET {name} = '{value}'")
    zone = client.jvm.java.util.TimeZone
    default = zone.getDefault()
    zone.setDefault(zone.getTimeZone("Asia/Tokyo"))  # as -Duser.timezone does
    try:
        options = "%20".join(f"-c%20{name}%3D{value}" for name, value in OTHERS.items())
        for url in (server.jdbc_url, f"{server.jdbc_url}?options={options}"):
            address = client.address(url)
            shown = ", ".join(f"current_setting('{name}')" for name in SETTINGS)
            assert client.ask(address, f"SELECT {shown}", replication) == list(SETTINGS.values())
    finally:
        zone.setDefault(default)
        server.execute("ALTER ROLE lake RESET ALL")


def test_debug_log_of_the_driver_is_off(client: Client, server: Server) -> None:
    """It can quote parameters of the URL, so it stays off even if all other logs are on."""
    client.open(client.address(server.jdbc_url), False).close()
    logger = client.jvm.java.util.logging.Logger.getLogger("io.sparkpgoutput.shaded.postgresql")
    assert logger.getLevel().getName() == "INFO"


def test_setting_that_the_server_does_not_take_is_an_error(client: Client, server: Server) -> None:
    with proxy(server.port, then=lambda sent: sent.replace(b"'postgres'", b"'iso_8601'")) as port:
        error = client.fail(client.address(f"jdbc:postgresql://127.0.0.1:{port}/postgres"))
    assert error.getCondition() == "PGOUTPUT_CONNECTION"
    assert "'postgres' for the setting IntervalStyle: it has 'iso_8601'" in str(error)


def test_parameters_of_the_url_work(client: Client, server: Server) -> None:
    who = "SELECT current_user, current_database()"
    host = f"{server.host}:{server.port}"
    refused = f"127.0.0.1:{free_port()}"
    urls = [
        f"jdbc:postgresql://{host}/postgres?requireAuth=scram-sha-256&sslmode=disable",
        f"jdbc:postgresql://{refused},{host}/postgres?targetServerType=primary",
        f"jdbc:postgresql://{refused}/other?host=127.0.0.1&port={server.port}&dbname=postgres",
        # The options win.
        f"jdbc:postgresql://{host}/postgres?user=nobody&password=wrong",
        # These have no effect.
        f"jdbc:postgresql://{host}/postgres?replication=true&preferQueryMode=extended&readOnly=true"
        "&autosave=always&currentSchema=other&ApplicationName=mine&socketTimeout=1",
    ]
    for url in urls:
        for replication in (False, True):
            assert client.ask(client.address(url), who, replication) == ["lake", "postgres"]
    sleep = "SELECT current_setting('application_name') FROM (SELECT pg_sleep(1.5)) AS s"
    assert client.ask(client.address(urls[-1]), sleep, True) == ["test"]
    in_url = f"{server.jdbc_url}?user=lake&password={SECRET}"
    assert client.ask(client.address(in_url, None, None), who) == ["lake", "postgres"]


@pytest.mark.exhaustive
def test_primary_among_several_hosts_is_found(client: Client, server: Server) -> None:
    with server.standby() as standby:
        hosts = f"{standby.host}:{standby.port},{server.host}:{server.port}"
        for kind, in_recovery in (("primary", "f"), ("secondary", "t")):
            address = client.address(f"jdbc:postgresql://{hosts}/postgres?targetServerType={kind}")
            for replication in (False, True):
                answer = client.ask(address, "SELECT pg_is_in_recovery()", replication)
                assert answer == [in_recovery]


def test_password_of_a_pgpass_file_is_used(client: Client, server: Server, tmp_path: Path) -> None:
    file = tmp_path / "pgpass"
    file.write_text(f"{server.host}:{server.port}:*:lake:{SECRET}\n")
    system = client.jvm.java.lang.System
    system.setProperty("io.sparkpgoutput.shaded.postgresql.pgpassfile", str(file))
    try:
        address = client.address(f"{server.jdbc_url}?user=nobody", "lake", None)
        assert client.ask(address, "SELECT current_user") == ["lake"]
    finally:
        system.clearProperty("io.sparkpgoutput.shaded.postgresql.pgpassfile")


def test_parameters_can_name_only_classes_of_the_driver(client: Client, server: Server) -> None:
    """A class of the driver is found by its new name: the error is that the server has no TLS."""
    own = f"{server.jdbc_url}?sslmode=require&sslfactory=org.postgresql.ssl.NonValidatingFactory"
    assert "does not support SSL" in str(client.fail(client.address(own)))
    error = client.fail(client.address(f"{server.jdbc_url}?socketFactory=com.example.{SECRET}"))
    assert error.getCondition() == "PGOUTPUT_SOURCE_OPTION"
    assert "The parameter socketFactory of the URL names a class that is not" in str(error)
    assert "a class of org.postgresql." in str(error)


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://lake:{SECRET}@127.0.0.1/postgres",
        f"jdbc:postgresql://lake:{SECRET}@127.0.0.1/postgres",
        f"jdbc:mysql://127.0.0.1/postgres?password={SECRET}",
        f"jdbc:postgresql://127.0.0.1?password={SECRET}",
        "",
    ],
)
def test_url_of_another_form_is_an_error(
    client: Client, url: str, capfd: pytest.CaptureFixture[str]
) -> None:
    error = client.fail(client.address(url))
    assert error.getCondition() == "PGOUTPUT_SOURCE_OPTION"
    assert "must have the form jdbc:postgresql://host:port/database?parameters." in str(error)
    assert SECRET not in "".join(capfd.readouterr())  # the driver's own log


def test_error_of_a_refused_connection_says_why(client: Client, server: Server) -> None:
    server.execute("CREATE ROLE full LOGIN REPLICATION CONNECTION LIMIT 0")
    server.execute(f"ALTER ROLE full PASSWORD '{SECRET}'")
    server.execute("CREATE ROLE elsewhere LOGIN REPLICATION")
    rules = server.folder / "data" / "pg_hba.conf"
    rules.write_text("host all elsewhere all reject\n" + rules.read_text())
    server.execute("SELECT pg_reload_conf()")
    base = server.jdbc_url
    marked = f"{base}?sslpassword={SECRET}"
    cases = [
        ((marked, "lake", f"not {SECRET}"), "28P01", "Check the user and the password."),
        ((marked, "elsewhere"), "28000", "pg_hba.conf rejects connection"),
        ((f"{base}1?sslpassword={SECRET}",), "3D000", "the name of the database in the URL"),
        ((f"jdbc:postgresql://127.0.0.1:{free_port()}/postgres",), "08001", "refused"),
        (("jdbc:postgresql://db.invalid/postgres",), "08001", "UnknownHostException: db.invalid"),
        ((f"{base}?sslmode=require",), "08004", "does not support SSL"),
        ((f"{base}?sslmode={SECRET}",), "08001", "Invalid sslmode value: <sslmode>."),
        ((f"{base}?connectTimeout={SECRET}",), "22023", "<connectTimeout>"),
    ]
    for arguments, state, text in cases:
        for replication in (False, True):
            error = client.fail(client.address(*arguments), replication)
            assert (error.getCondition(), error.getSqlState()) == ("PGOUTPUT_CONNECTION", state)
            assert f"The connection to {arguments[0].split('?')[0]} failed. " in str(error)
            assert text in str(error)
    error = client.fail(client.address(marked, "lake", None))
    assert (error.getCondition(), error.getSqlState()) == ("PGOUTPUT_CONNECTION", "08004")
    assert "no password was provided. Give the password in the option" in str(error)
    # The limit of a role counts only ordinary connections.
    error = client.fail(client.address(marked, "full"))
    assert (error.getCondition(), error.getSqlState()) == ("PGOUTPUT_CONNECTION", "53300")
    assert "Check max_connections, max_wal_senders and the role's" in str(error)


@pytest.mark.parametrize("version", [TLS_VERSION, 18])
def test_role_without_the_replication_right_is_an_error(
    client: Client, server: Server, tls: tuple[Server, Path], version: int
) -> None:
    server = server if version == 18 else tls[0]
    server.execute(f"CREATE ROLE reader LOGIN PASSWORD '{SECRET}'")
    address = client.address(server.jdbc_url, "reader")
    error = client.fail(address, replication=True)
    assert (error.getCondition(), error.getSqlState()) == ("PGOUTPUT_NO_REPLICATION_RIGHT", "42501")
    assert "ALTER ROLE reader REPLICATION." in str(error)
    assert client.ask(address, "SELECT current_user") == ["reader"]
    server.execute("REVOKE CONNECT ON DATABASE postgres FROM public")
    server.execute("ALTER ROLE reader REPLICATION")
    try:
        assert client.fail(address, replication=True).getCondition() == "PGOUTPUT_CONNECTION"
    finally:
        server.execute("GRANT CONNECT ON DATABASE postgres TO public")


@pytest.mark.parametrize("version", [TLS_VERSION, 18])
def test_a_role_that_takes_another_role_opens_a_replication_connection(
    client: Client, server: Server, tls: tuple[Server, Path], version: int
) -> None:
    """The role does not see in `pg_stat_activity` what kind of process it has."""
    server = server if version == 18 else tls[0]
    server.execute("CREATE ROLE owner REPLICATION")
    server.execute(f"CREATE ROLE rotated LOGIN REPLICATION PASSWORD '{SECRET}' IN ROLE owner")
    server.execute("ALTER ROLE rotated SET role = 'owner'")
    address = client.address(server.jdbc_url, "rotated")
    assert client.ask(address, "SELECT current_user") == ["owner"]
    client.open(address, replication=True).close()


def test_server_without_logical_wal_is_an_error(client: Client) -> None:
    with Server(settings={"wal_level": "replica"}) as server:
        address = client.address(server.jdbc_url, "postgres", server.password)
        create = "SELECT pg_create_logical_replication_slot('s', 'pgoutput')"
        with pytest.raises(Py4JJavaError) as raised:
            client.ask(address, create)
        error = client.classes.ConnectionError.of(raised.value.java_exception, address)
        assert error.getCondition() == "PGOUTPUT_WAL_LEVEL"
        assert "Set wal_level to logical" in error.getMessage()


def test_pooler_in_between_is_an_error(client: Client, server: Server) -> None:
    with pgbouncer() as port:
        error = client.fail(client.address(f"jdbc:postgresql://127.0.0.1:{port}/postgres"), True)
        assert error.getCondition() == "PGOUTPUT_POOLER"
        assert "unsupported startup parameter: replication" in str(error)
    # Other poolers make an ordinary connection.
    with proxy(server.port, lambda sent: sent.replace(b"replication\0database\0", b"")) as port:
        address = client.address(f"jdbc:postgresql://127.0.0.1:{port}/postgres")
        assert client.ask(address, "SELECT current_user") == ["lake"]
        assert client.fail(address, True).getCondition() == "PGOUTPUT_POOLER"


def test_jdbc_finds_another_driver(spark: SparkSession, client: Client, server: Server) -> None:
    """Spark's JDBC source takes a registered driver, and must not get the one in the JAR."""
    account = {"user": server.user, "password": server.password}
    driver = {"driver": "org.postgresql.Driver"}
    query = "SELECT current_setting('application_name') AS n"

    def name() -> str:
        jdbc = spark.read.format("jdbc").options(**account, **driver)
        (row,) = jdbc.option("url", server.jdbc_url).option("query", query).load().collect()
        return str(row.n)

    spark.sql(f"ADD JAR 'ivy://{OTHER_DRIVER}?transitive=false'")
    assert name() == "PostgreSQL JDBC Driver"
    assert client.ask(client.address(server.jdbc_url), "SELECT 1") == ["1"]
    assert not client.jvm.io.sparkpgoutput.shaded.postgresql.Driver.isRegistered()
    assert name() == "PostgreSQL JDBC Driver"


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Path]]:
    """Give a server with TLS, and the folder of the clients' certificates."""
    folder = tmp_path_factory.mktemp("tls")
    _make_certificates(folder)
    with Server(TLS_VERSION) as server:
        for name in ("ca.crt", "server.crt", "server.key"):
            file = Path(shutil.copy(folder / name, server.folder))
            file.chmod(0o600)
            shutil.chown(file, server.folder.owner(), server.folder.group())
        server.configure(
            ssl_ca_file=str(server.folder / "ca.crt"),
            ssl_cert_file=str(server.folder / "server.crt"),
            ssl_key_file=str(server.folder / "server.key"),
            ssl="on",
        )
        server.execute(f"CREATE ROLE lake LOGIN REPLICATION PASSWORD '{SECRET}'")
        server.execute("CREATE ROLE certified LOGIN REPLICATION")
        rules = server.folder / "data" / "pg_hba.conf"
        rules.write_text(
            "hostssl all certified all cert\nhostnossl all lake all reject\n" + rules.read_text()
        )
        server.execute("SELECT pg_reload_conf()")
        yield server, folder


def encrypted(folder: Path) -> dict[str, str]:
    """Return URL parameters that trust the server, for each role."""
    verified = f"sslmode=verify-ca&sslrootcert={folder}/ca.crt"
    own = f"&sslcert={folder}/certified.crt&sslkey={folder}/certified.pk8"
    return {
        "lake": f"{verified}&channelBinding=require&requireAuth=scram-sha-256",
        "certified": verified + own,
    }


@pytest.mark.parametrize("replication", [False, True])
def test_connections_can_use_tls(
    client: Client, tls: tuple[Server, Path], replication: bool
) -> None:
    server, folder = tls
    query = "SELECT ssl, current_user FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
    factory = "sslmode=require&sslfactory=org.postgresql.ssl.NonValidatingFactory"
    for user, parameters in [*encrypted(folder).items(), ("lake", factory)]:
        address = client.address(f"{server.jdbc_url}?{parameters}", user)
        assert client.ask(address, query, replication) == ["t", user]


@pytest.mark.takes_long
def test_slot_is_read_over_tls(spark: SparkSession, tls: tuple[Server, Path]) -> None:
    server, folder = tls
    server.execute("CREATE TABLE t (k int); CREATE PUBLICATION p FOR TABLE t")
    server.create_slot("s")
    # More than one TLS record, and more than the queue of a session
    server.execute("INSERT INTO t SELECT generate_series(1, 200000)")
    for user, parameters in encrypted(folder).items():
        options = {
            "url": f"{server.jdbc_url}?{parameters}",
            "user": user,
            "password": SECRET,
            "slot": "s",
            "publication": "p",
            "table": "t",
        }
        changes = spark.read.format("pgoutput").options(**options).load()
        found = changes.agg(F.count("k"), F.sum("k")).first()
        assert found == (200000, 200000 * 200001 // 2)


def test_tls_that_is_not_trusted_is_an_error(client: Client, tls: tuple[Server, Path]) -> None:
    server, folder = tls
    cases = {
        "sslmode=disable": ("28000", "pg_hba.conf rejects connection"),
        f"sslmode=verify-ca&sslrootcert={folder}/certified.crt": ("08006", "SSL error"),
        f"sslmode=verify-ca&sslrootcert={folder}/{SECRET}": ("08006", "<sslrootcert>"),
        f"sslmode=verify-full&sslrootcert={folder}/ca.crt": ("08006", "127.0.0.1"),
    }
    for parameters, (state, text) in cases.items():
        for replication in (False, True):
            error = client.fail(client.address(f"{server.jdbc_url}?{parameters}"), replication)
            assert (error.getCondition(), error.getSqlState()) == ("PGOUTPUT_CONNECTION", state)
            assert text in str(error)


def _make_certificates(folder: Path) -> None:
    """Make an authority, a server's certificate and that of a client whose name is its role."""

    def openssl(*arguments: str) -> None:
        command = ["openssl", *arguments]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)

    key = ("-newkey", "rsa:2048", "-nodes", "-days", "2")
    openssl("req", "-x509", *key, "-subj", "/CN=ca", "-keyout", "ca.key", "-out", "ca.crt")
    for name, subject in (("server", "elsewhere.example.org"), ("certified", "certified")):
        request = ("-subj", f"/CN={subject}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        openssl("req", "-newkey", "rsa:2048", "-nodes", *request)
        signed = ("-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-out", f"{name}.crt")
        openssl("x509", "-req", "-days", "2", "-in", f"{name}.csr", *signed)
    pkcs8 = ("-topk8", "-nocrypt", "-outform", "DER", "-out", "certified.pk8")
    openssl("pkcs8", "-in", "certified.key", *pkcs8)
