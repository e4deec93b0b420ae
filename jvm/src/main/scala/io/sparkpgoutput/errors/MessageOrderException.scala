package io.sparkpgoutput.errors

/** The order of the messages is not known. 22023 is PostgreSQL's invalid_parameter_value. */
final class MessageOrderException(text: String)
    extends PgOutputException("PGOUTPUT_MESSAGE_ORDER", "22023", text)

object MessageOrderException {
  def nullPosition: MessageOrderException = new MessageOrderException(
    "The position of a message is NULL, so the message cannot be put in order. Leave out such rows, " +
      "or give each message a position."
  )
}
