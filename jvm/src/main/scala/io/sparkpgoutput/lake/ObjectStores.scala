package io.sparkpgoutput.lake

/**
 * Object stores, by the schemes of Hadoop's connectors. A file is there only when it is whole, and a rename
 * is not atomic. The store of Azure is not one of them: its renames are.
 */
object ObjectStores {

  /** Those for which Delta by itself takes a log store that is safe for one driver only. */
  val S3: Set[String] = Set("s3", "s3a", "s3n")

  val Schemes: Set[String] = S3 ++ Set("gs", "oss", "cosn", "obs")
}
