package bulk_test

import (
	"fmt"
	"strings"
	"testing"
)

// TestImport: rows of all formats become what statements would make of them.
func TestImport(t *testing.T) {
	w := newWorld(t, "eu")
	w.exec("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20), n DECIMAL(6,2), g INT AS (id * 2) STORED, KEY (v))")
	w.file("a.csv", "1,one,1.5\n2,\\N,-2\n")
	w.file("b.csv", "3,\"three, \"\"3\"\"\",3\n\n4,NULL,4\n")
	w.imported("t (id, v, n) FROM '$/*.csv'", fmt.Sprintf("2|4|0|0|%d", 18+29))
	w.expect("SELECT * FROM t ORDER BY id", "1|one|1.50|2", "2|NULL|-2.00|4", `3|three, "3"|3.00|6`, "4|NULL|4.00|8")
	w.expect("SELECT v FROM t WHERE id = 4", "NULL")
	w.exec("DELETE FROM t")

	w.file("h.tsv", "n\tid\tv\n7.25\t7\tx\n")
	w.imported("t FROM '$/h.tsv' WITH header, fields_terminated_by = '\\t', fields_enclosed_by = ''", "1|1|0|0|16")
	w.file("s.sql", "-- MySQL dump\nINSERT INTO `other` VALUES (1);\nINSERT INTO `t` (id, v) VALUES (8,'it\\'s'),(9,NULL);\n")
	w.imported("t FROM '$/s.sql'", "1|2|0|0|99")
	w.file("x.txt", "10;a;b\n")
	w.imported("t (id, @a, @b) SET v = CONCAT(@b, @a), n = 1 + 1 FROM '$/x.txt' FORMAT 'csv' WITH fields_terminated_by = ';'", "1|1|0|0|7")
	w.expect("SELECT * FROM t ORDER BY id", "7|x|7.25|14", "8|it's|NULL|16", "9|NULL|NULL|18", "10|ba|2.00|20")

	w.exec("CREATE TABLE b (id BIGINT AUTO_INCREMENT PRIMARY KEY, bits BIT(12), raw VARBINARY(10), j JSON, at TIMESTAMP NULL)")
	w.file("b.sql", "INSERT INTO b VALUES (1,b'101',0x00ff,'{\"a\":1}','2026-01-01 00:00:00'),(2,_binary 'A',NULL,NULL,NULL),(3,7,'','[]',NULL);")
	w.imported("b FROM '$/b.sql'", "1|3|0|0|121")
	w.expect("SELECT id, bits + 0, HEX(raw), j FROM b ORDER BY id", `1|5|00FF|{"a": 1}`, "2|65|NULL|NULL", "3|7||[]")
	w.file("b2.csv", "9,x\n")
	w.imported("b (bits, raw) FROM '$/b2.csv' WITH on_duplicate = 'replace'", "1|1|0|0|4")
	w.expect("SELECT id FROM b ORDER BY id", "1", "2", "3", "4")
}

// TestImportErrors: what is wrong is told with its file and line, and stops the job, or is counted.
func TestImportErrors(t *testing.T) {
	w := newWorld(t, "eu")
	w.exec("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(3) NOT NULL, n INT CHECK (n < 10))")
	var lines []string
	for i := range 3000 {
		lines = append(lines, fmt.Sprintf("%d,x,1", i))
	}
	at := func(bad string) string {
		own := append([]string{}, lines...)
		own[1233] = bad
		return strings.Join(own, "\n") + "\n"
	}
	for bad, want := range map[string]string{
		"x1,x,1":      "/bad.csv, line 1234: Incorrect integer value: 'x1' for column 'id' (error 1366)",
		"1233,long,1": "line 1234: Data too long for column 'v'",
		"1233,\\N,1":  "line 1234: Column set to default value; NULL supplied to NOT NULL column 'v'",
		"1233,x":      "line 1234: the line doesn't contain data for all columns",
		"1233,x,1,1":  "line 1234: the line was truncated; it contained more data",
		"1233,x,11":   "line 1234: Check constraint",
		"7,x,1":       "line 1234: Duplicate entry '7' for key 't.PRIMARY'",
	} {
		w.file("bad.csv", at(bad))
		w.refused(want, "IMPORT INTO t FROM '"+w.url+"/bad.csv'")
		w.expect("SELECT COUNT(*) FROM t", "0")
	}
	w.file("bad.csv", "zero,x,1\n"+at("1233,long,1")+"2999,x,1\n")
	w.refused("line 1235", "IMPORT INTO t FROM '"+w.url+"/bad.csv' WITH max_errors = 1")
	w.imported("t FROM '$/bad.csv' WITH max_errors = 3", "1|2999|0|3|"+fmt.Sprint(len("zero,x,1\n"+at("1233,long,1")+"2999,x,1\n")))
	if got := w.query("SHOW WARNINGS"); len(got) != 3 || !strings.Contains(got[0], "bad.csv, line 1: Incorrect integer value: 'zero'") {
		t.Errorf("warnings: %q", got)
	}
	w.expect("SELECT COUNT(*), SUM(id) FROM t", fmt.Sprintf("2999|%d", 2999*3000/2-1233))

	w.file("dup.csv", "1,new,2\n5000,new,2\n")
	w.imported("t FROM '$/dup.csv' WITH on_duplicate = 'ignore'", "1|1|1|0|19")
	w.expect("SELECT v FROM t WHERE id IN (1, 5000) ORDER BY id", "x", "new")
	w.imported("t FROM '$/dup.csv' WITH on_duplicate = 'replace'", "1|2|0|0|19")
	w.expect("SELECT v FROM t WHERE id IN (1, 5000) ORDER BY id", "new", "new")
	w.file("dup.csv", "1,x,2\n6000,wrong,2\n")
	w.refused("line 2: Data too long", "IMPORT INTO t FROM '"+w.url+"/dup.csv' WITH on_duplicate = 'ignore'")
	w.file("dup.csv", "1,x,2\n6000,x,99\n")
	w.refused("line 2: Check constraint", "IMPORT INTO t FROM '"+w.url+"/dup.csv' WITH on_duplicate = 'ignore'")
	w.file("s.sql", "INSERT INTO t VALUES\n(1,NOW(),2)")
	w.refused("s.sql: line 2, column 7: \"NOW\" is no value", "IMPORT INTO t FROM '"+w.url+"/s.sql'")
	w.file("h.csv", "id,w\n1,2\n")
	w.refused(`it has a column "w", and the table has none`, "IMPORT INTO t FROM '"+w.url+"/h.csv' WITH header")
}

// TestImportRefusals: what a statement may not do, and who.
func TestImportRefusals(t *testing.T) {
	w := newWorld(t, "eu")
	w.exec("CREATE TABLE t (id INT PRIMARY KEY)")
	w.exec("CREATE VIEW v AS SELECT * FROM t")
	w.file("a.csv", "1\n")
	for q, want := range map[string]string{
		"IMPORT INTO t FROM 'file:///etc/passwd' FORMAT 'csv'": "does not lie below the directory",
		"IMPORT INTO t FROM 's3://b/x.csv'":                    "this node knows no bucket",
		"IMPORT INTO t FROM '$/none.csv'":                      "none.csv",
		"IMPORT INTO t FROM '$/n*.csv'":                        "there is no file",
		"IMPORT INTO t FROM '$/a'":                             "add FORMAT",
		"IMPORT INTO t FROM '$/a.csv' FORMAT 'xml'":            "no format is called",
		"IMPORT INTO t FROM '$/a.csv' WITH speed = 1":          "no option speed",
		"IMPORT INTO t FROM '$/a.csv' WITH threads = 0":        "from 1 to 64",
		"IMPORT INTO t FROM '$/a.csv' WITH on_duplicate = 'x'": "one of error, ignore, replace",
		"IMPORT INTO t (id) FROM '$/a.csv' WITH header":        "the header names the columns",
		"IMPORT INTO t SET id = 1 FROM '$/a.csv'":              "needs a list",
		"IMPORT INTO t (id /* x */) FROM '$/a.csv'":            "without comments",
		"IMPORT INTO t FROM '$/a.csv' x":                       "the end of the statement",
		"IMPORT INTO v FROM '$/a.csv'":                         "is a view",
		"IMPORT INTO none FROM '$/a.csv'":                      "none",
		"IMPORT INTO t (x) FROM '$/a.csv'":                     "Unknown column 'x'",
		"EXPORT INTO '$' FROM none":                            "none",
		"EXPORT INTO '$' FROM SELECT 1 INTO @x":                "",
		"EXPORT INTO '$' WITH format = 'sql' FROM t":           "use mysqldump",
		"EXPORT INTO '$' WITH compression = 'lz4' FROM t":      "one of gzip",
		"EXPORT INTO '$' WITH compression = 'snappy' FROM t":   "no compression",
		"EXPORT INTO 'file:///' FROM t":                        "does not lie below",
	} {
		w.refused(want, strings.ReplaceAll(q, "$", w.url))
	}
	w.exec("CREATE USER ann")
	w.exec("GRANT SELECT, INSERT ON test.* TO ann")
	ann := w.as("ann", "test")
	refusedTo(t, ann, "BACKUP_ADMIN", "IMPORT INTO t FROM '"+w.url+"/a.csv'")
	refusedTo(t, ann, "BACKUP_ADMIN", "EXPORT INTO '"+w.url+"' FROM t")
	w.exec("GRANT BACKUP_ADMIN ON *.* TO ann")
	ann = w.as("ann", "test")
	if _, err := ask(ann, "IMPORT INTO t FROM '"+w.url+"/a.csv'"); err != nil {
		t.Error(err)
	}
	refusedTo(t, ann, "denied", "IMPORT INTO t FROM '"+w.url+"/a.csv' WITH on_duplicate = 'replace'")
	w.exec("REVOKE INSERT ON test.* FROM ann")
	ann = w.as("ann", "test")
	refusedTo(t, ann, "denied", "IMPORT INTO t FROM '"+w.url+"/a.csv'")
	w.exec("REVOKE SELECT ON test.* FROM ann")
	ann = w.as("ann", "")
	refusedTo(t, ann, "denied", "EXPORT INTO '"+w.url+"' FROM test.t")
	tx, err := w.c.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Query("IMPORT INTO test.t FROM '" + w.url + "/a.csv'"); err == nil {
		t.Error("an import is part of a transaction")
	}
	tx.Rollback()
}
