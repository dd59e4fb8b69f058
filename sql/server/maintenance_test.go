package server

import (
	"strings"
	"testing"
)

// TestMaintenance: OPTIMIZE and REPAIR TABLE answer as an engine without them does, and
// CHECKSUM TABLE tells tables with other rows apart.
func TestMaintenance(t *testing.T) {
	_, c := newServer(t)
	exec(t, c, "CREATE TABLE a (id INT PRIMARY KEY, s VARCHAR(9))")
	exec(t, c, "CREATE TABLE b (id INT PRIMARY KEY, s VARCHAR(9))")
	exec(t, c, "CREATE VIEW v AS SELECT id FROM a")
	exec(t, c, "INSERT INTO a VALUES (1,'x'),(2,NULL)")
	exec(t, c, "INSERT INTO b VALUES (2,NULL),(1,'x')")
	db := query(t, c, "SELECT DATABASE()")[0]
	expect(t, c, "CHECK TABLE a, v QUICK", db+".a|check|status|OK", db+".v|check|status|OK")
	expect(t, c, "optimize local table "+db+".a;", db+".a|optimize|note|The storage engine for the table doesn't support optimize")
	expect(t, c, "REPAIR TABLE nope", db+".nope|repair|Error|Table '"+db+".nope' doesn't exist", db+".nope|repair|status|Operation failed")

	sums := query(t, c, "CHECKSUM TABLE a, `b`")
	one := strings.TrimPrefix(sums[0], db+".a|")
	if one == "NULL" || one == "0" || sums[1] != db+".b|"+one {
		t.Errorf("tables with the same rows have the sums %q", sums)
	}
	expect(t, c, "CHECKSUM TABLE a, nope QUICK", db+".a|NULL", db+".nope|NULL")
}

// TestRefusedStatements: what there is not is an error that says what to do.
func TestRefusedStatements(t *testing.T) {
	_, c := newServer(t)
	expectErr(t, c, 1235, "SHOW ENGINE INNODB STATUS")
	expect(t, c, "SHOW OPEN TABLES FROM mysql LIKE 'a%'")
	expectErr(t, c, 1064, "CHECK TABLE")
	expectErr(t, c, 1064, "CHECK TABLE a WHATEVER")
}

// TestOldSyntax: YEAR(4) is YEAR, and PRIMARY is the name of an index in hints.
func TestOldSyntax(t *testing.T) {
	_, c := newServer(t)
	exec(t, c, "CREATE TABLE y (id INT PRIMARY KEY, y YEAR(4) COMMENT 'a YEAR(4)')")
	exec(t, c, "ALTER TABLE y ADD COLUMN z year ( 4 )")
	def := definition(t, c, "y")
	if !strings.Contains(def, "`y` year DEFAULT NULL COMMENT 'a YEAR(4)'") || !strings.Contains(def, "`z` year DEFAULT NULL") {
		t.Error(def)
	}
	exec(t, c, "CREATE TABLE blobs (a BLOB(3), b BLOB ( 1234 ), c BLOB(70000), d BLOB(20000000) COMMENT 'BLOB(3)', e BLOB)")
	expect(t, c, "SELECT GROUP_CONCAT(column_type ORDER BY ordinal_position) FROM information_schema.columns WHERE table_name = 'blobs'",
		"tinyblob,blob,mediumblob,longblob,blob")
	exec(t, c, "CREATE ALGORITHM = MERGE DEFINER = CURRENT_USER() SQL SECURITY DEFINER VIEW mine AS SELECT 1 one")
	expect(t, c, "SELECT * FROM mine", "1")
	expect(t, c, "SHOW FULL TABLES FROM information_schema LIKE 'VIEWS'", "VIEWS|SYSTEM VIEW")
	exec(t, c, "INSERT INTO y VALUES (1, 2024, NULL), (2, 2025, NULL)")
	exec(t, c, "UPDATE y FORCE INDEX (PRIMARY) SET z = 2000 WHERE id = 1")
	exec(t, c, "DELETE y FROM y USE INDEX FOR JOIN (PRIMARY) WHERE id = 2")
	exec(t, c, "INSERT INTO y SELECT id + 5, y, z FROM y IGNORE INDEX (`PRIMARY`) WHERE id = 1")
	expect(t, c, "SELECT id, y, z FROM y FORCE INDEX (PRIMARY) ORDER BY id", "1|2024|2000", "6|2024|2000")
}

// TestDescriptions: programs that read definitions get MySQL's.
func TestDescriptions(t *testing.T) {
	_, c := newServer(t)
	exec(t, c, "CREATE TABLE f (id INT PRIMARY KEY, a VARCHAR(20) NOT NULL DEFAULT 'x', t TEXT, at TIME(2), UNIQUE (a), FULLTEXT w (t), KEY p (t(4)))")
	expect(t, c, "SHOW TABLES", "f") // none of those that the engine makes for full text
	expect(t, c, "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE()", "1")
	expect(t, c, "SHOW COLUMNS FROM f", "id|int|NO|PRI|NULL|", "a|varchar(20)|NO|UNI|x|", "t|text|YES|MUL|NULL|", "at|time(2)|YES||NULL|")
	expect(t, c, "SHOW FULL COLUMNS FROM f LIKE 'a'", "a|varchar(20)|utf8mb4_0900_ai_ci|NO|UNI|x||select,insert,update,references|")
	expect(t, c, "SELECT column_type, column_default, column_key, datetime_precision FROM information_schema.columns "+
		"WHERE table_schema = DATABASE() AND table_name = 'f' ORDER BY ordinal_position",
		"int|NULL|PRI|NULL", "varchar(20)|x|UNI|NULL", "text|NULL|MUL|NULL", "time(2)|NULL||2")
	expect(t, c, "SHOW INDEX FROM f", "f|0|PRIMARY|1|id|A|0|NULL|NULL||BTREE|||YES|NULL",
		"f|0|a|1|a|A|0|NULL|NULL||BTREE|||YES|NULL", "f|1|p|1|t|A|0|4|NULL|YES|BTREE|||YES|NULL",
		"f|1|w|1|t|NULL|0|NULL|NULL|YES|FULLTEXT|||YES|NULL")
	expect(t, c, "SHOW KEYS FROM f WHERE key_name = 'primary' OR Column_name LIKE 'x''%'", "f|0|PRIMARY|1|id|A|0|NULL|NULL||BTREE|||YES|NULL")
	expect(t, c, "SHOW INDEX FROM f WHERE Sub_part > 3 AND Non_unique = 1", "f|1|p|1|t|A|0|4|NULL|YES|BTREE|||YES|NULL")
	expectErr(t, c, 1054, "SHOW INDEX FROM f WHERE nope = 1")
	expect(t, c, "SELECT index_name, index_type, sub_part FROM information_schema.statistics WHERE table_schema = DATABASE()",
		"PRIMARY|BTREE|NULL", "a|BTREE|NULL", "p|BTREE|4", "w|FULLTEXT|NULL")
	exec(t, c, "DROP TABLE f")
	expect(t, c, "SHOW TABLES") // those of full text are gone, too
}

// TestDefaultCollation: a client that says nothing gets MySQL 8's collation, and everything agrees
// about it; a database that names another keeps it.
func TestDefaultCollation(t *testing.T) {
	_, c := newServer(t)
	expect(t, c, "SELECT @@collation_connection, @@collation_server", "utf8mb4_0900_ai_ci|utf8mb4_0900_ai_ci")
	exec(t, c, "CREATE DATABASE plain")
	exec(t, c, "CREATE DATABASE bytes COLLATE utf8mb4_0900_bin")
	for _, db := range []string{"bytes", "plain"} {
		exec(t, c, "CREATE TABLE "+db+".p (s VARCHAR(9) PRIMARY KEY)")
		exec(t, c, "CREATE TABLE "+db+".t (id INT PRIMARY KEY, s VARCHAR(9), e ENUM('one','two'), UNIQUE u (s), "+
			"FOREIGN KEY (s) REFERENCES "+db+".p (s))")
		exec(t, c, "INSERT INTO "+db+".p VALUES ('Äpfel'), ('one'), ('two')")
		exec(t, c, "INSERT INTO "+db+".t VALUES (1, 'one', 'one')")
		if db == "bytes" {
			expectErr(t, c, 1452, "INSERT INTO "+db+".t VALUES (2, 'ONE', 'one')")
			expect(t, c, "SELECT id FROM "+db+".t WHERE s = 'ONE' OR s IN ('ONE') OR s LIKE 'O%'")
			expect(t, c, "SELECT COLLATION(s) FROM "+db+".t", "utf8mb4_0900_bin")
			continue
		}
		expectErr(t, c, 1062, "INSERT INTO "+db+".t VALUES (2, 'ONE', 'one')") // the key
		exec(t, c, "UPDATE "+db+".t SET s = 'TWO' WHERE s = 'ONE'")            // the parent is two
		exec(t, c, "INSERT INTO "+db+".t VALUES (2, 'apfel', 'TWO')")
		expect(t, c, "SELECT id, s FROM "+db+".t WHERE s = 'two' ORDER BY id", "1|TWO")
		expect(t, c, "SELECT id FROM "+db+".t WHERE s IN ('two', 'ÄPFEL') ORDER BY s", "2", "1")
		expect(t, c, "SELECT id FROM "+db+".t WHERE s LIKE 'a%'", "2")
		expect(t, c, "SELECT COUNT(DISTINCT x.s), COUNT(*) FROM (SELECT 'a' s UNION ALL SELECT 'A') x", "1|2")
		expect(t, c, "SELECT COUNT(*) FROM (SELECT 'a' UNION SELECT 'Á') x", "1")
		expect(t, c, "SELECT p.s FROM "+db+".p p JOIN "+db+".t t ON t.s = p.s ORDER BY p.s", "Äpfel", "two")
		expect(t, c, "SELECT COUNT(*) FROM (SELECT s FROM "+db+".p UNION ALL SELECT s FROM "+db+".t) x GROUP BY s ORDER BY s", "2", "1", "2")
		expect(t, c, "SELECT COLLATION(s), COERCIBILITY(s), COERCIBILITY('x'), COLLATION('x') FROM "+db+".t LIMIT 1",
			"utf8mb4_0900_ai_ci|2|4|utf8mb4_0900_ai_ci")
		expect(t, c, "SELECT s FROM "+db+".t WHERE s = BINARY 'two'")
		exec(t, c, "DELETE FROM "+db+".t WHERE s = 'APFEL'")
		expect(t, c, "SELECT id FROM "+db+".t", "1")
	}
	exec(t, c, "CREATE TABLE plain.made AS SELECT CONCAT(s, 'x') a, UPPER(s) b, s c FROM plain.t")
	exec(t, c, "CREATE TABLE plain.kept AS SELECT s, CONCAT(s, 'x') a FROM bytes.t")
	expect(t, c, "SELECT table_name, COLLATION_NAME FROM information_schema.columns WHERE table_schema = 'plain' AND "+
		"table_name IN ('made', 'kept') ORDER BY 1, ordinal_position", "kept|utf8mb4_0900_bin", "kept|utf8mb4_0900_bin",
		"made|utf8mb4_0900_ai_ci", "made|utf8mb4_0900_ai_ci", "made|utf8mb4_0900_ai_ci")
	for value, want := range map[string]string{"null": "1", "true": "2", `"null"`: "4", `"x"`: "3", "0": "4"} {
		expect(t, c, "SELECT CASE JSON_EXTRACT('{\"a\": "+value+"}', '$.a') WHEN 'null' THEN 1 WHEN true THEN 2 WHEN '\"x\"' THEN 3 ELSE 4 END", want)
	}
	exec(t, c, "CREATE TABLE plain.j (j JSON)")
	exec(t, c, "INSERT INTO plain.j VALUES ('null'), ('\"null\"'), ('1')")
	expect(t, c, "SELECT CASE j WHEN 'null' THEN 'document' WHEN '\"null\"' THEN 'text' ELSE 'one' END x FROM plain.j ORDER BY x",
		"document", "one", "text")
	expect(t, c, "SELECT CASE JSON_EXTRACT('{\"a\": null}', '$.a') WHEN 'null' THEN 1 ELSE 2 END", "1")
	expect(t, c, "SELECT 'a' = 'A', 'a' = 'Á', 'a' LIKE 'A', 'a' IN ('A'), INSTR('abc', 'B'), STRCMP('a', 'A')", "1|1|1|1|2|0")
}
