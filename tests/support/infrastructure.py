"""An object store and a catalog, as services of this machine, for jobs that tests run on them."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import SparkSession

from support import lake
from support.lake_job import LakeJob
from support.processes import accepts_connections, errors_of, free_port, started
from support.proxy import Proxy, Request
from support.servers import Server, wait_until

CATALOG_JARS = lake.INFRASTRUCTURE / "catalog"

needs_infrastructure = pytest.mark.skipif(
    not (lake.RUNS_HERE and CATALOG_JARS.exists()), reason="make .infra/store"
)

REGION = "us-east-1"
KEY, SECRET = "key", "no-secret"
ACCOUNT = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": REGION}

START = 300.0  # on a busy machine

# The table that the jobs copy, and its publication.
SETUP = """
CREATE TABLE good (id int PRIMARY KEY, v text);
INSERT INTO good SELECT g, repeat('a', 20) FROM generate_series(1, 1000) g;
CREATE PUBLICATION p FOR ALL TABLES;
"""


class ObjectStore:
    """An S3 store of this machine, behind a proxy.

    Parameters
    ----------
    proxy : Proxy
        The proxy that clients connect to.
    """

    def __init__(self, proxy: Proxy) -> None:
        import boto3  # make .infra/store installs it

        self.proxy = proxy
        self.client: Any = boto3.client(
            "s3",
            endpoint_url=proxy.url,
            region_name=REGION,
            aws_access_key_id=KEY,
            aws_secret_access_key=SECRET,
        )

    def bucket(self) -> str:
        """Make a bucket with a new name, because Hadoop keeps one file system for each name."""
        name = f"lake-{secrets.token_hex(4)}"
        self.client.create_bucket(Bucket=name)
        return name

    def keys(self, bucket: str, prefix: str = "") -> list[str]:
        """Return the names of the objects in a bucket."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        return [found["Key"] for page in pages for found in page.get("Contents", [])]

    @property
    def s3a(self) -> dict[str, str]:
        """The settings of Hadoop's connector."""
        return {
            "fs.s3a.endpoint": self.proxy.url,
            "fs.s3a.endpoint.region": REGION,
            "fs.s3a.access.key": KEY,
            "fs.s3a.secret.key": SECRET,
            "fs.s3a.path.style.access": "true",
        }

    @property
    def file_io(self) -> dict[str, str]:
        """The properties of a catalog whose tables are in the store."""
        return {
            "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
            "s3.endpoint": self.proxy.url,
            "s3.path-style-access": "true",
            "s3.access-key-id": KEY,
            "s3.secret-access-key": SECRET,
            "client.region": REGION,
        }


@contextmanager
def object_store(folder: Path) -> Iterator[ObjectStore]:
    """Start a store.

    The store first checks the condition of a PUT, and then writes. So the proxy sends it only one
    conditional PUT at a time.
    """
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with (
        service([*command], folder, port),
        Proxy(port, serialized=lambda request: request.is_conditional) as proxy,
    ):
        yield ObjectStore(proxy)


class RestCatalog:
    """A REST catalog of Iceberg, behind a proxy.

    Parameters
    ----------
    proxy : Proxy
        The proxy that clients connect to.
    """

    def __init__(self, proxy: Proxy) -> None:
        self.proxy = proxy


@contextmanager
def rest_catalog(
    folder: Path, store: ObjectStore, properties: Mapping[str, str] | None = None
) -> Iterator[RestCatalog]:
    """Start the catalog with which Iceberg tests REST. Its tables are in a bucket of a store.

    Parameters
    ----------
    folder : Path
        The folder of its database.
    store : ObjectStore
        The store of its tables.
    properties : mapping of str to str, optional
        More properties of the catalog.
    """
    port = free_port()
    jars = Path(pyspark.__file__).parent / "jars"
    hadoop = [str(jar) for jar in jars.glob("hadoop-client-*.jar")]
    configured = {
        "catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
        "uri": f"jdbc:sqlite:{folder / 'catalog.db'}",
        "warehouse": f"s3://{store.bucket()}/warehouse",
        "rest.port": str(port),
        **store.file_io,
        **(properties or {}),
    }
    # These are the names that `RCKUtils` of Iceberg reads.
    variables = {
        "CATALOG_" + name.replace("-", "__").replace(".", "_").upper(): value
        for name, value in configured.items()
    }
    command = ["java", "-Xmx256m", "-cp", os.pathsep.join([f"{CATALOG_JARS}/*", *hadoop])]
    server = "org.apache.iceberg.rest.RESTCatalogServer"
    with (
        service([*command, server], folder, port, {**variables, **ACCOUNT}),
        Proxy(port) as proxy,
    ):
        yield RestCatalog(proxy)


@contextmanager
def service(
    command: list[str], folder: Path, port: int, variables: Mapping[str, str] | None = None
) -> Iterator[None]:
    folder.mkdir(exist_ok=True)
    with started(command, folder, **(variables or {})) as process:

        def is_there() -> bool:
            assert process.poll() is None, errors_of(folder)[-3000:]
            return accepts_connections(port)

        wait_until(is_there, START, 0.1)
        yield


class StoredJob(LakeJob):
    """A job whose target and checkpoint are in an object store.

    Parameters
    ----------
    folder : Path
        The folder on this machine that its processes write to.
    store : ObjectStore
        The store.
    catalog : RestCatalog
        The catalog of Iceberg tables.
    """

    def __init__(
        self,
        folder: Path,
        server: Server,
        target: str,
        store: ObjectStore,
        catalog: RestCatalog,
        slot: str = "lake",
        publication: str = "p",
    ) -> None:
        super().__init__(folder, server, target, slot=slot, publication=publication)
        self.store = store
        self.bucket = store.bucket()
        self._rest = catalog
        if target == "delta":
            self.target = f"s3a://{self.bucket}/shop"
        else:
            # Each job has a namespace of its own.
            self.target = f"{self._catalog}.shop_{secrets.token_hex(4)}"

    @property
    def checkpoint_url(self) -> str:
        return f"s3a://{self.bucket}/checkpoint"

    @property
    def catalog(self) -> dict[str, str]:
        name = f"spark.sql.catalog.{self._catalog}"
        properties = {
            "type": "rest",
            "uri": self._rest.proxy.url,
            "cache-enabled": "false",
            **self.store.file_io,
        }
        return {
            name: "org.apache.iceberg.spark.SparkCatalog",
            **{f"{name}.{property}": value for property, value in properties.items()},
            **{f"spark.hadoop.{setting}": value for setting, value in self.store.s3a.items()},
        }

    def use(self, spark: SparkSession) -> None:
        super().use(spark)
        context: Any = spark.sparkContext._jsc
        for name, value in self.store.s3a.items():
            context.hadoopConfiguration().set(name, value)

    def commits(self, table: str) -> list[Request]:
        """Return the requests that wrote a commit of a Delta table."""
        path = f"/{self.bucket}/shop/{table}/_delta_log/0"
        return [r for r in self.store.proxy.requests if r.is_commit and path in r.path]
