-- Turn the messages into the committed changes of tables.
CREATE TEMPORARY VIEW changes AS
SELECT * FROM pgoutput_changes('messages', 'seq')

-- Count the changes of each table.
SELECT _table, _change_type, count(*) AS changes,
       count(DISTINCT _commit_version) AS commits
FROM changes GROUP BY ALL ORDER BY ALL LIMIT 20

-- Show the first changes. _missing lists the columns that were not sent.
SELECT pg_lsn_format(_commit_version) AS version, _table, _change_type,
       concat_ws('\n',
         array_join(transform(map_entries(row), cell ->
           cell.key || '=' || coalesce(left(cell.value, 24), 'NULL')), ', '),
         'missing: ' || nullif(array_join(_missing, ', '), '')) AS row
FROM changes
ORDER BY _commit_version, _ordinal LIMIT 12

-- Rebuild the tables from the changes. Each cell has the value that was sent
-- last, unless the row's last change deleted it or a TRUNCATE came later.
CREATE TEMPORARY VIEW rebuilt AS
SELECT _table, row['id'] AS id, column, max_by(cell, place) AS cell
FROM (
  SELECT *, max_by(_change_type, place) OVER (
              PARTITION BY _table, row['id']) AS last_change,
            max(IF(_change_type = 'truncate', place, NULL)) OVER (
              PARTITION BY _table) AS truncated
  FROM (SELECT *, (_commit_version, _ordinal) AS place FROM changes)
)
LATERAL VIEW explode(row) AS column, cell
WHERE last_change IN ('insert', 'update_postimage')
  AND (truncated IS NULL OR place > truncated)
GROUP BY _table, row['id'], column

-- List all cells of the tables in the lake as text.
CREATE TEMPORARY VIEW lake AS
SELECT 'public.customers' AS _table, CAST(id AS STRING) AS id, column, cell
FROM delta.`{lake}/customers`
LATERAL VIEW stack(4,
  'id', CAST(id AS STRING), 'name', name, 'email', email, 'picture', picture
) AS column, cell
UNION ALL
SELECT 'public.orders', CAST(id AS STRING), column, cell
FROM delta.`{lake}/orders`
LATERAL VIEW stack(5,
  'id', CAST(id AS STRING), 'customer_id', CAST(customer_id AS STRING),
  'status', status, 'total', CAST(total AS STRING),
  'placed_at', date_format(placed_at, 'yyyy-MM-dd HH:mm:ss+00')
) AS column, cell

-- Count the cells of the {name} tables and the server's tables, and compare.
SELECT _table, count(DISTINCT id) AS rows,
       count({name}.id) AS {name}, count(server.id) AS server,
       count_if({name}.id = server.id
         AND {name}.cell <=> server.cell) AS equal
FROM {name} FULL JOIN server USING (_table, id, column)
GROUP BY _table ORDER BY _table
