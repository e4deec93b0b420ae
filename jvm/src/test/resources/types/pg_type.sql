-- The base types, ranges and multiranges of the catalog: name, oid, oid of the array type, oid of the
-- element type (of arrays, but also of point and the like), delimiter.
--   psql -X -q -At -F $'\t' -f pg_type.sql > pg_type.tsv
select typname, oid::int8, typarray::int8, typelem::int8, typdelim
from pg_type
where typnamespace = 'pg_catalog'::regnamespace and typtype in ('b', 'r', 'm')
  -- The arrays of the catalog's own tables' rows.
  and not exists (select from pg_type row where row.oid = pg_type.typelem and row.typtype = 'c')
order by oid;
