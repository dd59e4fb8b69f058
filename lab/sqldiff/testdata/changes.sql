-- case: the condition above an outer join of a DELETE
CREATE TABLE o (id INT PRIMARY KEY, cust INT, ship INT);
CREATE TABLE c (id INT PRIMARY KEY);
CREATE TABLE s (id INT PRIMARY KEY, st VARCHAR(10));
CREATE TABLE w (id INT PRIMARY KEY);
INSERT INTO o VALUES (1,1,10),(2,2,20),(3,3,NULL);
INSERT INTO c VALUES (1),(2),(3);
INSERT INTO s VALUES (10,'sent'),(20,'new');
INSERT INTO w VALUES (1),(2),(3);
UPDATE o LEFT JOIN s ON o.ship = s.id JOIN c ON o.cust = c.id JOIN w ON w.id = o.id SET o.cust = 99 WHERE s.id IS NULL;
DELETE o FROM o LEFT JOIN s ON o.ship = s.id JOIN c ON o.cust = c.id JOIN w ON w.id = o.id WHERE s.st = 'new';
SELECT * FROM o;

-- case: an assignment sees those before it
CREATE TABLE t (id INT PRIMARY KEY, a TINYINT, b INT, c DECIMAL(5,1));
INSERT INTO t VALUES (1, 1, 1, 1), (2, 2, 2, 2);
UPDATE t SET a = a + 1, b = a * 10, c = b / 3 WHERE id > 0;
SELECT * FROM t;
UPDATE t SET a = a * 100 WHERE id > 0;
SELECT * FROM t;

-- case: keys change in the order of the rows
CREATE TABLE t (id INT PRIMARY KEY, u INT UNIQUE);
INSERT INTO t VALUES (1, 1), (2, 2), (3, 3);
UPDATE t SET id = id + 1 WHERE id > 0;
UPDATE t SET id = id + 1 WHERE id > 0 ORDER BY id DESC;
UPDATE t SET u = u - 1 WHERE id > 0;
SELECT * FROM t;

-- case: rows of a table without a key that are equal
CREATE TABLE t (a INT, b VARCHAR(5));
INSERT INTO t VALUES (1, 'x'), (1, 'x'), (1, 'x'), (2, 'y');
DELETE FROM t WHERE a = 1 LIMIT 1;
UPDATE t SET b = 'z' WHERE a = 1 LIMIT 1;
SELECT * FROM t;

-- case: a row that matches several times is changed once
CREATE TABLE a (id INT PRIMARY KEY, n INT);
CREATE TABLE b (id INT PRIMARY KEY, a INT);
INSERT INTO a VALUES (1, 0), (2, 0), (3, 0);
INSERT INTO b VALUES (1, 1), (2, 1), (3, 2);
UPDATE a JOIN b ON b.a = a.id SET a.n = a.n + 1;
SELECT * FROM a;
DELETE a, b FROM a JOIN b ON b.a = a.id WHERE a.id = 1;
SELECT * FROM a;
SELECT * FROM b;

-- case: what is written does not come back
CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, a INT, KEY (a));
INSERT INTO t (a) VALUES (1), (2), (3);
UPDATE t SET a = a + 10 WHERE a > 0;
INSERT INTO t (a) SELECT a FROM t;
SELECT a, COUNT(*) FROM t GROUP BY a;
DELETE FROM t WHERE a > (SELECT m FROM (SELECT MIN(a) m FROM t) x);
SELECT a FROM t;
