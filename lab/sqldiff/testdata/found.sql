-- case: WHERE over a left join and two inner joins
CREATE TABLE o(id int primary key, cust int, ship int);
-- affected 0
CREATE TABLE c(id int primary key, name varchar(10));
-- affected 0
CREATE TABLE s(id int primary key, st varchar(10));
-- affected 0
CREATE TABLE w(id int primary key);
-- affected 0
INSERT INTO o VALUES (1,1,10),(2,2,20),(3,3,null);
-- affected 3
INSERT INTO c VALUES (1,'ann'),(2,'bob'),(3,'cy');
-- affected 3
INSERT INTO s VALUES (10,'sent'),(20,'new');
-- affected 2
INSERT INTO w VALUES (1),(2),(3);
-- affected 3
SELECT o.id FROM o LEFT JOIN s ON o.ship=s.id JOIN c ON o.cust=c.id JOIN w ON w.id=o.id WHERE s.id IS NULL;
-- = 3
SELECT o.id FROM o LEFT JOIN s ON o.ship=s.id JOIN c ON o.cust=c.id JOIN w ON w.id=o.id
 WHERE (c.name='zed' OR s.st='sent') AND o.id>0;
-- = 1
START TRANSACTION;
-- affected 0
DELETE o FROM o LEFT JOIN s ON o.ship=s.id JOIN c ON o.cust=c.id JOIN w ON w.id=o.id WHERE s.id IS NULL;
-- affected 1
SELECT COUNT(*) FROM o;
-- = 2
ROLLBACK;
-- affected 0
START TRANSACTION;
-- affected 0
UPDATE o LEFT JOIN s ON o.ship=s.id JOIN c ON o.cust=c.id JOIN w ON w.id=o.id SET o.cust=99 WHERE s.id IS NULL;
-- affected 1
SELECT COUNT(*) FROM o WHERE cust=99;
-- = 1
ROLLBACK;
-- affected 0

-- case: autocommit=0 and a constraint error
CREATE TABLE r(id int primary key, a varchar(20));
-- affected 0
INSERT INTO r VALUES (1,'one');
-- affected 1
SET autocommit=0;
-- affected 0
INSERT INTO r VALUES (5,'before');
-- affected 1
INSERT INTO r VALUES (1,'dup');
-- ! 1062
INSERT INTO r VALUES (6,'after');
-- affected 1
INSERT INTO r VALUES (7,'after');
-- affected 1
SELECT id FROM r;
-- = 1
-- = 5
-- = 6
-- = 7
COMMIT;
-- affected 0
SELECT id FROM r;
-- = 1
-- = 5
-- = 6
-- = 7
SAVEPOINT x;
-- affected 0
INSERT INTO r VALUES (1,'dup');
-- ! 1062
ROLLBACK TO SAVEPOINT x;
-- affected 0
SET autocommit=1;
-- affected 0

-- case: updates that change only case or accents
CREATE TABLE n(id int primary key, s varchar(20)) COLLATE utf8mb4_general_ci;
-- affected 0
INSERT INTO n VALUES (1,'jose');
-- affected 1
UPDATE n SET s='José' WHERE id=1;
-- affected 1
SELECT s FROM n;
-- = José
UPDATE n SET s='JOSE' WHERE id=1;
-- affected 1
SELECT s FROM n;
-- = JOSE

-- case: LIKE with a prefix and an escape
CREATE TABLE l(s varchar(20));
-- affected 0
INSERT INTO l VALUES ('a_b'),('axb'),('a%b');
-- affected 3
SELECT s FROM l WHERE s LIKE 'a\\_b';
-- = a_b
SELECT s FROM l WHERE s LIKE 'a\_b';
-- = a_b

-- case: LIKE BINARY
CREATE TABLE l(s varchar(20));
-- affected 0
INSERT INTO l VALUES ('a_b'),('axb'),('a%b');
-- affected 3
SELECT s FROM l WHERE s LIKE BINARY 'A%';
-- no rows

-- case: IN of a _ci column
CREATE TABLE ci(s varchar(10)) COLLATE utf8mb4_general_ci;
-- affected 0
INSERT INTO ci VALUES ('one'),('ONE');
-- affected 2
SELECT COUNT(*) FROM ci WHERE s IN ('one');
-- = 2

-- case: COUNT(DISTINCT) of a _ci column
CREATE TABLE ci(s varchar(10)) COLLATE utf8mb4_general_ci;
-- affected 0
INSERT INTO ci VALUES ('one'),('ONE');
-- affected 2
SELECT COUNT(DISTINCT s) FROM ci;
-- = 1
SELECT COUNT(*) FROM (SELECT DISTINCT s FROM ci) x;
-- = 1
SELECT COUNT(*) FROM (SELECT s FROM ci UNION SELECT s FROM ci) x;
-- = 1

-- case: INSTR of a _ci column
CREATE TABLE ci(s varchar(10)) COLLATE utf8mb4_general_ci;
-- affected 0
INSERT INTO ci VALUES ('one'),('ONE');
-- affected 2
SELECT INSTR(s,'O') FROM ci;
-- = 1
-- = 1

-- case: exact sums
CREATE TABLE m(a decimal(30,2), b bigint, v int);
-- affected 0
INSERT INTO m VALUES (12345678901234567890.12,9007199254740993,10),(0.01,1,11),(0.01,1,13);
-- affected 3
SELECT SUM(a), AVG(a), SUM(b) FROM m;
-- = 12345678901234567890.14|4115226300411522630.046667|9007199254740995

-- case: STD and VARIANCE
CREATE TABLE m(v int);
-- affected 0
INSERT INTO m VALUES (10),(11),(13);
-- affected 3
SELECT ROUND(STD(v),4), ROUND(VARIANCE(v),4) FROM m;
-- = 1.2472|1.5556

-- case: AVG over a window
CREATE TABLE m(v int);
-- affected 0
INSERT INTO m VALUES (10),(11),(13);
-- affected 3
SELECT AVG(v) OVER () FROM m LIMIT 1;
-- = 11.3333

-- case: HAVING with a dependent subquery
-- wrong: = A ; = C
CREATE TABLE p(id int primary key, name varchar(10));
-- affected 0
CREATE TABLE b(id int primary key, pid int, pages int, key(pid));
-- affected 0
INSERT INTO p VALUES (1,'A'),(2,'B'),(3,'C');
-- affected 3
INSERT INTO b VALUES (1,1,500),(2,2,450),(3,2,100),(4,3,600);
-- affected 4
SELECT p.name FROM p LEFT JOIN b ON p.id=b.pid GROUP BY p.id HAVING COUNT(b.id) = (SELECT COUNT(u.id) FROM b u WHERE u.pages>400 AND u.pid=p.id);
-- ! 1055

-- case: HAVING with an aggregate of the same text
CREATE TABLE b(id int primary key, pid int, pages int, key(pid));
-- affected 0
INSERT INTO b VALUES (1,1,500),(2,2,450),(3,2,100),(4,3,600);
-- affected 4
SELECT pid, SUM(pages) FROM b GROUP BY pid HAVING SUM(pages) > (SELECT SUM(pages)*0.3 FROM b);
-- = 1|500
-- = 2|550
-- = 3|600

-- case: TIMESTAMP follows time_zone
SET time_zone='+05:30';
-- affected 0
CREATE TABLE ts(id int primary key, t timestamp);
-- affected 0
INSERT INTO ts VALUES (1,'2024-01-01 00:00:00');
-- affected 1
SET time_zone='+00:00';
-- affected 0
SELECT t FROM ts;
-- = 2023-12-31 18:30:00

-- case: unsigned underflow
CREATE TABLE u(u int unsigned);
-- affected 0
INSERT INTO u VALUES (5);
-- affected 1
UPDATE u SET u=u-100;
-- ! 1690
SELECT u FROM u;
-- = 5

-- case: an interval keeps fractions
CREATE TABLE d6(d datetime(6));
-- affected 0
INSERT INTO d6 VALUES ('2024-01-01 10:00:00.75');
-- affected 1
SELECT d + INTERVAL 1 SECOND FROM d6;
-- = 2024-01-01 10:00:01.750000
SELECT TIMESTAMPDIFF(MICROSECOND, d, d + INTERVAL 1 SECOND) FROM d6;
-- = 1000000

-- case: SIGN and WEEK
SELECT SIGN(0.3), SIGN(-0.3), WEEK('2016-01-03',3);
-- = 1|-1|53

-- case: JSON paths
CREATE TABLE j(j json);
-- affected 0
INSERT INTO j VALUES ('[1,2]'),('{"a":1}');
-- affected 2
SELECT JSON_EXTRACT(j,'$.a') FROM j;
-- = 1
-- = NULL
SELECT COUNT(*) FROM j WHERE JSON_CONTAINS_PATH(j,'one','$.a');
-- = 1

-- case: JSON_EXTRACT of $[0] of an object
-- mysql: a path that begins with [0] is the value itself, where it is no array ("the auto-wrapping of values")
CREATE TABLE j(j json);
-- affected 0
INSERT INTO j VALUES ('[1,2]'),('{"a":1}');
-- affected 2
SELECT JSON_EXTRACT(j,'$[0]') FROM j;
-- = 1
-- = {"a": 1}

-- case: JSON_VALUE
SELECT JSON_VALUE('{"a":"x"}','$.a');
-- = x

-- case: named windows
CREATE TABLE p(id int primary key, name varchar(10));
-- affected 0
INSERT INTO p VALUES (1,'A'),(2,'B'),(3,'C');
-- affected 3
SELECT id, SUM(id) OVER w s, AVG(id) OVER w FROM p WINDOW w AS (PARTITION BY id%2 ORDER BY id) ORDER BY id;
-- = 1|1|1.0000
-- = 2|2|2.0000
-- = 3|4|2.0000

-- case: set operations of different widths
CREATE TABLE ci(s varchar(10));
-- affected 0
SELECT s, 1 FROM ci UNION SELECT s FROM ci;
-- ! 1222

-- case: a column of a primary key goes
-- wrong: affected 0
CREATE TABLE a(id int auto_increment primary key, name varchar(20) not null);
-- affected 0
INSERT INTO a VALUES (1,'x'),(2,'y');
-- affected 2
ALTER TABLE a DROP COLUMN id;
-- affected 2
SELECT * FROM a;
-- = x
-- = y

-- case: CONVERT USING
SELECT HEX(CONVERT('é' USING latin1));
-- = E9

-- case: FOR SHARE
CREATE TABLE p(id int primary key, name varchar(10));
-- affected 0
INSERT INTO p VALUES (1,'A');
-- affected 1
SELECT id FROM p WHERE id=1 LOCK IN SHARE MODE;
-- = 1
SELECT id FROM p FORCE INDEX (PRIMARY);
-- = 1

-- case: windows over groups
CREATE TABLE p(id int primary key, name varchar(10));
-- affected 0
INSERT INTO p VALUES (1,'A'),(2,'B'),(3,'B');
-- affected 3
SELECT name, SUM(id), RANK() OVER (ORDER BY SUM(id)) FROM p GROUP BY name;
-- = A|1|1
-- = B|5|2

-- case: comparisons in a row
SELECT 1<2<3, 3>2>1;
-- = 1|0

-- case: bits turned
SELECT ~1;
-- = 18446744073709551614

-- case: EXISTS is a value
SELECT EXISTS(SELECT 1)=1;
-- = 1

-- case: ALL and ANY
CREATE TABLE p(id int primary key);
-- affected 0
INSERT INTO p VALUES (1),(2),(3);
-- affected 3
SELECT id FROM p WHERE id >= ALL (SELECT id FROM p);
-- = 3
SELECT id FROM p WHERE id > ANY (SELECT id FROM p);
-- = 2
-- = 3

-- case: WITH ROLLUP
CREATE TABLE p(id int primary key);
-- affected 0
INSERT INTO p VALUES (1),(2),(3);
-- affected 3
SELECT id, COUNT(*) FROM p GROUP BY id WITH ROLLUP;
-- = 1|1
-- = 2|1
-- = 3|1
-- = NULL|3

-- case: assignment in a SELECT
SELECT @r:=1;
-- = 1

-- case: NTH_VALUE and CUME_DIST
CREATE TABLE p(id int primary key);
-- affected 0
INSERT INTO p VALUES (1),(2),(3);
-- affected 3
SELECT NTH_VALUE(id,2) OVER (ORDER BY id), ROUND(CUME_DIST() OVER (ORDER BY id),4) FROM p;
-- = 2|0.6667
-- = 2|1
-- = NULL|0.3333

-- case: MAKEDATE
SELECT MAKEDATE(2024,60);
-- = 2024-02-29
