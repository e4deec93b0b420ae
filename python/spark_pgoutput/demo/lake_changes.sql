-- Change the tables while no job runs. The second statement changes a key, and
-- PostgreSQL does not send the picture.
INSERT INTO customers (id, name, picture)
    SELECT 5, 'Edsger', string_agg(md5(i::text), '')
    FROM generate_series(1, 300) AS i;
UPDATE customers SET id = 6 WHERE id = 5;
UPDATE orders SET status = 'shipped' WHERE status = 'paid';
DELETE FROM orders WHERE customer_id = 3;
