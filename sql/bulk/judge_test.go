package bulk_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// judge runs testdata/judge.py, with the Python of GODWIT_PYTHON or the one in PATH.
func judge(t *testing.T, what, dir string) []byte {
	t.Helper()
	python := os.Getenv("GODWIT_PYTHON")
	if python == "" {
		python = "python3"
	}
	cmd := exec.Command(python, "testdata/judge.py", what, dir)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var ended *exec.ExitError
	switch {
	case errors.Is(err, exec.ErrNotFound), errors.As(err, &ended) && ended.ExitCode() == 75:
		t.Skip("pyarrow and DuckDB are not there: ", strings.TrimSpace(string(out)))
	case err != nil:
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	return out
}

// TestJudgesRead: pyarrow and DuckDB read what was exported.
func TestJudgesRead(t *testing.T) {
	w := newWorld(t, "eu")
	w.fill("a")
	move := func(files []string, name string) {
		if len(files) != 1 {
			t.Fatalf("files: %q", files)
		}
		if err := os.Rename(filepath.Join(w.dir, files[0]), filepath.Join(w.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	const without = "SELECT id, i8, u64, b, y, d, big, day, dt, ts, tm, c, v, txt, en, st, j FROM a ORDER BY id"
	move(w.exported("PARQUET", "", "a"), "a.parquet")
	move(w.exported("CSV", "WITH header, fields_escaped_by = '', fields_defined_null_by = ''", without), "a.csv")
	var got map[string]any
	if err := json.Unmarshal(judge(t, "read", w.dir), &got); err != nil {
		t.Fatal(err)
	}
	list := func(key string) (out []string) {
		for _, x := range got[key].([]any) {
			vs, ok := x.([]any)
			if !ok {
				out = append(out, x.(string))
				continue
			}
			row := []string{}
			for _, v := range vs {
				if v == nil {
					v = "NULL"
				}
				row = append(row, v.(string))
			}
			out = append(out, strings.Join(row, "|"))
		}
		return out
	}
	none := strings.Repeat("|NULL", 21) + "|"
	want := []string{
		"1|-128|18446744073709551615|513|2026|-123456789.125|1234567890123456789012345678.0123456789|0.10000000149011612|1e-300|0001-01-01|" +
			"9999-12-31 23:59:59.999999|2038-01-19 03:14:07.999000Z|-838:59:59.00|é|a\"b,c\\d\n||0x00ff0000|0x5c4e0a2c22|0x00|y,z|p,q|{\"a\": [1, null, \"é\"]}|2",
		"2" + none + "3",
	}
	for _, by := range []string{"pyarrow", "duckdb"} { // FLOATs have all of their digits
		if all := list(by); !strings.Contains(all[3], "|16777216.0|12345678.9012345|") {
			t.Errorf("%s: %q", by, all[3])
		}
		if all := list(by); len(all) != 4 || !slices.Equal(all[:2], want) {
			t.Errorf("%s:\n got %q\nwant %q", by, all, want)
		}
	}
	types := map[string][]string{
		"pyarrow types": {"u64 uint64", "d decimal128(12, 3)", "big decimal128(38, 10)", "f float", "e double", "day date32[day]", "dt timestamp[us]",
			"ts timestamp[us, tz=UTC]", "v string", "vb binary"},
		"duckdb types": {"u64 UBIGINT", "d DECIMAL(12,3)", "big DECIMAL(38,10)", "f FLOAT", "e DOUBLE", "day DATE", "dt TIMESTAMP",
			"ts TIMESTAMP WITH TIME ZONE", "v VARCHAR", "vb BLOB", "j JSON"},
	}
	for by, some := range types {
		all := list(by)
		for _, s := range some {
			if !slices.Contains(all, s) {
				t.Errorf("%s: no %q in %q", by, s, all)
			}
		}
	}
	shown := w.query(without)
	for i, row := range shown {
		fields := strings.Split(row, "|")
		if fields[3] != "NULL" { // BIT is a number in files
			fields[3] = "513"
		}
		shown[i] = strings.Join(fields, "|")
	}
	for _, by := range []string{"pyarrow csv", "duckdb csv"} {
		if all := list(by); !slices.Equal(all, shown) {
			t.Errorf("%s:\n got %q\nwant %q", by, all, shown)
		}
	}
}

// TestJudgesWrite: what pyarrow and DuckDB have written is imported.
func TestJudgesWrite(t *testing.T) {
	w := newWorld(t, "eu")
	judge(t, "write", w.dir)
	w.exec("SET time_zone = '+00:00'")
	const table = "(id INT PRIMARY KEY, u64 BIGINT UNSIGNED, d DECIMAL(12,3), big DECIMAL(38,10), e DOUBLE, day DATE, dt DATETIME(6), ts TIMESTAMP(3) NULL, " +
		"tm TIME(6), v VARCHAR(40), vb VARBINARY(10), b BOOL)"
	want := map[int]string{
		0: `0|18446744073709551615|-1500.000|1000000000000000000000000000.0000000000|0|1900-01-01|1950-01-01 01:02:03.456789|2001-01-01 01:02:03.456|` +
			"00:00:00.250000|é\"0\",\\\n|0000FF5C0A|NULL",
		5:    "5|18446744073709551610|-1494.995|1000000000000000000000000000.0000000005|0.7142857142857143|1900-01-06|1950-01-01 06:02:03.456789|2001-01-01 06:02:03.456|05:05:05.250000|NULL|0500FF5C0A|0",
		2999: "2999|NULL|NULL|1000000000000000000000000000.0000002999|428.42857142857144|1908-03-19|1950-05-06 00:02:03.456789|2001-05-06 00:02:03.456|23:59:49.250000|é\"2999\",\\\n|B700FF5C0A|0",
	}
	for file, left := range map[string][]int{"pa.parquet": nil, "duck.parquet": nil, "old.parquet": {1}, "pa.csv": {7, 10, 11}, "duck.csv.gz": {7, 10, 11}} {
		w.exec("CREATE TABLE t " + table)
		options := ""
		if strings.Contains(file, "csv") {
			options = " WITH header, fields_escaped_by = '', fields_defined_null_by = ''"
		}
		if _, err := ask(w.c, "IMPORT INTO t FROM '"+w.url+"/"+file+"'"+options); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		w.expect("SELECT COUNT(*), COUNT(d), COUNT(v), COUNT(DISTINCT dt) FROM t", "3000|2571|2727|3000")
		for id, row := range want {
			f := strings.Split(row, "|")
			for _, k := range left {
				f[k] = "NULL"
			}
			q := fmt.Sprintf("SELECT id, u64, d, big, e, day, dt, ts, tm, v, HEX(vb), b FROM t WHERE id = %d", id)
			if got := w.query(q); len(got) != 1 || got[0] != strings.Join(f, "|") {
				t.Errorf("%s:\n got %q\nwant %q", file, got, strings.Join(f, "|"))
			}
		}
		w.exec("DROP TABLE t")
	}
}
