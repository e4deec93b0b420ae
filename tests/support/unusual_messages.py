"""Messages at the limits of what the format allows and just beyond, in hexadecimal."""

BEGIN = "42 0000000001851440 000303b0970ea19e 0000030c"

# The message, and whether it is in a stream block. None means that this does not matter.
LEGAL = {
    "truncate without relations": ("54 00000000 03", False),
    "relation without columns": ("52 00000001 00 7400 6e 0000", False),
    "tuple without columns": ("49 00000001 4e 0000", False),
    "unchanged value in an insert": ("49 00000001 4e 0001 75", False),
    "unchanged value in an old tuple": ("44 00000001 4f 0001 75", False),
    "relation id, xid and LSN of 0": ("49 00000000 00000000 4e 0000", True),
    "message in a stream with flags 0": ("4d 00000001 00 0000000000000000 00 00000000", True),
    "namespace with a control character": ("59 00000001 017800 7900", False),
    "NUL in a text value": ("49 00000001 4e 0001 74 00000003 610062", False),
    "first timestamp": ("42 0000000000000000 8000000000000000 00000000", None),
    "last timestamp": ("42 0000000000000000 7ffca2fec4c81fff 00000000", None),
    "LSN in the upper half": ("4f ffffffffffffffff 00", None),
}

# The message, whether it is in a stream block, and the byte where it fails.
MALFORMED = {
    "unknown tag": ("5a 00", None, 0),
    "tag of the streaming replication protocol": ("77 00", None, 0),
    "field past the end": ("42 00000000", None, 1),
    "second field past the end": ("42 0000000000000000 00", None, 9),
    "bytes left over": (BEGIN + "00", None, 21),
    "flags of commit": ("43 01", None, 1),
    "flags of stream commit": ("63 00000001 01", None, 5),
    "flags of prepare": ("50 80", None, 1),
    "flags of commit prepared": ("4b 02", None, 1),
    "flags of rollback prepared": ("72 01", None, 1),
    "flags of stream prepare": ("70 01", None, 1),
    "flags of a message": ("4d 02 0000000000000000 00 00000000", False, 1),
    "flags of a message in a stream": ("4d 00000001 02", True, 5),
    "first segment": ("53 00000001 02", None, 5),
    "flags of truncate": ("54 00000000 04", False, 5),
    "flags of truncate before its relations": ("54 ffffffff 04", False, 5),
    "relations of truncate": ("54 00000002 00 00000001 000000", False, 6),
    "too many relations of truncate": ("54 ffffffff 00 00000001", False, 6),
    "flags of a column": ("52 00000001 00 00 64 0001 02 00 00000000 00000000", False, 10),
    "replica identity": ("52 00000001 00 00 78 0000", False, 7),
    "columns of a relation": ("52 00000001 00 00 64 0001 00 00 00000000 000000", False, 10),
    "column past the end": ("52 00000001 00 00 64 0001 00 6100 00000000 000000", False, 17),
    "namespace without end": ("52 00000001 6162", False, 5),
    "name without end": ("52 00000001 00 6162", False, 6),
    "name that is not UTF-8": ("52 00000001 00 61ff00", False, 6),
    "insert without marker": ("49 00000001", False, 5),
    "insert of an old tuple": ("49 00000001 4f 0000", False, 5),
    "delete of a new tuple": ("44 00000001 4e 0000", False, 5),
    "update without new tuple": ("55 00000001 4b 0000", False, 8),
    "update of two old tuples": ("55 00000001 4b 0000 4f 0000", False, 8),
    "too many columns": ("49 00000001 4e 0003 6e 6e", False, 8),
    "column kind": ("49 00000001 4e 0002 6e 78", False, 9),
    "length of a value": ("49 00000001 4e 0001 74 0000", False, 9),
    "value past the end": ("49 00000001 4e 0001 62 00000002 61", False, 13),
    "value of 4 GB": ("49 00000001 4e 0001 74 ffffffff 61", False, 13),
    "value that is not UTF-8": ("49 00000001 4e 0001 74 00000002 61ff", False, 13),
    "surrogate in a value": ("49 00000001 4e 0001 74 00000003 eda080", False, 13),
    "content past the end": ("4d 00 0000000000000000 00 00000002 61", False, 15),
    "timestamp out of range": ("42 0000000000000000 7ffca2fec4c82000 00", None, 9),
}

# Messages that are decoded without `in_stream`. The value is the id of the transaction in the right
# reading, or None if the right reading has no id.
READINGS = {
    "insert": ("49 00000001 4e 0000", None),
    "insert in a stream": ("49 00000007 00000001 4e 0000", 7),
    "type": ("59 00000001 7800 7900", None),
    "type in a stream": ("59 00000007 00000001 7800 7900", 7),
    "type with an empty namespace": ("59 00000001 00 7900", None),
    "type whose namespace could be its id": ("59 00000007 0141424300 7900", 7),
    "message with a smaller LSN": ("4d 01 00000001 00000010 6162636465 00 00000000", None),
    "message with a smaller LSN, unsigned": (
        "4d 01 00000001 80000000 6162636465 00 00000000",
        None,
    ),
    "message with the same LSN": (
        "4d 01 00000001 00000001 00 000001 00 000000fc" + "61" * 252,
        None,
    ),
    "message with a smaller LSN in a stream": ("4d 00000001 01 0000000000000000 0500 00000000", 1),
    "message with a smaller LSN, but the id 0": (
        "4d 00000000 01 0000000000000000 0500 00000000",
        None,
    ),
}

# Messages of which neither reading is right, and the byte at which the reading that gets further
# fails.
NO_READING = {
    "both at the tag's end": ("49", 1),
    "reading without an id": ("49 00000001 4e 0003 6e 6e 78", 10),
    "reading with an id": ("49 00000001 00000001 4e 0001 78", 12),
    "id 0, so the reading without an id": ("49 00000000 00000001 4e 0000", 5),
    "wrong namespace without an id, too short with an id": ("59 00000001 017800 7900", 10),
    "message in a stream that is not transactional": ("4d 00000001 00 000000", 5),
}
