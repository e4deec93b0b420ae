-- Change the tables while no stream runs. The slot keeps the changes.
UPDATE orders SET status = 'paid' WHERE id = 2;
INSERT INTO orders (customer_id, total) VALUES (4, 30.00);
DELETE FROM customers WHERE id = 1;
