-- Decode each message into a struct and turn the struct's fields into columns.
-- The source sends whole transactions, so no message is in_stream.
CREATE TEMPORARY VIEW decoded AS
SELECT seq, xid AS transaction, octet_length(data) AS bytes, message.*
FROM (SELECT *, pgoutput_decode(data, false) AS message FROM messages)

-- Show a tuple as text. Its field kinds has one letter for each column: n means
-- NULL, and u means a large value (TOAST) that did not change and was not sent.
CREATE TEMPORARY FUNCTION cells(
  names ARRAY<STRING>, kinds STRING, text ARRAY<STRING>, null_text STRING)
RETURNS STRING
RETURN IF(kinds IS NULL, NULL, concat_ws(', ', transform(names, (name, i) ->
  name || '=' || CASE substring(kinds, i + 1, 1)
    WHEN 'n' THEN null_text
    WHEN 'u' THEN '<unchanged TOAST>'
    ELSE IF(length(text[i]) > 32, left(text[i], 24) || '...', text[i])
  END)))

-- Count the messages by type.
SELECT type, count(*) AS messages, sum(bytes) AS bytes, min(seq) AS first_seq
FROM decoded GROUP BY type ORDER BY first_seq

-- List the tables with their last definition. A * marks the columns of the
-- replica identity (d: primary key, i: another index, f: all, n: none).
SELECT relation_id, relation.namespace || '.' || relation.name AS relation,
       relation.replica_identity AS identity,
       array_join(transform(relation.columns,
         column -> column.name || IF(column.key, '*', '')), ', ') AS columns
FROM (
  SELECT relation_id, max_by(relation, seq) AS relation
  FROM decoded WHERE type = 'RELATION' GROUP BY relation_id
)
ORDER BY relation LIMIT 20

-- Show the first change of each shape. The column names come from the last
-- RELATION before the change. In a key, n means that it lacks the column.
SELECT seq, transaction AS xid, type || ' ' || described.name AS change,
       concat_ws('\n',
         'key: ' || cells(described.columns.name, key.kinds, key.text, NULL),
         'old: ' || cells(described.columns.name, old.kinds, old.text, 'NULL'),
         'new: ' || cells(described.columns.name, new.kinds, new.text, 'NULL')
       ) AS tuples
FROM (
  SELECT *, row_number() OVER (
      PARTITION BY relation_id, type, key.kinds, old.kinds, new.kinds
      ORDER BY seq) AS nth
  FROM (
    SELECT *, last_value(relation) IGNORE NULLS OVER (
        PARTITION BY relation_id ORDER BY seq) AS described
    FROM decoded
  )
  WHERE type IN ('INSERT', 'UPDATE', 'DELETE')
)
WHERE nth = 1 ORDER BY seq LIMIT 20

-- Show the commits of the transactions, and the other messages without rows.
SELECT seq, transaction AS xid, type, origin, pg_lsn_format(lsn) AS lsn,
       date_format(timestamp, 'HH:mm:ss.SSS') AS time
FROM decoded
WHERE type IN ('COMMIT', 'ORIGIN', 'TRUNCATE')
ORDER BY seq LIMIT 30

-- Find the Spark schema of the table with the most changes.
SELECT relation_id, pgoutput_schema(relation) AS schema
FROM (
  SELECT relation_id, count_if(type <> 'RELATION') AS changes,
         max_by(relation, seq) FILTER (WHERE type = 'RELATION') AS relation
  FROM decoded WHERE relation_id IS NOT NULL GROUP BY relation_id
)
ORDER BY changes DESC LIMIT 1

-- Show the table's changes as rows of this schema. A value that does not fit
-- becomes NULL; with pgoutput_row it raises an error.
SELECT seq, type, row.*
FROM (
  SELECT seq, type, try_pgoutput_row(coalesce(new, old, key), '
{columns}') AS row
  FROM decoded
  WHERE relation_id = {relation_id} AND type IN ('INSERT', 'UPDATE', 'DELETE')
    AND length(coalesce(new, old, key).kinds) = {cells}
)
ORDER BY seq LIMIT 8
