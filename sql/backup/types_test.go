package backup_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/godwitdb/godwit/kv/memkv"
)

// types are columns of all types that tables may have, each with values.
var types = []struct {
	def    string
	values []string
	plain  bool // cannot be in an index
}{
	{"TINYINT", []string{"-128", "127", "0"}, false}, {"TINYINT UNSIGNED", []string{"255"}, false},
	{"SMALLINT", []string{"-32768", "32767"}, false}, {"SMALLINT UNSIGNED", []string{"65535"}, false},
	{"MEDIUMINT", []string{"-8388608"}, false}, {"MEDIUMINT UNSIGNED", []string{"16777215"}, false},
	{"INT", []string{"-2147483648", "2147483647"}, false}, {"INT UNSIGNED", []string{"4294967295"}, false},
	{"BIGINT", []string{"-9223372036854775808", "9223372036854775807"}, false},
	{"BIGINT UNSIGNED", []string{"18446744073709551615"}, false},
	{"BOOLEAN", []string{"TRUE", "FALSE"}, false}, {"BIT(40)", []string{"b'1011'", "1099511627775"}, false},
	{"FLOAT", []string{"-1.5", "3.4e38"}, false}, {"DOUBLE", []string{"-1.5e300", "2.2250738585072014e-308"}, false},
	{"DECIMAL(65,30)", []string{"-12345678901234567890.123456789012345678901234567891", "0.000000000000000000000000000001"}, false},
	{"DECIMAL(10,0)", []string{"-5"}, false},
	{"DATE", []string{"'1000-01-01'", "'9999-12-31'"}, false},
	{"DATETIME(6)", []string{"'2026-11-23 21:04:15.123456'", "'1000-01-01'"}, false}, {"DATETIME", []string{"'2026-11-23 21:04:15'"}, false},
	{"TIMESTAMP(3)", []string{"'2026-11-23 21:04:15.123'"}, false},
	{"TIME", []string{"'-838:59:59'", "'12:00:00'"}, false}, {"TIME(6)", []string{"'12:00:00.000001'"}, false},
	{"YEAR", []string{"1901", "2155"}, false},
	{"CHAR(10)", []string{"'a'", "'bä '"}, false}, {"VARCHAR(200)", []string{"''", "'日本語 🙂'", "REPEAT('x', 200)"}, false},
	{"BINARY(4)", []string{"'ab'", "X'00ff00ff'"}, false}, {"VARBINARY(20)", []string{"X'00'", "''", "X'ff00'"}, false},
	{"TINYTEXT", []string{"'t'"}, true}, {"TEXT", []string{"'text'"}, true}, {"MEDIUMTEXT", []string{"REPEAT('m', 70000)"}, true},
	{"LONGTEXT", []string{"'long'"}, true}, {"BLOB", []string{"X'0001'"}, true}, {"LONGBLOB", []string{"REPEAT(X'00ff', 60000)"}, true},
	{"ENUM('a','b','c')", []string{"'a'", "'c'"}, false}, {"SET('x','y','z')", []string{"'x,z'", "''"}, false},
	{"JSON", []string{`'{"a": [1, 2.5, "x", null, true], "b": {"c": "ü"}}'`, "'[]'", "'null'"}, true},
	{"POINT", []string{"POINT(1, 2)"}, true}, {"GEOMETRY", []string{"ST_GEOMFROMTEXT('LINESTRING(0 0, 1 1)')"}, true},
	{"POINT SRID 4326", []string{"ST_GEOMFROMTEXT('POINT(1 2)', 4326)"}, true},
	{"VARCHAR(40) COLLATE utf8mb4_0900_ai_ci", []string{"'Äb'", "'cd'", "'ß'"}, false},
	{"VARCHAR(40) COLLATE utf8mb4_general_ci", []string{"'Äb'", "'zz'"}, false},
	{"VARCHAR(40) COLLATE utf8mb4_unicode_ci", []string{"'Äb'"}, false}, {"VARCHAR(40) COLLATE utf8mb4_bin", []string{"'Äb'"}, false},
	{"CHAR(5) CHARACTER SET latin1 COLLATE latin1_swedish_ci", []string{"'abc'"}, false},
	{"VARCHAR(9) CHARACTER SET ascii", []string{"'abc'"}, false}, {"VARCHAR(9) CHARACTER SET utf8mb3", []string{"'ä'"}, false},
}

// TestTypes: a table of each type, with keys where the type may be in one, comes back in a cluster
// with other shards, its definition, its rows and its indexes, and so does an incremental backup of
// it.
func TestTypes(t *testing.T) {
	a := newWorld(t, "eu")
	var names []string
	order := func(i int) string {
		if types[i].plain {
			return "id"
		}
		return "v, id"
	}
	for i, x := range types {
		name := fmt.Sprintf("t%02d", i)
		names = append(names, name)
		keys := ""
		if !x.plain {
			keys = ", KEY (v)"
		}
		a.exec("CREATE TABLE " + name + " (id INT PRIMARY KEY, v " + x.def + keys + ")")
		if !x.plain {
			a.exec("CREATE TABLE k" + name + " (v " + x.def + " NOT NULL, w INT, PRIMARY KEY (v))")
		}
		for j, v := range x.values {
			a.exec(fmt.Sprintf("INSERT INTO %s VALUES (%d, %s)", name, j, v))
			if !x.plain {
				a.exec(fmt.Sprintf("INSERT INTO k%s VALUES (%s, %d)", name, v, j))
			}
		}
		if !strings.HasPrefix(x.def, "POINT SRID") {
			a.exec(fmt.Sprintf("INSERT INTO %s VALUES (100, NULL)", name))
		}
	}
	a.backup("", "")
	for _, n := range names {
		a.exec("UPDATE " + n + " SET id = id + 1000 WHERE id = 0")
	}
	a.backup("", " WITH INCREMENTAL")
	b := start(t, memkv.New(7, "eu"), a.dir)
	b.query("RESTORE FROM '" + a.url + "'")
	b.exec("USE test")
	same := func(q string) {
		t.Helper()
		if was, is := a.query(q), b.query(q); !slices.Equal(was, is) {
			t.Errorf("%s:\n was %.300q\n  is %.300q", q, was, is)
		}
	}
	for i, n := range names {
		same("SHOW CREATE TABLE " + n)
		same("SELECT * FROM " + n + " ORDER BY " + order(i))
		same("SELECT id, HEX(CAST(v AS CHAR)) FROM " + n + " ORDER BY id")
		if types[i].plain {
			continue
		}
		same("SHOW CREATE TABLE k" + n)
		same("SELECT * FROM k" + n + " ORDER BY v")
		for _, v := range types[i].values { // by the index, and by the primary key
			same(fmt.Sprintf("SELECT id FROM %s WHERE v = %s", n, v))
			same(fmt.Sprintf("SELECT w FROM k%s WHERE v = %s", n, v))
		}
		b.refused("Duplicate", fmt.Sprintf("INSERT INTO k%s VALUES (%s, 7)", n, types[i].values[0]))
	}
}
