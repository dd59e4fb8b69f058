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

-- case: values that do not fit, in strict mode
CREATE TABLE t (id INT PRIMARY KEY, a TINYINT NOT NULL, b VARCHAR(3), c DECIMAL(4,1), d DATE, e ENUM('x','y'), CHECK (c < 100));
-- affected 0
INSERT INTO t VALUES (1, 1, 'a', 1, NULL, 'x'), (2, 128, 'a', 1, NULL, 'x');
-- ! 1264
INSERT INTO t VALUES (1, 'abc', 'a', 1, NULL, 'x');
-- ! 1366
INSERT INTO t VALUES (1, '12abc', 'a', 1, NULL, 'x');
-- ! 1265
INSERT INTO t VALUES (1, NULL, 'a', 1, NULL, 'x');
-- ! 1048
INSERT INTO t (id) VALUES (1);
-- ! 1364
INSERT INTO t VALUES (1, DEFAULT, 'a', 1, NULL, 'x');
-- ! 1364
INSERT INTO t VALUES (1, 1, 'long', 1, NULL, 'x');
-- ! 1406
INSERT INTO t VALUES (1, 1, 'a', 1000, NULL, 'x');
-- ! 1264
INSERT INTO t VALUES (1, 1, 'a', 1, '2024-02-30', 'x');
-- ! 1292
INSERT INTO t VALUES (1, 1, 'a', 1, NULL, 'z');
-- ! 1265
INSERT INTO t VALUES (1, 1, 'a', 1/0, NULL, 'x');
-- ! 1365
INSERT INTO t VALUES (1, 1);
-- ! 1136
INSERT INTO t (id, a, a) VALUES (1, 1, 1);
-- ! 1110
INSERT INTO t VALUES (1, 1, 'a', 1, NULL, 'x'), (1, 2, 'b', 1, NULL, 'y'), (3, 300, 'a', 1, NULL, 'x');
-- ! 1062
INSERT INTO t VALUES (1, 1, 'a', 1, NULL, 'x'), (1, 2, 'b', 1/0, NULL, 'y');
-- ! 1365
UPDATE t SET a = 1/0;
-- affected 0
INSERT INTO t VALUES (1, 1.5, 'a', '1.26', 20240131, 2);
-- affected 1
UPDATE t SET c = 1/0;
-- ! 1365
UPDATE t SET a = DEFAULT;
-- ! 1364
SELECT * FROM t;
-- = 1|2|a|1.3|2024-01-31|y

-- case: values over columns before them
CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, a INT DEFAULT 7, b INT, c INT AS (a + b) STORED);
-- affected 0
INSERT INTO t (b, a) VALUES (a + 1, 5), (a * 2, b + 1);
-- affected 2
INSERT INTO t SET a = 3, b = a;
-- affected 1
INSERT INTO t VALUES (DEFAULT, DEFAULT, (SELECT COUNT(*) FROM (SELECT 1) x), DEFAULT);
-- affected 1
SELECT * FROM t;
-- = 1|5|8|13
-- = 2|15|14|29
-- = 3|3|3|6
-- = 4|7|1|8

-- case: IGNORE
CREATE TABLE t (id INT PRIMARY KEY, u INT UNIQUE, a TINYINT NOT NULL, CHECK (a < 100));
-- affected 0
INSERT INTO t VALUES (1, 1, 1), (2, 2, 2);
-- affected 2
INSERT IGNORE INTO t VALUES (1, 9, 9), (3, 2, 9), (4, 4, NULL), (5, 5, 100), (6, 6, 'x');
-- affected 2
UPDATE IGNORE t SET u = u + 1 WHERE id > 0;
-- affected 3
UPDATE IGNORE t SET id = 1 WHERE id = 2;
-- affected 0
SELECT * FROM t;
-- = 1|1|1
-- = 2|3|2
-- = 4|5|0
-- = 6|7|0

-- case: rows in the way
CREATE TABLE t (id INT PRIMARY KEY, u INT UNIQUE, n INT);
-- affected 0
INSERT INTO t VALUES (1, 1, 1), (2, 2, 2), (3, 3, 3);
-- affected 3
INSERT INTO t VALUES (1, 9, 10), (9, 2, 20), (4, 4, 4), (4, 5, 6) ON DUPLICATE KEY UPDATE n = n + VALUES(n);
-- affected 7
INSERT INTO t VALUES (1, 1, 1) ON DUPLICATE KEY UPDATE n = n;
-- affected 0
INSERT INTO t VALUES (1, 1, 1) ON DUPLICATE KEY UPDATE u = u + 10, n = u;
-- affected 2
INSERT INTO t SELECT 2, 2, 5 ON DUPLICATE KEY UPDATE n = VALUES(n);
-- affected 2
INSERT INTO t VALUES (1, 1, 1) ON DUPLICATE KEY UPDATE id = 2;
-- ! 1062
REPLACE INTO t VALUES (3, 2, 0), (7, 7, 7);
-- affected 4
SELECT * FROM t;
-- = 1|11|11
-- = 3|2|0
-- = 4|4|10
-- = 7|7|7

-- case: foreign keys
CREATE TABLE p (id INT PRIMARY KEY, u INT UNIQUE);
-- affected 0
CREATE TABLE c (id INT PRIMARY KEY, p INT, u INT, FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE ON UPDATE CASCADE, FOREIGN KEY (u) REFERENCES p (u) ON DELETE SET NULL);
-- affected 0
CREATE TABLE g (id INT PRIMARY KEY, c INT, FOREIGN KEY (c) REFERENCES c (id));
-- affected 0
INSERT INTO p VALUES (1, 10), (2, 20), (3, 30), (4, 40);
-- affected 4
INSERT INTO c VALUES (1, 1, 20), (2, 2, NULL), (3, NULL, 30), (4, 4, 40);
-- affected 4
INSERT INTO c VALUES (5, 1, 10), (6, 9, NULL);
-- ! 1452
INSERT IGNORE INTO c VALUES (5, 1, 10), (6, 9, NULL);
-- affected 1
INSERT INTO g VALUES (1, 4);
-- affected 1
UPDATE c SET p = 9 WHERE id > 0;
-- ! 1452
UPDATE p SET id = id + 100 WHERE id < 3;
-- affected 2
UPDATE p SET u = 31 WHERE id = 3;
-- ! 1451
DELETE FROM p WHERE id IN (3, 4);
-- ! 1451
DELETE IGNORE FROM p WHERE id IN (3, 4);
-- affected 1
DELETE FROM p WHERE id > 100;
-- affected 2
SELECT * FROM p;
-- = 4|40
SELECT * FROM c;
-- = 3|NULL|NULL
-- = 4|4|40

-- case: a column rounds a quotient itself
CREATE TABLE t (id INT PRIMARY KEY, a DECIMAL(30,10));
-- affected 0
INSERT INTO t VALUES (1, -3.10 / 1.5), (2, 0);
-- affected 2
UPDATE t SET a = 2 / 3 WHERE id = 2;
-- affected 1
INSERT INTO t SELECT id + 2, 1 / 3 FROM t WHERE id = 1;
-- affected 1
INSERT INTO t VALUES (3, 0) ON DUPLICATE KEY UPDATE a = 1 / 7;
-- affected 2
SELECT * FROM t;
-- = 1|-2.0666666667
-- = 2|0.6666666660
-- = 3|0.1428571420

-- case: WITH LOCAL CHECK OPTION asks the views below that have one
-- mysql: the manual: with LOCAL, checking recurses to the views below and applies the same rules; MariaDB asks none of them
CREATE TABLE t (id INT PRIMARY KEY, a INT);
-- affected 0
CREATE VIEW v AS SELECT * FROM t WHERE a = 1 WITH CASCADED CHECK OPTION;
-- affected 0
CREATE VIEW w AS SELECT * FROM v WITH LOCAL CHECK OPTION;
-- affected 0
INSERT INTO w VALUES (1, 2);
-- ! 1369
INSERT INTO w VALUES (1, 1);
-- affected 1

-- case: a CHAR shows no spaces at its end
CREATE TABLE t (id INT PRIMARY KEY, c CHAR(10), v VARCHAR(10));
-- affected 0
INSERT INTO t VALUES (1, 'a ', 'a '), (2, LEFT('a b', 2), LEFT('a b', 2));
-- affected 2
INSERT INTO t SELECT 3, c, v FROM t WHERE id = 1;
-- affected 1
UPDATE t SET c = CONCAT(c, ' ') WHERE id = 1;
-- affected 0
UPDATE t SET c = 'b  ', v = 'b  ' WHERE id = 2;
-- affected 1
INSERT INTO t VALUES (4, '  x  ', '  x  ') ON DUPLICATE KEY UPDATE c = 'y ';
-- affected 1
SELECT id, CONCAT(c, '|'), CONCAT(v, '|'), LENGTH(c) FROM t;
-- = 1|a||a ||1
-- = 2|b||b  ||1
-- = 3|a||a ||1
-- = 4|  x||  x  ||3

-- case: without strict mode NULL is a zero in an UPDATE of several columns
CREATE TABLE t (id INT PRIMARY KEY, a INT NOT NULL, s VARCHAR(2));
-- affected 0
INSERT INTO t VALUES (1, 5, 'x'), (2, 6, 'y');
-- affected 2
SET sql_mode = 'NO_ENGINE_SUBSTITUTION';
-- affected 0
UPDATE t SET a = NULL, s = 'abc';
-- affected 2
SET sql_mode = 'STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION';
-- affected 0
SELECT * FROM t;
-- = 1|0|ab
-- = 2|0|ab

-- case: a row that is there already comes before a later row that a CHECK OPTION forbids
CREATE TABLE t (id INT PRIMARY KEY, a INT);
-- affected 0
CREATE VIEW v AS SELECT * FROM t WHERE a <> 1 WITH CHECK OPTION;
-- affected 0
INSERT INTO v VALUES (1, 2);
-- affected 1
INSERT INTO v VALUES (1, 5), (2, 1);
-- ! 1062
INSERT INTO v VALUES (2, 1), (1, 5);
-- ! 1369

-- case: a text is no number of more members than a SET has
-- mysql: Field_set::store; MariaDB takes '-1' for all members
CREATE TABLE t (id INT PRIMARY KEY, s SET('x','one','two'));
-- affected 0
INSERT IGNORE INTO t VALUES (1, '7'), (2, '8'), (3, '-1'), (4, 15), (5, BIN(-1));
-- affected 5
SELECT * FROM t;
-- = 1|x,one,two
-- = 2|
-- = 3|
-- = 4|x,one,two
-- = 5|

-- case: minus zero is zero
CREATE TABLE t (id INT PRIMARY KEY, d DOUBLE);
-- affected 0
INSERT INTO t VALUES (1, 0), (2, 1);
-- affected 2
UPDATE t SET d = (- d);
-- affected 1

-- case: CHECK OPTION looks at the row that ON DUPLICATE KEY UPDATE leaves as it is
CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT);
-- affected 0
CREATE VIEW v AS SELECT * FROM t WHERE b <> 0 WITH CHECK OPTION;
-- affected 0
INSERT INTO t VALUES (1, 0, NULL), (2, 0, 5);
-- affected 2
INSERT INTO v VALUES (1, 3, 4) ON DUPLICATE KEY UPDATE a = 0;
-- ! 1369
INSERT INTO v VALUES (2, 3, 4) ON DUPLICATE KEY UPDATE a = 0;
-- affected 0

-- case: ON DUPLICATE KEY UPDATE by a division by zero
CREATE TABLE t (id INT PRIMARY KEY, a INT NOT NULL);
-- affected 0
INSERT INTO t VALUES (1, 1);
-- affected 1
INSERT INTO t VALUES (1, 2) ON DUPLICATE KEY UPDATE a = (1 DIV 0);
-- ! 1365

-- case: a text that is the number 0 for a SET and an ENUM
CREATE TABLE t (id INT PRIMARY KEY, s SET('x','one','two') NOT NULL, e ENUM('x','one','two') NOT NULL);
-- affected 0
INSERT INTO t VALUES (1, '-0', 'x');
-- affected 1
INSERT INTO t VALUES (2, '0', 'one');
-- affected 1
INSERT INTO t VALUES (3, ' -0', '2');
-- affected 1
INSERT INTO t VALUES (4, 'x', '0');
-- ! 1265
INSERT INTO t VALUES (5, 'x', '-0');
-- ! 1265
INSERT INTO t VALUES (6, 'x', '-1');
-- ! 1265
INSERT INTO t SELECT id + 10, SUBSTRING('2024-01-31', 5, 1), SUBSTRING('2024-01', 5, 2) FROM t WHERE id = 1;
-- ! 1265
INSERT INTO t SELECT id + 20, SUBSTRING('2024-01-31', 5, 2), e FROM t WHERE id = 1;
-- affected 1
SELECT id, s, s + 0, e, e + 0 FROM t;
-- = 1||0|x|1
-- = 21||0|x|1
-- = 2||0|one|2
-- = 3||0|one|2

-- case: names of constraints that are there, or not
-- mysql: MariaDB has other numbers (121, 1826 for a CHECK, 1091)
CREATE TABLE p (id INT PRIMARY KEY);
-- affected 0
CREATE TABLE q (id INT PRIMARY KEY, a INT, b INT, CONSTRAINT f FOREIGN KEY (a) REFERENCES p (id), CONSTRAINT k CHECK (a > 0));
-- affected 0
ALTER TABLE q ADD CONSTRAINT f FOREIGN KEY (b) REFERENCES p (id);
-- ! 1826
CREATE TABLE r (id INT PRIMARY KEY, CONSTRAINT f FOREIGN KEY (id) REFERENCES p (id));
-- ! 1826
ALTER TABLE q ADD CONSTRAINT k CHECK (b > 0);
-- ! 3822
ALTER TABLE q DROP FOREIGN KEY g;
-- ! 1091
ALTER TABLE q DROP CONSTRAINT g;
-- ! 3940
