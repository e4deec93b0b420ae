# make demo         read a replication slot of a real PostgreSQL server, step by step
# make build        set up .venv with the package and Spark, and build the JAR
# make test         run the tests, without those that take long (5 to 6 minutes on 2 cores)
# make test-sparks  run a smoke test on each of the other Sparks
# make test-slot    kill streams of a slot on each version of PostgreSQL (half an hour)
# make test-lake    kill jobs that keep tables equal in Delta and Iceberg, and run long tests in Scala
# make test-histories HISTORIES=5000  write random histories into tables in small commits
# make test-formats  run jobs on other versions of Spark, Delta and Iceberg
# make test-infra   run jobs on an object store, catalogs, a cluster and Kafka that the tests start
# make soak SECONDS=300 SEED=1  kill a stream of a slot, and then jobs (an hour each by default)
# make test-all     run the tests on each Spark, with all captures (half an hour)
# make lint         check the format, the style and the types
# make sbt RUN="'jvm/testOnly *MessageDecoderSuite'"  run commands of sbt
# make format       correct the format, and all else that can be corrected
# make bench        measure how fast the decoder is: benchmarks/output
# make bench-slot   measure how fast a replication slot is read
# make bench-replicate  measure the first copy and the apply into Delta and Iceberg
# make bench-replicate OLD=old.whl  compare the jobs of a wheel with those of this folder
# make bench-compare OLD=old.jar  compare the speed of a JAR with that of this folder
# make dist         build the wheel and the source distribution
# make clean        remove what the other targets have made
#
# You need Python 3.10 or newer and Java 17 or 21. Each target sets up what else it needs, in this
# folder.

PYTHON ?= python3
JAVA := $(if $(JAVA_HOME),$(JAVA_HOME)/bin/java,java)
VENV := .venv
BIN := $(VENV)/bin
JAR := python/spark_pgoutput/jars/spark-pgoutput.jar
JAR_SOURCES := build.sbt pyproject.toml $(wildcard project/*.sbt project/*.properties) $(shell find jvm/src/main -type f)

# Java starts sbt, because `jgo run` always sets another collector and a larger heap, which take more CPU. The
# optimizing compiler is off: in a fresh clone, it takes longer than its code saves.
SBT = $(JAVA) -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC -Xmx3g -Xss4m -Dsbt.supershell=false \
  -jar "$$($(BIN)/jgo info path org.scala-sbt:sbt-launch:1.13.0)"
TEST_JVM := 'jvm/testOnly * -- -l TakesLong'
LINT_JVM := scalafmtSbtCheck scalafmtCheckAll 'scalafixAll --check'

# Spark's classes, which the JVMs of the tests share.
ARCHIVE := $(VENV)/spark.jsa

# Each of two processes runs half of the tests. The first one to finish takes tests from the other half.
PARALLEL := --numprocesses 2 --dist worksteal

# The newest patch release of each minor version of Spark, except for the one of `make test`, which
# pyproject.toml names. PySpark 4.3 needs Python 3.11.
OTHER_SPARKS := 4.0.5 4.2.1 $(shell $(PYTHON) -c 'import sys; print("4.3.0" * (sys.version_info >= (3, 11)))' 2>&1)
SMOKE_TESTS := tests/test_every_spark.py tests/test_linkage.py

# The JARs that Delta and Iceberg need in addition to Spark's, for the Spark of `make test`, and a database
# for Iceberg's JDBC catalog.
DELTA := 4.4.0
FORMATS := io.delta:delta-spark_4.1_2.13:$(DELTA) org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0
LAKE_JARS := $(foreach jar,storage kernel-api kernel-defaults kernel-unitycatalog,io.delta:delta-$(jar):$(DELTA)) \
  io.unitycatalog:unitycatalog-client:0.6.0 org.xerial:sqlite-jdbc:3.50.3.0

# Delta and Iceberg for other versions of Spark, and the newest Iceberg.
OTHER_FORMATS := 4.0.5 4.1.4 4.2.1
FORMATS_4.0.5 := io.delta:delta-spark_4.0_2.13:$(DELTA) org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0
FORMATS_4.1.4 := io.delta:delta-spark_4.1_2.13:$(DELTA) org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0
FORMATS_4.2.1 := io.delta:delta-spark_4.2_2.13:$(DELTA)
FORMAT_TESTS := $(wildcard $(foreach name,linkage lake_target replicate_tables replicate_shapes replicate_types \
  replicate_values deleted_rows history,tests/test_$(name).py))

# The tests of infrastructure also need Iceberg's REST catalog for tests and, for Spark, its version of hadoop-aws.
# Of the AWS SDK, they need only the modules that S3A and Iceberg's S3FileIO use: the bundle of all modules has 600 MB.
AWS := software.amazon.awssdk
AWS_VERSION := 2.29.52
S3_JARS := org.apache.hadoop:hadoop-aws:3.4.2 software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3:1.2.1
SDK_JARS := $(foreach module,kms sts s3-transfer-manager aws-json-protocol,$(AWS):$(module):$(AWS_VERSION))
CATALOG_VERSION := 1.10.1
CATALOG_JARS := org.apache.iceberg:iceberg-open-api:$(CATALOG_VERSION):test-fixtures \
  org.apache.iceberg:iceberg-core:$(CATALOG_VERSION):tests
empty :=
CATALOG_TREE := $(subst $(empty) $(empty),+,org.apache.iceberg:iceberg-core:$(CATALOG_VERSION) \
  org.apache.iceberg:iceberg-aws:$(CATALOG_VERSION) org.eclipse.jetty:jetty-servlet:11.0.26 \
  org.xerial:sqlite-jdbc:3.50.3.0 $(AWS):s3:$(AWS_VERSION))

# Kafka's broker, and what Spark needs for Kafka in addition to its own JARs.
KAFKA := org.apache.kafka:kafka_2.13:4.1.1
KAFKA_JARS := org.apache.kafka:kafka-clients:3.9.1 org.apache.commons:commons-pool2:2.12.1 \
  $(foreach jar,sql-kafka token-provider-kafka,org.apache.spark:spark-$(jar)-0-10_2.13:4.1.1)

# The PostgreSQL servers of the tests, in addition to the server of the demo, which is PostgreSQL 18. `make test` uses
# the demo's server and the first of these.
POSTGRES := 14.23.0 15.19.0 16.15.0 17.11.0
POSTGRES_PLATFORM := linux-$(if $(filter aarch64 arm64,$(shell uname -m)),arm64v8,amd64)
POSTGRES_JAR := io.zonky.test.postgres:embedded-postgres-binaries-$(POSTGRES_PLATFORM)

.PHONY: demo build test test-jvm test-python test-sparks test-slot test-lake test-formats test-histories test-infra soak test-all \
  test-jvm-long check-jvm lint lint-jvm lint-python format sbt bench bench-decoder bench-queries bench-slot bench-replicate bench-replicate-large \
  bench-replicate-keys bench-replicate-hour bench-replicate-two-hundred bench-replicate-thousand bench-compare dist clean sparks ready requirements

demo: build
	$(BIN)/spark-pgoutput demo

build: $(VENV)/installed $(JAR)

# Both targets run in parallel, because neither keeps two cores busy all the time. CI also runs the tests in Python that
# take long.
test: build
	$(MAKE) --jobs 2 test-jvm test-python PYTEST_OPTIONS="-m 'not (other_sparks or takes_long)'"

test-jvm: $(VENV)/tools
	$(SBT) $(TEST_JVM)

# The tests that `make test` and CI leave out.
test-jvm-long: $(VENV)/tools
	$(SBT) 'jvm/testOnly * -- -n TakesLong'

# This leaves out the tests that are marked other_sparks, because other modules test this Spark more thoroughly. With
# PYTEST_OPTIONS="--demo --store", it also checks what the demo prints, and runs jobs on .infra/store. The tests of the
# JVM run in one process, which would end last if it did not have a core for itself.
test-python: ready
	nice -n 5 $(BIN)/pytest $(PARALLEL) -m 'not other_sparks' $(PYTEST_OPTIONS)

# This prepares all that the tests in Python need.
ready: build $(ARCHIVE) .lake/installed .postgres/$(firstword $(POSTGRES))

test-sparks: $(OTHER_SPARKS:%=test-spark-%)

test-spark-%: build .spark-%/installed
	PYTHONPATH=$(CURDIR)/.spark-$* nice -n 5 $(BIN)/pytest $(SMOKE_TESTS)

test-all: build $(ARCHIVE) .lake/installed $(POSTGRES:%=.postgres/%) check-jvm test-jvm-long $(OTHER_SPARKS:%=test-all-%)
	$(BIN)/pytest $(PARALLEL) --exhaustive --demo

# The tests run on all versions of PostgreSQL, with each kind of kill.
test-slot: build $(ARCHIVE) $(POSTGRES:%=.postgres/%)
	$(BIN)/pytest $(PARALLEL) --slot --exhaustive tests/test_servers.py tests/test_slot_*.py tests/test_source_*.py

# The tests run on all versions of PostgreSQL, in both formats, with each kind of kill.
test-lake: build $(ARCHIVE) .lake/installed $(POSTGRES:%=.postgres/%) test-jvm-long
	$(BIN)/pip install --quiet --group readers
	$(BIN)/pytest $(PARALLEL) --lake -m lake

test-formats: $(OTHER_FORMATS:%=test-formats-%)

test-formats-%: build $(ARCHIVE) .spark-%/installed .lake-%/installed .postgres/$(firstword $(POSTGRES))
	LAKE_FOLDER=$(CURDIR)/.lake-$* PYTHONPATH=$(CURDIR)/.spark-$* $(BIN)/pytest $(PARALLEL) --lake $(FORMAT_TESTS)

HISTORIES ?= 5000
FIRST ?= 1

# Each history runs twice, the second time with one hash for all keys, and with a fault at each step of a write. This
# also runs as many folds of changes, ten times as many simulated jobs, and what else tests a fold on real tables.
test-histories: $(VENV)/tools
	$(SBT) 'set jvm/Test/javaOptions ++= Seq("-Dspark-pgoutput.histories=$(HISTORIES)", "-Dspark-pgoutput.seed=$(FIRST)", "-Dspark-pgoutput.steps=1")' \
	  'jvm/testOnly *DirectHistoriesSuite *DirectWriteSuite *InterruptedWritesSuite *ShapedTablesSuite *KindsSuite *MarkedRowsSuite *VersionedRowsSuite *ChangeFoldSuite *VersionFoldSuite *JobSimulationSuite'

# The tests run jobs and streams on services that they start. Spark 4.3 checks a pipeline.
test-infra: build $(ARCHIVE) .lake/installed .infra/installed .postgres/$(firstword $(POSTGRES)) $(filter .spark-4.3%,$(OTHER_SPARKS:%=.spark-%/installed))
	$(BIN)/pytest --infra --store -m "infra or store"

SECONDS ?= 3600
SEED ?= $(shell date +%s)

# The first target kills a stream of a slot, and the second one kills jobs that keep tables equal, each for SECONDS.
soak: soak-source soak-replicate

soak-%: build $(ARCHIVE) .lake/installed $(POSTGRES:%=.postgres/%)
	$(BIN)/pytest --capture=no --soak $(SECONDS) --seed $(SEED) tests/test_$*_soak.py

test-all-%: build .spark-%/installed
	PYTHONPATH=$(CURDIR)/.spark-$* $(BIN)/pytest $(PARALLEL) --exhaustive --demo

lint: lint-jvm lint-python

lint-jvm: $(VENV)/tools
	$(SBT) $(LINT_JVM)

lint-python: $(VENV)/installed
	$(BIN)/ruff format --check python tests benchmarks examples
	$(BIN)/ruff check python tests benchmarks examples
	$(BIN)/mypy python tests benchmarks examples

# One run of sbt does both, because sbt takes long to start. It does not compile again what `build` has compiled.
check-jvm: build
	$(SBT) $(LINT_JVM) $(TEST_JVM)

format: $(VENV)/installed
	$(SBT) scalafmtSbt scalafmtAll scalafixAll
	$(BIN)/ruff check --fix python tests benchmarks examples
	$(BIN)/ruff format python tests benchmarks examples

sbt: $(VENV)/tools
	$(SBT) $(RUN)

bench: bench-decoder bench-queries

bench-decoder: $(VENV)/installed
	mkdir -p benchmarks/output
	$(SBT) 'benchmarks/Jmh/run -prof gc -rf json -rff benchmarks/output/decoder.json'

bench-queries: .venv-bench/installed $(JAR)
	.venv-bench/bin/python -m benchmarks $(BENCH_OPTIONS)

bench-slot: .venv-bench/installed $(JAR)
	.venv-bench/bin/python -m benchmarks.slot $(BENCH_OPTIONS)

bench-replicate: .venv-bench/installed .lake/installed $(JAR)
	.venv-bench/bin/python -m benchmarks.replicate $(OLD:%=--old %) $(BENCH_OPTIONS)

# These measure one transaction of 10 million rows, changes anywhere in a table of 10 million rows, an hour of a hundred
# transactions a second, two hundred tables that all change, and a thousand of which one changes. All take long.
bench-replicate-hour: BENCH_OPTIONS := --minutes 60 --rounds 1
bench-replicate-large bench-replicate-keys bench-replicate-hour bench-replicate-two-hundred bench-replicate-thousand: bench-replicate-%: .venv-bench/installed .lake/installed $(JAR)
	.venv-bench/bin/python -m benchmarks.replicate $(OLD:%=--old %) --only $* $(BENCH_OPTIONS)

bench-compare: build
	$(BIN)/python -m benchmarks.compare $(OLD) $(JAR) $(COMPARE_OPTIONS)

dist: build
	$(BIN)/python -m build

clean:
	rm -rf .venv .venv-bench .spark-* .postgres .lake .lake-* .infra benchmarks/cache dist python/spark_pgoutput/jars jvm/target target project/target project/project

$(JAR): $(JAR_SOURCES) | $(VENV)/tools
	$(SBT) jvm/package jvm/Test/compile # because make test would compile the tests with a cold compiler
	@touch $@ # sbt does not write the JAR again if only comments changed

# The tools that start sbt. They are ready long before Spark is unpacked.
$(VENV)/tools: | requirements
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade 'pip>=25.1' # older versions of pip do not know groups
	$(BIN)/pip install --quiet --group build
	@touch $@

$(VENV)/installed: pyproject.toml | $(VENV)/tools
	$(BIN)/pip install --quiet --no-compile --group build --group lint --group test --group examples --group lake-spark -e '.[demo]'
	@touch $@

$(ARCHIVE): $(VENV)/installed tests/support/class_archive.py
	$(BIN)/python tests/support/class_archive.py $@

.postgres/%: | $(VENV)/tools
	$(BIN)/python tests/support/postgres_binaries.py "$$($(BIN)/jgo info path $(POSTGRES_JAR):$*)" $@

# Fills the folder of the target with the JARs of some formats, and with those that all of them need.
define copy-formats
rm -rf $(@D) && mkdir $(@D)
for jar in $(1) $(LAKE_JARS); do cp "$$($(BIN)/jgo info path $$jar)" $(@D) || exit 1; done
@touch $@
endef

.lake/installed: Makefile | $(VENV)/tools
	$(call copy-formats,$(FORMATS))

.lake-%/installed: Makefile | $(VENV)/tools
	$(call copy-formats,$(FORMATS_$*))

# The SDK is a part of the catalog's dependencies, and Spark has the other JARs that the SDK needs.
.infra/store: Makefile | $(VENV)/tools
	rm -rf .infra && mkdir -p .infra/spark .infra/catalog
	$(BIN)/pip install --quiet --group infra
	for jar in $(S3_JARS); do cp "$$($(BIN)/jgo info path $$jar)" .infra/spark || exit 1; done
	for jar in $(SDK_JARS) $(CATALOG_JARS); do cp "$$($(BIN)/jgo info path $$jar)" .infra/catalog || exit 1; done
	cp $$($(BIN)/jgo info jars $(CATALOG_TREE) | grep '^/') .infra/catalog
	cp .infra/catalog/*-$(AWS_VERSION).jar .infra/catalog/reactive-streams-*.jar .infra/catalog/eventstream-*.jar .infra/spark
	@touch $@

.infra/installed: .infra/store
	rm -rf .infra/kafka && mkdir .infra/kafka
	$(BIN)/pip install --quiet --group readers
	for jar in $(KAFKA_JARS); do cp "$$($(BIN)/jgo info path $$jar)" .infra/spark || exit 1; done
	cp $$($(BIN)/jgo info jars $(KAFKA) | grep '^/') .infra/kafka
	@touch $@

# This installs only another PySpark. All other packages come from .venv.
.spark-%/installed: | $(VENV)/tools
	$(BIN)/pip install --quiet --no-compile --upgrade --target .spark-$* pyspark==$*
	@touch $@

sparks: $(VENV)/installed $(OTHER_SPARKS:%=.spark-%/installed)

.venv-bench/installed: pyproject.toml | requirements
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/pip install --quiet --upgrade 'pip>=25.1'
	.venv-bench/bin/pip install --quiet --group bench --group test --group lake-spark -e '.[demo]'
	.venv-bench/bin/pip install --quiet --no-deps pypgoutput==0.0.3 # its psycopg2 needs a C compiler
	@touch $@

requirements:
	@$(PYTHON) -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || \
	  { echo "spark-pgoutput needs Python 3.10 or newer with the module venv. '$(PYTHON)' is not: name another one with make PYTHON=..." >&2; exit 1; }
	@$(JAVA) -version 2>&1 | grep -Eq 'version "(17|21)[."]' || \
	  { echo "spark-pgoutput needs Java 17 or 21. '$(JAVA)' is not: set JAVA_HOME to one." >&2; exit 1; }
