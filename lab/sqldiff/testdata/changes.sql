-- case: the condition above an outer join of a DELETE
CREATE TABLE o (id INT PRIMARY KEY, cust INT, ship INT);
-- affected 0
CREATE TABLE c (id INT PRIMARY KEY);
-- affected 0
CREATE TABLE s (id INT PRIMARY KEY, st VARCHAR(10));
-- affected 0
CREATE TABLE w (id INT PRIMARY KEY);
-- affected 0
INSERT INTO o VALUES (1,1,10),(2,2,20),(3,3,NULL);
-- affected 3
INSERT INTO c VALUES (1),(2),(3);
-- affected 3
INSERT INTO s VALUES (10,'sent'),(20,'new');
-- affected 2
INSERT INTO w VALUES (1),(2),(3);
-- affected 3
UPDATE o LEFT JOIN s ON o.ship = s.id JOIN c ON o.cust = c.id JOIN w ON w.id = o.id SET o.cust = 99 WHERE s.id IS NULL;
-- affected 1
DELETE o FROM o LEFT JOIN s ON o.ship = s.id JOIN c ON o.cust = c.id JOIN w ON w.id = o.id WHERE s.st = 'new';
-- affected 1
SELECT * FROM o;
-- = 1|1|10
-- = 3|99|NULL

-- case: an assignment sees those before it
CREATE TABLE t (id INT PRIMARY KEY, a TINYINT, b INT, c DECIMAL(5,1));
-- affected 0
INSERT INTO t VALUES (1, 1, 1, 1), (2, 2, 2, 2);
-- affected 2
UPDATE t SET a = a + 1, b = a * 10, c = b / 3 WHERE id > 0;
-- affected 2
SELECT * FROM t;
-- = 1|2|20|6.7
-- = 2|3|30|10.0
UPDATE t SET a = a * 100 WHERE id > 0;
-- ! 1264
SELECT * FROM t;
-- = 1|2|20|6.7
-- = 2|3|30|10.0

-- case: keys change in the order of the rows
CREATE TABLE t (id INT PRIMARY KEY, u INT UNIQUE);
-- affected 0
INSERT INTO t VALUES (1, 1), (2, 2), (3, 3);
-- affected 3
UPDATE t SET id = id + 1 WHERE id > 0;
-- ! 1062
UPDATE t SET id = id + 1 WHERE id > 0 ORDER BY id DESC;
-- affected 3
UPDATE t SET u = u - 1 WHERE id > 0;
-- affected 3
SELECT * FROM t;
-- = 2|0
-- = 3|1
-- = 4|2

-- case: rows of a table without a key that are equal
CREATE TABLE t (a INT, b VARCHAR(5));
-- affected 0
INSERT INTO t VALUES (1, 'x'), (1, 'x'), (1, 'x'), (2, 'y');
-- affected 4
DELETE FROM t WHERE a = 1 LIMIT 1;
-- affected 1
UPDATE t SET b = 'z' WHERE a = 1 LIMIT 1;
-- affected 1
SELECT * FROM t;
-- = 1|x
-- = 1|z
-- = 2|y

-- case: a row that matches several times is changed once
CREATE TABLE a (id INT PRIMARY KEY, n INT);
-- affected 0
CREATE TABLE b (id INT PRIMARY KEY, a INT);
-- affected 0
INSERT INTO a VALUES (1, 0), (2, 0), (3, 0);
-- affected 3
INSERT INTO b VALUES (1, 1), (2, 1), (3, 2);
-- affected 3
UPDATE a JOIN b ON b.a = a.id SET a.n = a.n + 1;
-- affected 2
SELECT * FROM a;
-- = 1|1
-- = 2|1
-- = 3|0
DELETE a, b FROM a JOIN b ON b.a = a.id WHERE a.id = 1;
-- affected 3
SELECT * FROM a;
-- = 2|1
-- = 3|0
SELECT * FROM b;
-- = 3|2

-- case: what is written does not come back
CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, a INT, KEY (a));
-- affected 0
INSERT INTO t (a) VALUES (1), (2), (3);
-- affected 3
UPDATE t SET a = a + 10 WHERE a > 0;
-- affected 3
INSERT INTO t (a) SELECT a FROM t;
-- affected 3
SELECT a, COUNT(*) FROM t GROUP BY a;
-- = 11|2
-- = 12|2
-- = 13|2
DELETE FROM t WHERE a > (SELECT m FROM (SELECT MIN(a) m FROM t) x);
-- affected 4
SELECT a FROM t;
-- = 11
-- = 11

-- case: several reads of one table, of which some overlap
CREATE TABLE d (n INT PRIMARY KEY);
-- affected 0
INSERT INTO d VALUES (0),(1),(2),(3),(4),(5),(6),(7),(8),(9);
-- affected 10
CREATE TABLE t (n INT PRIMARY KEY);
-- affected 0
INSERT INTO t SELECT a.n + 10 * b.n + 100 * c.n FROM d a, d b, d c WHERE c.n < 2;
-- affected 200
DELETE a FROM t a JOIN t b ON b.n = a.n + 1 WHERE b.n < 20;
-- affected 19
SELECT COUNT(*) FROM t;
-- = 181
