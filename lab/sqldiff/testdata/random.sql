-- case: ENUMs compare by their texts
CREATE TABLE e (id INT PRIMARY KEY, c ENUM('x','one','two','abc'), d ENUM('x','one','two','abc'));
-- affected 0
INSERT INTO e VALUES (1, 'x', 'one'), (2, 'two', 'abc'), (3, 'abc', 'x'), (4, NULL, 'x');
-- affected 4
SELECT id FROM e WHERE c < d;
-- = 3
SELECT id FROM e WHERE c BETWEEN 'm' AND 'y';
-- = 1
-- = 2
SELECT a.id, b.id FROM e a JOIN e b ON a.c = b.d;
-- = 1|3
-- = 1|4
-- = 3|2
SELECT MIN(c), MAX(c) FROM e;
-- = abc|x
SELECT id FROM e WHERE c > 2;
-- = 2
-- = 3

-- case: a set operation keeps the fractions of its right side
CREATE TABLE d (x DATETIME(6));
-- affected 0
INSERT INTO d VALUES ('2024-01-31 10:11:12.75');
-- affected 1
SELECT TIMESTAMP'2024-01-31 12:00:00' AS x UNION ALL SELECT x FROM d;
-- = 2024-01-31 10:11:12.750000
-- = 2024-01-31 12:00:00.000000

-- case: a number of two digits beside a YEAR
CREATE TABLE y (id INT PRIMARY KEY, y YEAR);
-- affected 0
INSERT INTO y VALUES (1, 2024), (2, 1999), (3, 2001);
-- affected 3
SELECT id FROM y WHERE y > 1;
-- = 1
SELECT id FROM y WHERE y IN (1, 99);
-- = 2
-- = 3

-- case: equal texts of another collation
CREATE TABLE l (a VARCHAR(9) COLLATE utf8mb4_general_ci);
-- affected 0
CREATE TABLE r (b VARCHAR(9) COLLATE utf8mb4_general_ci);
-- affected 0
INSERT INTO l VALUES ('x'), ('y');
-- affected 2
INSERT INTO r VALUES ('X'), ('y');
-- affected 2
SELECT a, b FROM l JOIN r ON a = b WHERE a COLLATE utf8mb4_bin = 'x';
-- = x|X
SELECT a, b FROM l JOIN r ON a = b WHERE HEX(a) = '78';
-- = x|X

-- case: NULL between
CREATE TABLE n (id INT PRIMARY KEY);
-- affected 0
INSERT INTO n VALUES (1);
-- affected 1
SELECT id FROM n WHERE NULL BETWEEN NULL AND 'ONE';
-- no rows
SELECT id FROM n WHERE (NULL BETWEEN NULL AND 'ONE') IS NULL;
-- = 1

-- case: TRIM with a direction
CREATE TABLE t (s VARCHAR(9));
-- affected 0
INSERT INTO t VALUES ('oofoo');
-- affected 1
SELECT TRIM(BOTH 'o' FROM s), TRIM(LEADING 'o' FROM s), TRIM(TRAILING 'o' FROM s) FROM t;
-- = f|foo|oof

-- case: the collation of literals
SELECT STRCMP('b%c', 'b_c');
-- = -1

-- case: the contrary of the least number
CREATE TABLE m (t TINYINT, s SMALLINT, i INT);
-- affected 0
INSERT INTO m VALUES (-128, -32768, -2147483648);
-- affected 1
SELECT -t, -s, -i, ABS(t) FROM m;
-- = 128|32768|2147483648|128

-- case: collations of several elements of IN
CREATE TABLE c (a VARCHAR(9) COLLATE utf8mb4_general_ci, b VARCHAR(9) COLLATE utf8mb4_unicode_ci);
-- affected 0
SELECT 1 FROM c WHERE 'x' IN (a, b);
-- ! 1270
