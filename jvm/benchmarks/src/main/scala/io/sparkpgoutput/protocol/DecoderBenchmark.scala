package io.sparkpgoutput.protocol

import java.util.concurrent.TimeUnit

import org.openjdk.jmh.annotations._

/** How the benchmarks of the decoder measure: nanoseconds, the code compiled and warm. */
@State(Scope.Benchmark)
@BenchmarkMode(Array(Mode.AverageTime))
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@Fork(1)
@Warmup(iterations = 3, time = 500, timeUnit = TimeUnit.MILLISECONDS)
@Measurement(iterations = 5, time = 500, timeUnit = TimeUnit.MILLISECONDS)
abstract class DecoderBenchmark
