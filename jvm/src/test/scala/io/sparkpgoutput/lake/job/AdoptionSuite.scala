package io.sparkpgoutput.lake.job

import io.sparkpgoutput.SparkSessionTests
import io.sparkpgoutput.errors.LakeException

class AdoptionSuite extends SparkSessionTests {

  test("a text that is not an LSN is refused before anything is read") {
    val error = intercept[LakeException](Adoption.adopt(spark, java.util.Map.of(), "16/"))
    assert(error.getCondition == "PGOUTPUT_REPLICATE_OPTION")
    assert(error.getMessage.contains("'16/'"))
  }
}
