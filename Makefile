# make demo    decode the slot of a real PostgreSQL, step by step
# make test    all tests; make test-sparks: the captures on every Spark minor
# make build   .venv with the package, the newest Spark and the JAR
# make lint    formatters, linters, type checker
#
# Each sets up what it needs in this folder. Needed: Python 3.10 or newer, Java 17 or 21.

PYTHON ?= python3
JAVA := $(if $(JAVA_HOME),$(JAVA_HOME)/bin/java,java)
VENV := .venv
BIN := $(VENV)/bin
SBT := $(BIN)/jgo run org.scala-sbt:sbt-launch:1.13.0 -- -Dsbt.supershell=false
JAR := python/spark_pgoutput/jars/spark-pgoutput.jar
JAR_SOURCES := build.sbt pyproject.toml $(shell find project jvm/src/main -type f -not -path '*/target/*')

# The newest patch of each Spark minor but the last, which is make test's. 3.5 is to be refused.
SPARKS := 3.5.9 4.0.5 4.1.4 4.2.1
SPARK_TESTS := tests/test_registration.py $(addprefix tests/test_decode.py::,test_captures test_golden_messages)

.PHONY: demo test test-sparks build lint format dist clean requirements

demo: build
	$(BIN)/spark-pgoutput demo

test: build
	$(SBT) jvm/test
	$(BIN)/pytest

test-sparks: $(SPARKS:%=test-spark-%)

test-spark-3.5.9: SPARK_TESTS := --noconftest tests/test_unsupported_spark.py

$(SPARKS:%=test-spark-%): test-spark-%: .venv-spark-%/installed $(JAR)
	.venv-spark-$*/bin/pytest $(SPARK_TESTS)

build: $(VENV)/installed $(JAR)

lint: $(VENV)/installed
	$(SBT) scalafmtSbtCheck scalafmtCheckAll 'scalafixAll --check'
	$(BIN)/ruff format --check python tests
	$(BIN)/ruff check python tests
	$(BIN)/mypy python tests

format: $(VENV)/installed
	$(SBT) scalafmtSbt scalafmtAll scalafixAll
	$(BIN)/ruff check --fix python tests
	$(BIN)/ruff format python tests

dist: build
	$(BIN)/python -m build

clean:
	rm -rf .venv .venv-spark-* dist python/spark_pgoutput/jars jvm/target target project/target project/project

$(JAR): $(JAR_SOURCES) | $(VENV)/installed
	$(SBT) jvm/package
	@touch $@ # sbt leaves it as it is where only comments changed

$(VENV)/installed: pyproject.toml | requirements
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/pip install --quiet --group build --group lint --group test --group newest-spark -e '.[demo]'
	@touch $@

.venv-spark-%/installed: pyproject.toml | requirements
	$(PYTHON) -m venv .venv-spark-$*
	.venv-spark-$*/bin/pip install --quiet --upgrade 'pip>=25.1' # which knows groups
	.venv-spark-$*/bin/pip install --quiet --group test 'pyspark[connect]==$*' -e .
	@touch $@

requirements:
	@$(PYTHON) -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || \
	  { echo "spark-pgoutput needs Python 3.10 or newer with the module venv; '$(PYTHON)' is not (make PYTHON=… names another)" >&2; exit 1; }
	@$(JAVA) -version 2>&1 | grep -Eq 'version "(17|21)[."]' || \
	  { echo "spark-pgoutput needs Java 17 or 21; '$(JAVA)' is not (set JAVA_HOME)" >&2; exit 1; }
