package io.sparkpgoutput.lake

/**
 * Object stores, by the schemes of Hadoop's connectors. A file is there only when it is whole, and a rename
 * is not atomic. The store of Azure is not one of them: its renames are.
 */
object ObjectStores {

  /** The schemes for which Delta's default log store is safe for only one driver. */
  val S3: Set[String] = Set("s3", "s3a", "s3n")

  val Schemes: Set[String] = S3 ++ Set("gs", "oss", "cosn", "obs")
}
