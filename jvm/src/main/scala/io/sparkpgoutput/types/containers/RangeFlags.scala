package io.sparkpgoutput.types.containers

import io.sparkpgoutput.types.{BinaryReader, InvalidValue}

/** The flags of binary ranges: `src/include/utils/rangetypes.h`. */
object RangeFlags {
  final val EmptyFlag = 1
  final val LowerInclusiveFlag = 2
  final val UpperInclusiveFlag = 4
  final val NoLowerFlag = 8
  final val NoUpperFlag = 16
  final private val AllFlags = 31

  /** Reads the flags. A missing bound cannot be inclusive. */
  def read(typeName: String, reader: BinaryReader): Int = {
    val flags = reader.uint8()
    val contradict =
      (flags & NoLowerFlag) != 0 && (flags & LowerInclusiveFlag) != 0 ||
        (flags & NoUpperFlag) != 0 && (flags & UpperInclusiveFlag) != 0
    if ((flags & ~AllFlags) != 0 || contradict) throw InvalidValue.malformed(typeName)
    flags
  }
}
