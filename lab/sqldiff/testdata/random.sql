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

-- case: quotients in aggregates that do not add up
CREATE TABLE q (id INT PRIMARY KEY, d DECIMAL(30,10), e DECIMAL(10,2));
-- affected 0
INSERT INTO q VALUES (0, 1.5, 1), (1, 0.3333333333, 3);
-- affected 2
SELECT MAX(e / 1.5), MIN(d / d), MAX(-3.10 / 1.5), GROUP_CONCAT(e / 3 ORDER BY id), COUNT(DISTINCT id / 30000) FROM q;
-- = 2.000000|1.00000000000000|-2.066667|0.333333,1.000000|1

-- case: NULLIF with a constant
CREATE TABLE z (id INT PRIMARY KEY);
-- affected 0
INSERT INTO z VALUES (0), (1);
-- affected 2
SELECT id, NULLIF(id * 0.1, -3.10 / 1.5), NULLIF(id, 1), NULLIF(id + 1, 5 + 5) FROM z;
-- = 0|0.0|0|1
-- = 1|0.1|NULL|2

-- case: digits of numbers as text beside literals
SELECT CONV(10, 10, 16) = 'a', HEX(255) = 'ff', MONTHNAME('2024-01-31') = 'january';
-- = 1|1|1

-- case: a binary collation settles two others
CREATE TABLE k (id INT PRIMARY KEY, a VARCHAR(9) COLLATE utf8mb4_unicode_ci, b VARCHAR(9) COLLATE utf8mb4_general_ci, c VARCHAR(9) COLLATE utf8mb4_bin);
-- affected 0
INSERT INTO k VALUES (1, 'm', 'a', 'z'), (2, 'M', 'a', 'z');
-- affected 2
SELECT id FROM k WHERE a BETWEEN b AND c;
-- ! 1270
SELECT id FROM k WHERE a NOT IN (c, b);
-- = 1
-- = 2
SELECT id FROM k WHERE a BETWEEN b AND NULL;
-- ! 1270
SELECT a FROM k UNION SELECT b FROM k;
-- ! 1271

-- case: TIME has the digits that are declared
-- mysql: fractions are rounded; MariaDB cuts them
CREATE TABLE ti (id INT PRIMARY KEY, a TIME, b TIME(3), c TIME(6));
-- affected 0
INSERT INTO ti VALUES (1, '11:12:13.5', '11:12:13.4567', '11:12:13');
-- affected 1
SELECT a, b, c FROM ti;
-- = 11:12:14|11:12:13.457|11:12:13.000000

-- case: subqueries in ON of outer joins
CREATE TABLE oj (id INT PRIMARY KEY, g INT);
-- affected 0
INSERT INTO oj VALUES (1, 1), (2, 1), (3, 2), (4, NULL);
-- affected 4
SELECT a.id, b.id FROM oj a LEFT JOIN oj b ON a.id = b.id AND EXISTS (SELECT 1 FROM oj c WHERE c.id = a.g);
-- = 1|1
-- = 2|2
-- = 3|3
-- = 4|NULL
SELECT a.id, b.id FROM oj a LEFT JOIN oj b ON EXISTS (SELECT 1 FROM oj c WHERE c.id = a.id + 1 AND c.g = b.id);
-- = 1|1
-- = 2|2
-- = 3|NULL
-- = 4|NULL

-- case: ANY and ALL as values
CREATE TABLE av (id INT PRIMARY KEY, n INT);
-- affected 0
INSERT INTO av VALUES (1, 2), (2, 5), (3, NULL);
-- affected 3
SELECT id, n > ANY (SELECT n FROM av), n >= ALL (SELECT n FROM av WHERE n IS NOT NULL) FROM av;
-- = 1|NULL|0
-- = 2|1|1
-- = 3|NULL|NULL

-- case: a row beside a subquery
CREATE TABLE rs (id INT PRIMARY KEY, n INT);
-- affected 0
INSERT INTO rs VALUES (1, 2), (2, 5);
-- affected 2
SELECT id FROM rs WHERE (id, n) = (SELECT id, n FROM rs WHERE id = 2);
-- = 2
SELECT id FROM rs WHERE (id, n) = (SELECT id, n FROM rs);
-- ! 1242

-- case: an aggregate of an outer query
CREATE TABLE ao (id INT PRIMARY KEY, g INT, n INT);
-- affected 0
INSERT INTO ao VALUES (1, 1, 10), (2, 1, 20), (3, 2, 5);
-- affected 3
SELECT g, (SELECT COUNT(*) FROM ao b WHERE b.n < SUM(a.n)) FROM ao a GROUP BY g;
-- = 1|3
-- = 2|0

-- case: a common table expression runs once
-- mysql: it is materialized; MariaDB runs it for each use
CREATE TABLE ct (id INT PRIMARY KEY);
-- affected 0
INSERT INTO ct VALUES (1), (2), (3);
-- affected 3
WITH c AS (SELECT id, RAND() AS r FROM ct) SELECT COUNT(*) FROM c a JOIN c b ON a.id = b.id AND a.r = b.r;
-- = 3

-- case: rows of several collations in a list
CREATE TABLE rc (id INT PRIMARY KEY, a VARCHAR(9) COLLATE utf8mb4_general_ci, b VARCHAR(9) COLLATE utf8mb4_unicode_ci);
-- affected 0
INSERT INTO rc VALUES (1, 'x', 'X'), (2, 'y', 'z');
-- affected 2
SELECT id FROM rc WHERE (id, a) IN ((1, b), (5, ''));
-- = 1
SELECT id FROM rc WHERE (id, a) IN ((1, b));
-- ! 1267

-- case: NULL, and a column of the query around it, in a list
CREATE TABLE nl (id INT PRIMARY KEY, n INT);
-- affected 0
INSERT INTO nl VALUES (1, 5), (2, NULL);
-- affected 2
SELECT id, NULL = ANY (SELECT n FROM nl), 5 <> ALL (SELECT a.n FROM nl b) FROM nl a;
-- = 1|NULL|0
-- = 2|NULL|NULL

-- case: columns beside aggregates, and aggregates of two queries
CREATE TABLE ca (id INT PRIMARY KEY, n INT);
-- affected 0
SELECT id, COUNT(*) FROM ca;
-- ! 1140
SELECT AVG((SELECT COUNT(a.n) FROM ca b)) FROM ca a;
-- ! 1111

-- case: a window partitioned by a number
-- mysql: a position in a window is refused; MariaDB takes it for a constant
CREATE TABLE t0 (id INT NOT NULL, PRIMARY KEY (id));
-- affected 0
INSERT INTO t0 VALUES (0), (1);
-- affected 2
SELECT PERCENT_RANK() OVER (PARTITION BY 5 ORDER BY 1.5) AS w0 FROM t0;
-- ! 3592

-- case: frames without rows
-- mysql: MariaDB has rows in them
CREATE TABLE t0 (id INT NOT NULL, c0 INT NULL, PRIMARY KEY (id));
-- affected 0
INSERT INTO t0 VALUES (1, 10), (2, 20), (3, NULL), (4, 40), (5, 5);
-- affected 5
SELECT id, SUM(c0) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 3 PRECEDING) AS w0 FROM t0;
-- = 1|NULL
-- = 2|NULL
-- = 3|NULL
-- = 4|NULL
-- = 5|NULL

-- case: a UNION rounds a quotient itself
SELECT 1 / 3 UNION SELECT CAST(1 AS DECIMAL(30,10));
-- = 0.3333333330
-- = 1.0000000000
SELECT 1 / 3 UNION ALL SELECT CAST(1 AS DECIMAL(30,10));
-- = 0.3333333330
-- = 1.0000000000

-- case: a mix of collations is an error where nobody reads the value
CREATE TABLE t (a VARCHAR(20) COLLATE utf8mb4_general_ci, b VARCHAR(20) COLLATE utf8mb4_unicode_ci);
-- affected 0
INSERT INTO t VALUES ('a', 'a');
-- affected 1
SELECT 1 FROM t WHERE EXISTS (SELECT STRCMP(a, b) FROM t);
-- ! 1267
SELECT 1 FROM (SELECT INSTR(a, b) FROM t) d;
-- ! 1267
SELECT 1 FROM (SELECT LOCATE(a, b), FIND_IN_SET(a, b) FROM t) d;
-- ! 1267

-- case: digits of constant quotients
SELECT SUM(1/3), AVG(1/3), AVG((1/3)*1), ABS(1/3), COALESCE(1/3, CAST(1 AS DECIMAL(30,10)));
-- = 0.3333|0.33333333|0.33333333|0.3333|0.3333333330
SELECT (0.1 / 300000) IN (0, 5), AVG(DISTINCT 1/3);
-- = 0|0.33330000
SELECT CEILING(CAST(-0.1 AS DECIMAL(30,10)));
-- = 0

-- case: both sides of REGEXP say whether case matters
CREATE TABLE t (a VARCHAR(10) COLLATE utf8mb4_bin, b VARCHAR(10) COLLATE utf8mb4_unicode_ci, c VARCHAR(10) COLLATE utf8mb4_general_ci);
-- affected 0
INSERT INTO t VALUES ('é', 'x', 'y');
-- affected 1
SELECT HEX(a) REGEXP '^[a-c]', a REGEXP '^É', 'ABC' = LOWER(HEX(2748)), 'aBC' < SUBSTRING(MD5('a b'), -3, 2) FROM t;
-- = 1|0|1|0
SELECT b REGEXP c FROM t;
-- ! 1267
SELECT MAX(COALESCE(b, c)) FROM t;
-- ! 1267

-- case: ANY over both sides of an outer join
CREATE TABLE t (id INT PRIMARY KEY, a INT);
-- affected 0
INSERT INTO t VALUES (1, 1), (2, 0), (3, NULL);
-- affected 3
SELECT x.id, y.id FROM t x LEFT JOIN t y ON (y.a OR (1 <= ANY (SELECT z.a FROM t z WHERE x.a = y.a)));
-- = 1|1
-- = 2|1
-- = 2|2
-- = 3|1

-- case: TIMESTAMP of two arguments has the digits of both
CREATE TABLE t (a TIME, b TIME(3));
-- affected 0
INSERT INTO t VALUES ('10:00:00', '10:00:00.5');
-- affected 1
SELECT CAST(TIMESTAMP(DATE'2024-01-31', a) AS CHAR), CONCAT(TIMESTAMP(DATE'2024-01-31', b)) FROM t;
-- = 2024-01-31 10:00:00|2024-01-31 10:00:00.500

-- case: nobody asks for the value of what is never NULL
CREATE TABLE t (id INT PRIMARY KEY, a DECIMAL(30,10));
-- affected 0
INSERT INTO t VALUES (((2 = 'One') IS UNKNOWN), 12345678901234567890);
-- affected 1
SELECT id, BIT_OR(FLOOR(a)), BIT_AND(-1.5), BIT_XOR(1e0) FROM t GROUP BY id;
-- = 0|9223372036854775807|18446744073709551614|1

-- case: texts that functions make have the collation of the connection
CREATE TABLE t (id INT PRIMARY KEY, n INT, d DATE);
-- affected 0
INSERT INTO t VALUES (1, 10, '2020-01-01'), (2, 171, '2020-08-01');
-- affected 2
SELECT id FROM t WHERE CONV(n, 10, 16) < MONTHNAME(d);
-- = 1
-- = 2
SELECT id, LOWER(HEX(n)) = HEX(n), CONV(n, 10, 16) = LOWER(CONV(n, 10, 16)), MD5(n) = UPPER(MD5(n)), HEX(n) REGEXP '^[a-c]' FROM t;
-- = 1|1|1|1|1
-- = 2|1|1|1|1
SELECT DISTINCT IF(id = 1, HEX('k'), LOWER(HEX('K'))) = '6B', HEX('k') < DAYNAME(d) FROM t WHERE id = 1;
-- = 1|1

-- case: a SET and an ENUM that other columns take their values from
CREATE TABLE t (id INT PRIMARY KEY, s SET('a','b','1x'), e ENUM('x','y'), c VARCHAR(20));
-- affected 0
INSERT INTO t VALUES (1, 'b', 'x', 'z');
-- affected 1
UPDATE t SET s = CAST(1 AS CHAR), c = s;
-- affected 1
SELECT s, c FROM t;
-- = a|a
UPDATE t SET s = '3', e = '2', c = CONCAT(s, '/', e, '/', s + 0);
-- affected 1
SELECT s, e, c FROM t;
-- = a,b|y|a,b/y/3
UPDATE t SET s = 'B,a', c = s;
-- affected 1
SELECT s, c FROM t;
-- = a,b|a,b

-- case: an average has more digits than it shows
CREATE TABLE t (id INT PRIMARY KEY, c DECIMAL(5,1), n INT);
-- affected 0
INSERT INTO t VALUES (1, 1.0, 1), (2, 2.5, 2), (4, 7.1, 4);
-- affected 3
SELECT 1.5 * AVG(DISTINCT c), 1.5 * AVG(c), AVG(DISTINCT c), AVG(c), AVG(n) / 1.0, AVG(n) + 0.0000001, ROUND(AVG(n), 7), CAST(AVG(n) AS CHAR) FROM t;
-- = 5.300000|5.300000|3.53333|3.53333|2.33333333|2.3333334|2.3333333|2.3333
SELECT id, 1.5 * AVG(n) OVER (), AVG(n) OVER () FROM t;
-- = 1|3.50000|2.3333
-- = 2|3.50000|2.3333
-- = 4|3.50000|2.3333

-- case: an average is compared with all its digits
-- mysql: 12.6.1, as a quotient is; MariaDB rounds it to the digits that it shows
CREATE TABLE t (id INT PRIMARY KEY, n INT);
-- affected 0
INSERT INTO t VALUES (1, 1), (2, 2), (4, 4);
-- affected 3
SELECT AVG(n) = 2.3333, AVG(n) > 2.33333, SUM(n) / COUNT(*) = AVG(n) FROM t;
-- = 0|1|1

-- case: ADDTIME has the digits of a constant, also of one that the plan computes once
CREATE TABLE t (id INT PRIMARY KEY, c TIME);
-- affected 0
INSERT INTO t VALUES (1, '10:00:00'), (2, '-01:30:00');
-- affected 2
SELECT CAST(ADDTIME(x.c, '00:30:00') AS CHAR), CAST(SUBTIME(x.c, '00:30:00.5') AS CHAR) FROM t x ORDER BY 1;
-- = -01:00:00|-02:00:00.5
-- = 10:30:00|09:29:59.5

-- case: nobody asks for the value of what is never NULL, in a condition either
CREATE TABLE t (id INT, a INT);
-- affected 0
INSERT INTO t VALUES (1, CASE WHEN (('b_c' < 3) IS UNKNOWN) THEN 0 ELSE 3 END);
-- affected 1
INSERT INTO t VALUES (2, IF((('b_c' < 3) IS NOT NULL), 1, 2));
-- affected 1
INSERT INTO t VALUES (3, NOT (('b_c' < 3) IS NULL));
-- affected 1
SELECT id, a FROM t;
-- = 1|3
-- = 2|1
-- = 3|1

-- case: information functions tell no cases apart
CREATE TABLE t (id INT);
-- affected 0
SELECT DATABASE() = UPPER(DATABASE()), USER() = UPPER(USER()), COLLATION(HEX(1)) = UPPER(COLLATION(HEX(1)));
-- = 1|1|1

-- case: UUID in a change
CREATE TABLE t (id INT PRIMARY KEY, u CHAR(36));
-- affected 0
INSERT INTO t VALUES (1, UUID()), (2, UUID()), (3, 'x');
-- affected 3
UPDATE t SET u = UUID() WHERE id = 3;
-- affected 1
INSERT INTO t SELECT id + 3, UUID() FROM t;
-- affected 3
SELECT COUNT(*), COUNT(DISTINCT u), MIN(LENGTH(u)), MAX(LENGTH(u)) FROM t;
-- = 6|6|36|36

-- case: a TIME that functions make beyond its range is noted
CREATE TABLE t (id INT PRIMARY KEY, a TIME, b TIME);
-- affected 0
INSERT INTO t VALUES (1, '838:59:59', NULL);
-- affected 1
UPDATE t SET b = ADDTIME(a, '00:30:00');
-- ! 1292
UPDATE t SET b = TIMEDIFF(a, '-10:00:00');
-- ! 1292
INSERT INTO t VALUES (2, MAKETIME(1000, 1, 1), NULL);
-- ! 1292
SELECT id, CAST(ADDTIME(a, '00:30:00') AS CHAR), CAST(TIMEDIFF(x.a, '10:00:00') AS CHAR) FROM t x ORDER BY 1;
-- = 1|838:59:59|828:59:59

-- case: a literal of a date is never NULL, and one that is no date is an error
CREATE TABLE t (id INT PRIMARY KEY, c INT NOT NULL);
-- affected 0
REPLACE INTO t VALUES (37, ((((2 = 'Two') OR (DATE'1999-12-31' = DATE'1999-12-31')) IS UNKNOWN))), (41, DEFAULT);
-- ! 1364
SELECT ((2 = 'Two') OR (TIMESTAMP'1999-12-31 10:00:00' = TIME'10:00:00')) IS NULL;
-- = 0
SELECT DATE'2020-13-45';
-- ! 1525
SELECT TIME'99:99:99';
-- ! 1525
SELECT TIMESTAMP'2020-01-01 25:00:00';
-- ! 1525
SELECT DATE'2020-02-30' IS NULL FROM t;
-- ! 1525

-- case: REPLACE of a row by itself counts once, if there is one key
CREATE TABLE t (id INT PRIMARY KEY, a DECIMAL(5,1), b VARCHAR(9), KEY (a));
-- affected 0
INSERT INTO t VALUES (1, 1, 'x'), (2, 2.5, NULL);
-- affected 2
REPLACE INTO t VALUES (1, 1.0, 'x'), (2, 2.5, 'y'), (3, 1, 'z');
-- affected 4
REPLACE INTO t VALUES (2, 2.50, 'y');
-- affected 1
REPLACE INTO t VALUES (2, 2.50, 'Y');
-- affected 2
CREATE TABLE u (id INT PRIMARY KEY, a INT UNIQUE);
-- affected 0
INSERT INTO u VALUES (1, 1);
-- affected 1
REPLACE INTO u VALUES (1, 1);
-- affected 2

-- case: XOR does not ask for what is behind NULL
CREATE TABLE t (id INT PRIMARY KEY, a INT);
-- affected 0
INSERT INTO t VALUES (1, IF((NULL XOR (-1 = 'b%c')), 3, NULL)), (2, 1 XOR 0), (3, 1 XOR NULL), (4, 0 XOR 0), (5, 1 XOR 1);
-- affected 5
SELECT id, a, a XOR id, a XOR 1, NULL XOR a FROM t;
-- = 1|NULL|NULL|NULL|NULL
-- = 2|1|0|0|NULL
-- = 3|NULL|NULL|NULL|NULL
-- = 4|0|1|1|NULL
-- = 5|0|1|1|NULL
UPDATE t SET a = (2 XOR 'x') WHERE id = 2;
-- ! 1292

-- case: who looks for a text in another one wants a definite collation
CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(20) COLLATE utf8mb4_general_ci, b CHAR(10) COLLATE utf8mb4_unicode_ci);
-- affected 0
SELECT TRIM(BOTH 'o' FROM IF(id, a, b)) FROM t;
-- ! 1267
SELECT TRIM(LEADING 'o' FROM CASE WHEN TRUE THEN a WHEN TRUE THEN b END) FROM t;
-- ! 1267
SELECT REPLACE(IF(id, a, b), 'o', 'u') FROM t;
-- ! 1270
SELECT SUBSTRING_INDEX(IF(id, a, b), 'o', 1) FROM t;
-- ! 1267
SELECT TRIM(IF(id, a, b)), LPAD(IF(id, a, b), 5, 'o') FROM t;
-- no rows

-- case: ANY and ALL of no row, where the subquery's own condition compares NULL
CREATE TABLE t (id INT PRIMARY KEY, c INT);
-- affected 0
INSERT INTO t VALUES (1, NULL), (2, 1), (3, 7);
-- affected 3
SELECT id, 1 <= ANY (SELECT 2 FROM t a WHERE a.c = o.c) AS x, 1 > ALL (SELECT 2 FROM t a WHERE a.c = o.c) AS y FROM t o ORDER BY id;
-- = 1|0|1
-- = 2|1|0
-- = 3|1|0
SELECT id FROM t o WHERE (1 <= ANY (SELECT 2 FROM t a WHERE a.c = o.id)) XOR 1 ORDER BY id;
-- = 2
-- = 3

-- case: what is computed of a column is not computed of the values that a join compares it with
CREATE TABLE a (id INT PRIMARY KEY, m BIGINT);
-- affected 0
CREATE TABLE b (id INT PRIMARY KEY, m BIGINT);
-- affected 0
INSERT INTO a VALUES (1, 5), (2, 6);
-- affected 2
INSERT INTO b VALUES (1, 5), (2, 9223372036854775807);
-- affected 2
SELECT a.id, b.id FROM a LEFT JOIN b ON a.m = b.m WHERE (a.m * 2) > 3;
-- = 1|1
-- = 2|NULL
SELECT a.id, b.id FROM a LEFT JOIN b ON a.m = b.m WHERE (a.m * 2) IN (10, 12);
-- = 1|1
-- = 2|NULL
SELECT a.id, b.id FROM a LEFT JOIN b ON a.m = b.m WHERE a.m > 5;
-- = 2|NULL

-- case: an ENUM or SET beside NULL in a UNION sorts by its number
CREATE TABLE e (id INT PRIMARY KEY, c ENUM('x','one','two','abc'), s SET('x','one','two'));
-- affected 0
INSERT INTO e VALUES (1, 'x', 'two'), (2, 'two', 'x'), (3, 'abc', 'x,one'), (4, NULL, NULL);
-- affected 4
SELECT c FROM e UNION SELECT NULL ORDER BY 1 DESC LIMIT 1;
-- = abc
SELECT NULL AS c UNION ALL SELECT c FROM e ORDER BY 1 DESC LIMIT 2;
-- = abc
-- = two
SELECT s FROM e UNION SELECT NULL ORDER BY 1 DESC LIMIT 1;
-- = two
SELECT id, c FROM e WHERE id < 3 UNION ALL SELECT NULL, NULL UNION ALL SELECT id, c FROM e WHERE id = 3 ORDER BY 2 DESC, 1 LIMIT 1;
-- = 1|x
SELECT c FROM e UNION SELECT 'y' ORDER BY 1 DESC LIMIT 1;
-- = y
SELECT c FROM (SELECT c FROM e UNION ALL SELECT NULL) t WHERE c > 2;
-- = abc
-- = two

-- case: spaces at the end of a member count for FIND_IN_SET
SELECT FIND_IN_SET('a ' COLLATE utf8mb4_general_ci, 'a,one'), FIND_IN_SET('a' COLLATE utf8mb4_general_ci, 'x,a ,one');
-- = 0|0
SELECT FIND_IN_SET('A' COLLATE utf8mb4_general_ci, 'x,a'), FIND_IN_SET('É' COLLATE utf8mb4_general_ci, 'x,e'), FIND_IN_SET('' COLLATE utf8mb4_general_ci, 'x,,e');
-- = 2|2|2
SELECT FIND_IN_SET('a ' COLLATE utf8mb4_bin, 'a,one'), FIND_IN_SET('a ' COLLATE utf8mb4_bin, 'x,a ');
-- = 0|2

-- case: a SET is a DOUBLE in arithmetic
-- mysql: 12.3 and 12.6.1: a text is a DOUBLE in arithmetic. MariaDB computes with whole numbers
CREATE TABLE s (id INT PRIMARY KEY, s SET('x','one','two'));
-- affected 0
INSERT INTO s VALUES (1, 'x,one'), (2, 'two');
-- affected 2
SELECT id, (s + 0) * -1, s - 5, s / 2, s DIV 2, -s FROM s;
-- = 1|-3|-2|1.5|1|-3
-- = 2|-4|-1|2|2|-4

-- case: CROSS JOIN with a join in parentheses, and another join behind it
CREATE TABLE a (id INT PRIMARY KEY, x INT);
-- affected 0
CREATE TABLE b (id INT PRIMARY KEY, y INT);
-- affected 0
CREATE TABLE c (id INT PRIMARY KEY, z INT);
-- affected 0
CREATE TABLE d (id INT PRIMARY KEY, w INT);
-- affected 0
INSERT INTO a VALUES (1, 10), (2, 20);
-- affected 2
INSERT INTO b VALUES (1, 11), (3, 31);
-- affected 2
INSERT INTO c VALUES (1, 12), (2, 22);
-- affected 2
INSERT INTO d VALUES (1, 13), (3, 33);
-- affected 2
SELECT a.id, y, z, w FROM a CROSS JOIN (b JOIN c USING (id)) JOIN d ON d.id = b.id;
-- = 1|11|12|13
-- = 2|11|12|13
SELECT * FROM a CROSS JOIN (b RIGHT JOIN c ON b.id = c.id) JOIN d ON d.id = a.id;
-- = 1|10|1|11|1|12|1|13
-- = 1|10|NULL|NULL|2|22|1|13
SELECT * FROM a JOIN (b NATURAL JOIN c) LEFT JOIN d ON d.id = y;
-- = 1|10|1|11|12|NULL|NULL
-- = 2|20|1|11|12|NULL|NULL
SELECT a.id, (SELECT COUNT(*) FROM b CROSS JOIN (c JOIN d USING (id)) JOIN b e ON e.id = d.id) AS n FROM a;
-- = 1|2
-- = 2|2
SELECT * FROM a JOIN (b, c) JOIN d ON d.id = c.id AND d.id = b.id;
-- = 1|10|1|11|1|12|1|13
-- = 2|20|1|11|1|12|1|13
SELECT a.x FROM a JOIN (SELECT 1 AS id FROM b JOIN c USING (id)) q JOIN d ON d.id = q.id;
-- = 10
-- = 20
SELECT a.x FROM a USE INDEX FOR JOIN (PRIMARY) JOIN b USE INDEX FOR JOIN (PRIMARY) JOIN c ON c.id = b.id AND b.id = a.id;
-- = 10
-- case: COUNT(DISTINCT) with NULL computes nothing
CREATE TABLE t (a BIGINT);
-- affected 0
INSERT INTO t VALUES (9223372036854775807), (1);
-- affected 2
SELECT COUNT(DISTINCT a + 1, NULL), COUNT(DISTINCT NULL, a + 1), COUNT(DISTINCT a, 1) FROM t;
-- = 0|0|2
SELECT COUNT(a + 1) FROM t;
-- ! 1690

-- case: ANY and ALL over NULLs, of columns of the outer query too
-- mysql: 13.2.15.3 and 13.2.15.4: NULL if no comparison is true and one is NULL. MariaDB's WHERE takes that for FALSE
CREATE TABLE t (id INT PRIMARY KEY, c INT);
-- affected 0
INSERT INTO t VALUES (1, NULL), (2, 7), (3, 0);
-- affected 3
SELECT id FROM t WHERE (3 <= ANY (SELECT NULL FROM t u WHERE t.id = 2)) IS UNKNOWN;
-- = 2
SELECT id FROM t WHERE ((3 <= ANY (SELECT u.c FROM t u WHERE u.id <= 2 AND t.id > 1)) IS TRUE);
-- = 2
-- = 3
SELECT t.id, 5 < ALL (SELECT t.c FROM t u) FROM t;
-- = 1|NULL
-- = 2|1
-- = 3|0
SELECT a.id, 5 < ALL (SELECT a.c FROM t u), COUNT(*) OVER (ORDER BY a.id) FROM t a;
-- = 1|NULL|1
-- = 2|1|2
-- = 3|0|3

-- case: HAVING over no rows, over a deviation, and over a key and ALL
-- mysql: 12.19.1, 13.2.13 and 13.2.15.4. MariaDB has MAX by an index, a deviation that is NULL before it is counted, and no such key
CREATE TABLE t (id INT PRIMARY KEY, c INT, KEY (c));
-- affected 0
CREATE TABLE e (id INT PRIMARY KEY);
-- affected 0
INSERT INTO t VALUES (1, 3), (2, 1);
-- affected 2
SELECT 1 FROM t CROSS JOIN e HAVING MAX(t.c) <> 1;
-- no rows
SELECT 1 FROM t CROSS JOIN e HAVING (MAX(t.c) <> 1) IS UNKNOWN;
-- = 1
SELECT 1 FROM t HAVING (VAR_SAMP(c) > 2) IS UNKNOWN;
-- no rows
SELECT VAR_SAMP(c) FROM t HAVING VAR_SAMP(c) IS NOT NULL;
-- = 2
SELECT b.c FROM t a LEFT JOIN t b ON b.id < a.id GROUP BY a.c, 1 HAVING b.c <> ALL (SELECT 1 FROM t);
-- = 3

-- case: NULL has no type of its own
-- mysql: 12.5 and 13.2.18: the type is that of the others. MariaDB makes a text, or a DOUBLE of it
CREATE TABLE t (id INT PRIMARY KEY);
-- affected 0
INSERT INTO t VALUES (1);
-- affected 1
SELECT CASE WHEN FALSE THEN -3.10 ELSE 1 END FROM t UNION ALL SELECT IF(TRUE, NULL, NULL) FROM t;
-- = 1.00
-- = NULL
WITH q AS (SELECT DISTINCT NULL AS x FROM t) SELECT SUM(DISTINCT IFNULL(x, 1)) / 3 FROM q;
-- = 0.3333
