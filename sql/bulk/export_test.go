package bulk_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// all is a table with columns of all types.
const all = `(id INT PRIMARY KEY, i8 TINYINT, u64 BIGINT UNSIGNED, b BIT(10), y YEAR, d DECIMAL(12,3), big DECIMAL(38,10), f FLOAT, e DOUBLE,
	day DATE, dt DATETIME(6), ts TIMESTAMP(3) NULL, tm TIME(2), c CHAR(5), v VARCHAR(50), txt TEXT, bin BINARY(4), vb VARBINARY(9), bl BLOB,
	en ENUM('x','y,z'), st SET('p','q'), j JSON, g INT AS (id + 1) STORED)`

func (w *world) fill(t string) {
	w.exec("CREATE TABLE " + t + " " + all)
	w.exec("SET time_zone = '+03:00'")
	cols := "(id, i8, u64, b, y, d, big, f, e, day, dt, ts, tm, c, v, txt, bin, vb, bl, en, st, j)"
	w.exec("INSERT INTO " + t + " " + cols + " VALUES (1, -128, 18446744073709551615, b'1000000001', 2026, -123456789.125, 1234567890123456789012345678.0123456789, 0.1, " +
		"1e-300, '0001-01-01', '9999-12-31 23:59:59.999999', '2038-01-19 06:14:07.999', '-838:59:59', 'é', 'a\"b,c\\\\d\\n', '', 0x00ff, 0x5c4e0a2c22, 0x00, 'y,z', 'p,q', " +
		"'{\"a\": [1, null, \"é\"]}')")
	w.exec("INSERT INTO " + t + " (id) VALUES (2)")
	w.exec("INSERT INTO " + t + " (id, v, c, txt, vb, f, e) VALUES (3, '\\\\N', 'NULL', 'NULL', '', 3.4e38, 0.1), (4, '', '', '\\\\', 'x', 16777217, 12345678.9012345)")
}

// TestExport: what is exported is imported again, byte for byte.
func TestExport(t *testing.T) {
	w := newWorld(t, "eu")
	w.fill("a")
	want := w.query("SELECT *, HEX(vb), HEX(bin), b + 0 FROM a ORDER BY id")
	for kind, with := range map[string][]string{
		"CSV": {"", "WITH header", "WITH fields_escaped_by = '', fields_defined_null_by = '', header", "WITH fields_terminated_by = '\\t', fields_enclosed_by = ''",
			"WITH compression = 'gzip', chunk_rows = 1", "WITH compression = 'zstd', lines_terminated_by = '\\r\\n'"},
		"PARQUET": {"", "WITH compression = 'none'", "WITH compression = 'zstd', chunk_rows = 3", "WITH compression = gzip"},
	} {
		for _, options := range with {
			if kind == "CSV" && !strings.Contains(options, "header") {
				options = strings.TrimPrefix(strings.Replace(options, "WITH ", "WITH header, ", 1)+"", "")
				if options == "" {
					options = "WITH header = true"
				}
			}
			files := w.exported(kind, options, "a")
			if n := map[bool]int{true: 4, false: 1}[strings.Contains(options, "chunk_rows = 1")]; strings.Contains(options, "chunk_rows = 3") && len(files) != 2 ||
				!strings.Contains(options, "chunk_rows = 3") && len(files) != n {
				t.Errorf("%s %s: files %q", kind, options, files)
			}
			w.exec("CREATE TABLE b " + all)
			pattern := files[0][:strings.LastIndex(files[0], "-")] + "-*" + files[0][strings.Index(files[0], "."):]
			back := ""
			for _, o := range strings.Split(strings.TrimPrefix(options, "WITH "), ", ") {
				if o != "" && !strings.HasPrefix(o, "chunk") && (kind == "CSV" && !strings.HasPrefix(o, "compression")) {
					back += ", " + o
				}
			}
			if back != "" {
				back = " WITH " + back[2:]
			}
			q := "IMPORT INTO b FROM '" + w.url + "/" + pattern + "'" + back
			if _, err := ask(w.c, q); err != nil {
				t.Fatalf("%s: %v", q, err)
			}
			got := w.query("SELECT *, HEX(vb), HEX(bin), b + 0 FROM b ORDER BY id")
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s %s:\n got %q\nwant %q", kind, options, got, want)
			}
			w.exec("DROP TABLE b")
			for _, f := range files {
				if err := os.Remove(filepath.Join(w.dir, f)); err != nil {
					t.Error(err)
				}
			}
		}
	}
	if left, _ := os.ReadDir(w.dir); len(left) != 0 {
		t.Errorf("files are left: %v", left)
	}
}

// TestExportQueries: any SELECT may be exported, and one that fails leaves nothing.
func TestExportQueries(t *testing.T) {
	w := newWorld(t, "eu")
	w.exec("CREATE TABLE t (id INT PRIMARY KEY, d DATE)")
	w.exec("INSERT INTO t VALUES (1, '2026-01-01'), (2, NULL)")
	text := func(q string) string {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(w.dir, w.exported("", "", q)[0]))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if got := text("SELECT COUNT(*) AS n, 'a,b' FROM t WHERE d IS NULL"); got != "1,\"a,b\"\n" {
		t.Errorf("%q", got)
	}
	if got := text("WITH x AS (SELECT id FROM t) SELECT SUM(id) FROM x"); got != "3\n" {
		t.Errorf("%q", got)
	}
	if got := text("SELECT * FROM t WHERE id > 9"); got != "" {
		t.Errorf("%q", got)
	}
	w.exported("PARQUET", "", "SELECT * FROM t WHERE id > 9")
	before, _ := os.ReadDir(w.dir)
	w.exec("SET sql_mode = ''")
	w.exec("INSERT INTO t VALUES (3, '0000-00-00')")
	w.refused(`no time "0000-00-00"`, "EXPORT INTO PARQUET '"+w.url+"' WITH chunk_rows = 1 FROM t")
	w.refused("name it in the SELECT with AS", "EXPORT INTO PARQUET '"+w.url+"' FROM SELECT id, id FROM t")
	w.refused("syntax error", "EXPORT INTO '"+w.url+"' FROM (DELETE FROM t)")
	w.refused("READ ONLY", "EXPORT INTO '"+w.url+"' FROM WITH x AS (SELECT 1 AS id) DELETE FROM t WHERE id IN (SELECT id FROM x)")
	if after, _ := os.ReadDir(w.dir); len(after) != len(before) {
		t.Errorf("%d files before, %d after", len(before), len(after))
	}
	w.expect("SELECT COUNT(*) FROM t", "3")
}
