# make demo    decode the slot of a real PostgreSQL, step by step
# make test    all tests; make test-sparks: those that depend on the Spark, on every minor
# make build   .venv with the package, the newest Spark and the JAR
# make bench   how fast it decodes, beside what else there is: benchmarks/output
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

# In two processes, what belongs together in one of them.
PARALLEL := --numprocesses 2 --dist loadfile

# The newest patch of each Spark minor but the last, which is make test's. 3.5 is to be refused.
SPARKS := 3.5.9 4.0.5 4.1.4 4.2.1
SPARK_TESTS := tests/test_registration.py tests/test_connect.py tests/test_optimizer.py tests/test_row_captures.py \
  tests/test_changes_optimizer.py \
  $(addprefix tests/test_decode.py::,test_captures test_golden_messages) \
  $(addprefix tests/test_changes_captures.py::,test_text_captures test_seams test_cut_into_partitions) \
  $(addprefix tests/test_changes_streaming.py::,test_cut_into_micro_batches \
    test_sorted_after_the_last_exchange)

.PHONY: demo test test-sparks bench bench-decoder bench-queries build lint format dist clean requirements

demo: build
	$(BIN)/spark-pgoutput demo

test: build
	$(SBT) jvm/test
	$(BIN)/pytest $(PARALLEL)

test-sparks: $(SPARKS:%=test-spark-%)

test-spark-3.5.9: SPARK_TESTS := --noconftest tests/test_unsupported_spark.py

$(SPARKS:%=test-spark-%): test-spark-%: .venv-spark-%/installed $(JAR)
	.venv-spark-$*/bin/pytest $(PARALLEL) $(SPARK_TESTS)

bench: bench-decoder bench-queries

bench-decoder: $(VENV)/installed
	mkdir -p benchmarks/output
	$(SBT) 'benchmarks/Jmh/run -prof gc -rf json -rff benchmarks/output/decoder.json'

bench-queries: .venv-bench/installed $(JAR)
	.venv-bench/bin/python -m benchmarks $(BENCH_OPTIONS)

build: $(VENV)/installed $(JAR)

lint: $(VENV)/installed
	$(SBT) scalafmtSbtCheck scalafmtCheckAll 'scalafixAll --check'
	$(BIN)/ruff format --check python tests benchmarks
	$(BIN)/ruff check python tests benchmarks
	$(BIN)/mypy python tests benchmarks

format: $(VENV)/installed
	$(SBT) scalafmtSbt scalafmtAll scalafixAll
	$(BIN)/ruff check --fix python tests benchmarks
	$(BIN)/ruff format python tests benchmarks

dist: build
	$(BIN)/python -m build

clean:
	rm -rf .venv .venv-bench .venv-spark-* benchmarks/cache dist python/spark_pgoutput/jars jvm/target target project/target project/project

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

.venv-bench/installed: pyproject.toml | requirements
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/pip install --quiet --upgrade 'pip>=25.1'
	.venv-bench/bin/pip install --quiet --group bench --group test --group newest-spark -e '.[demo]'
	.venv-bench/bin/pip install --quiet --no-deps pypgoutput==0.0.3 # its psycopg2 wants a C compiler
	@touch $@

requirements:
	@$(PYTHON) -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || \
	  { echo "spark-pgoutput needs Python 3.10 or newer with the module venv; '$(PYTHON)' is not (make PYTHON=… names another)" >&2; exit 1; }
	@$(JAVA) -version 2>&1 | grep -Eq 'version "(17|21)[."]' || \
	  { echo "spark-pgoutput needs Java 17 or 21; '$(JAVA)' is not (set JAVA_HOME)" >&2; exit 1; }
