-- List all cells of the tables as text, one row for each cell.
SELECT 'public.customers' AS _table, id::text, cell.*
FROM customers, unnest(
    ARRAY['id', 'name', 'email', 'picture'],
    ARRAY[id::text, name, email, picture]) AS cell ("column", cell)
UNION ALL
SELECT 'public.orders', id::text, cell.*
FROM orders, unnest(
    ARRAY['id', 'customer_id', 'status', 'total', 'placed_at'],
    ARRAY[id::text, customer_id::text, status::text, total::text,
          placed_at::text]) AS cell
