package io.sparkpgoutput.source.reader

import io.sparkpgoutput.SparkSessionTests

class ReadReportsSuite extends SparkSessionTests {
  test("the time of the last commit stays through batches without commits") {
    val reports = new ReadReports(spark.sparkContext)
    assert(reports.last == ReadReport(0, 0, 0, None))
    reports.accumulator.add((10, 3, 700, Some("host")))
    assert(reports.last == ReadReport(10, 3, 700, Some("host")))
    reports.accumulator.add((20, 0, 0, None))
    assert(reports.last == ReadReport(20, 0, 700, None))
    assert(reports.last == ReadReport(20, 0, 700, None))
  }
}
