package io.sparkpgoutput.protocol

import java.nio.file.{Files, Path}

/** Writes the struct of a decoded message as JSON. The build runs it, and Python reads the file. */
object MessageSchemaFile {
  def main(arguments: Array[String]): Unit =
    Files.writeString(Path.of(arguments.head), MessageSchema.schema.json)
}
