package rowfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// file is a file in memory.
type file []byte

func (f file) ReadAt(p []byte, off int64) (int, error) { return bytes.NewReader(f).ReadAt(p, off) }
func (f file) Size() int64                             { return int64(len(f)) }
func (f file) From(_ context.Context, off int64) (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(f[min(off, int64(len(f))):])), nil
}

func (f *Format) withDefaults() *Format {
	if f.Kind == CSV && f.FieldEnd == "" {
		f.FieldEnd, f.Enclosed, f.Escape, f.Null = ",", `"`, `\`, `\N`
	}
	return f
}

// shown is a row as text.
func shown(r *Record) string {
	var fs []string
	for _, f := range r.Fields {
		if f.Null {
			fs = append(fs, "NULL")
		} else {
			fs = append(fs, fmt.Sprintf("%q", f.Text))
		}
	}
	s := strings.Join(fs, " ")
	if r.Columns != nil {
		s = strings.Join(r.Columns, ",") + ": " + s
	}
	return s
}

// readAll reads a file, and where each row ends.
func readAll(in Source, f *Format, from Position) (rows []string, ends []Position, err error) {
	r, err := Open(context.Background(), in, f, from)
	if err != nil {
		return nil, nil, err
	}
	defer r.Close()
	var rec Record
	for {
		if err := r.Next(&rec); err == io.EOF {
			return rows, ends, nil
		} else if err != nil {
			return rows, ends, err
		}
		rows, ends = append(rows, fmt.Sprintf("%d| %s", rec.Line, shown(&rec))), append(ends, r.Position())
	}
}

// goesOn fails unless a reader that begins behind each row reads the rest.
func goesOn(t *testing.T, in Source, f *Format) []string {
	t.Helper()
	rows, ends, err := readAll(in, f, Position{})
	if err != nil {
		t.Fatal(err)
	}
	for i, at := range ends {
		if at.Row != int64(i+1) {
			t.Errorf("behind row %d the position is %+v", i+1, at)
		}
		if got, _, err := readAll(in, f, at); err != nil || !slices.Equal(got, rows[i+1:]) {
			t.Fatalf("behind row %d, from %+v:\n got %q, %v\nwant %q", i+1, at, got, err, rows[i+1:])
		}
	}
	return rows
}

func packed(t testing.TB, text, compression string) file {
	t.Helper()
	var b bytes.Buffer
	z, err := packing(&b, compression)
	if err == nil {
		_, err = io.WriteString(z, text)
	}
	if err = errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestCSV: files of several kinds of writers, whole and compressed.
func TestCSV(t *testing.T) {
	rfc := Format{Kind: CSV, FieldEnd: ",", Enclosed: `"`}
	for _, c := range []struct {
		f    Format
		in   string
		want []string
	}{
		{Format{Kind: CSV}, "1,a\n\n2,\\N\n3,\"x\n\"\"y\\\"\"\n4,NULL", []string{`1| "1" "a"`, `3| "2" NULL`, `4| "3" "x\n\"y\""`, `6| "4" "NULL"`}},
		{Format{Kind: CSV, Single: true}, "\na\n", []string{`1| ""`, `2| "a"`}},
		{rfc, "1,\r\n\"\",\\N\r\n", []string{`1| "1" NULL`, `2| "" "\\N"`}},
		{Format{Kind: CSV, Header: true}, "\xef\xbb\xbfid,v\n1,a\n", []string{`2| id,v: "1" "a"`}},
		{Format{Kind: CSV, Header: true, Skip: 2}, "note\n\nid,v\n1,a\n", []string{`4| id,v: "1" "a"`}},
		{Format{Kind: CSV, FieldEnd: "\t", LineEnd: "|", Null: "-"}, "1\t-|2\tb", []string{`1| "1" NULL`, `1| "2" "b"`}},
		{Format{Kind: CSV}, "", nil},
		{Format{Kind: CSV, Skip: 5}, "1\n2\n", nil},
	} {
		for _, z := range []string{"", Gzip, Zstd} {
			c.f.Compression = z
			if got := goesOn(t, packed(t, c.in, z), c.f.withDefaults()); !slices.Equal(got, c.want) {
				t.Errorf("%q %s:\n got %q\nwant %q", c.in, z, got, c.want)
			}
		}
	}
}

// TestDump: what mysqldump and others write.
func TestDump(t *testing.T) {
	f := &Format{Kind: SQL, Table: "t"}
	for in, want := range map[string][]string{
		"-- MySQL dump\n/*!40101 SET NAMES utf8 */;\nDROP TABLE IF EXISTS `t`;\nCREATE TABLE `t` (\n  `a` int DEFAULT ';'\n);\n" +
			"LOCK TABLES `t` WRITE;\nINSERT INTO `t` VALUES (1,'it\\'s;\\n'),(-2.5e3,NULL);\nUNLOCK TABLES;\n": {`8| "1" "it's;\n"`, `8| "-2.5e3" NULL`},
		"insert ignore into d.T (`b`, a) values ('x''y', 0x4142) , (_binary 'z\\0', x'')": {`1| b,a: "x'y" "AB"`, `1| b,a: "z\x00" ""`},
		"INSERT INTO other VALUES (1);INSERT INTO t VALUES\n(TRUE, b'101', 'a' 'b'),\n(FALSE, 7, \"q\"\"\")": {
			`2| "1" "\x00\x00\x00\x00\x00\x00\x00\x05" "ab"`, `3| "0" "7" "q\""`},
		"REPLACE t VALUES (1);  # end\nINSERT INTO t(a) VALUE (2) -- x":    {`1| "1"`, `2| a: "2"`},
		"INSERT INTO `t` (a) VALUES (1);INSERT INTO t (a,b) VALUES (2,3);": {`1| a: "1"`, `1| a,b: "2" "3"`},
		"": nil,
	} {
		if got := goesOn(t, file(in), f); !slices.Equal(got, want) {
			t.Errorf("%q:\n got %q\nwant %q", in, got, want)
		}
		f.Compression = Gzip
		if got := goesOn(t, packed(t, in, Gzip), f); !slices.Equal(got, want) {
			t.Errorf("%q, compressed:\n got %q\nwant %q", in, got, want)
		}
		f.Compression = ""
	}
}

// TestBadFiles: what cannot be read is named with its line.
func TestBadFiles(t *testing.T) {
	for _, c := range []struct {
		f        Format
		in, want string
	}{
		{Format{Kind: SQL, Table: "t"}, "\nINSERT INTO t VALUES (1,NOW())", `line 2, column 28: "NOW" is no value`},
		{Format{Kind: SQL, Table: "t"}, "INSERT INTO t VALUES (1+2)", "line 1, column 26: \"1+2\" is no number"},
		{Format{Kind: SQL, Table: "t"}, "INSERT INTO t VALUES ('a", "ends within quotes"},
		{Format{Kind: SQL, Table: "t"}, "INSERT INTO t VALUES (1", "ends within a row"},
		{Format{Kind: SQL, Table: "t"}, "INSERT INTO t (a,b) VALUES (1)", "a row has 1 values for 2 columns"},
		{Format{Kind: SQL, Table: "t"}, "INSERT INTO t SELECT 1", "INSERT ... SELECT"},
		{Format{Kind: SQL, Table: "t"}, "INSERT INTO t VALUES (1) ON DUPLICATE KEY UPDATE a=1", "ON DUPLICATE KEY"},
		{Format{Kind: SQL, Table: "t"}, "INSERT INTO x VALUES (1)", `no INSERT of a table "t", but of x`},
		{Format{Kind: SQL, Table: "t"}, "INSERT INTO t VALUES (_cp1251 'x')", "character set cp1251"},
		{Format{Kind: SQL, Table: "t"}, "INSERT INTO t VALUES (0xg)", "no hexadecimal digits"},
		{Format{Kind: SQL, Table: "t"}, "SET sql_mode='NO_BACKSLASH_ESCAPES';", "NO_BACKSLASH_ESCAPES"},
		{Format{Kind: SQL, Table: "t"}, "/* x", "within a comment"},
		{Format{Kind: CSV, Header: true}, "a,a\n", "line 1: field 2 of the header"},
		{Format{Kind: CSV, Header: true}, "", "no header"},
		{Format{Kind: CSV, Compression: Gzip}, "plain", "not compressed by gzip"},
		{Format{Kind: CSV, Compression: Zstd}, "plain", "magic number mismatch"},
		{Format{Kind: Parquet}, "plain and long enough", "no Parquet file"},
		{Format{Kind: Parquet}, "PAR1\xff\xff\xff\x7fPAR1", "its description has"},
	} {
		_, _, err := readAll(file(c.in), c.f.withDefaults(), Position{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.in, err, c.want)
		}
	}
}

// TestWriteCSV: what is written is read again, whatever is in it.
func TestWriteCSV(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	const letters = "a ,;\t\n\r\"'\\N\x00é"
	for i := range 500 {
		f := [][4]string{{",", `"`, `\`, `\N`}, {",", `"`, "", ""}, {"\t", "", `\`, `\N`}, {";;", "'", "!", "nil"}}[rng.IntN(4)]
		y := &Format{Kind: CSV, FieldEnd: f[0], Enclosed: f[1], Escape: f[2], Null: f[3], LineEnd: "\n", Header: i%2 == 0}
		cols := []Column{{Name: "id", Type: Int}, {Name: "v"}, {Name: "w", Type: Bytes}}
		var b bytes.Buffer
		w, err := Create(&b, y, cols)
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for n := range rng.IntN(5) {
			row := [][]byte{[]byte(fmt.Sprint(n)), nil, nil}
			for k := 1; k < 3; k++ {
				if rng.IntN(4) > 0 {
					row[k] = []byte{}
					for range rng.IntN(6) {
						row[k] = append(row[k], letters[rng.IntN(len(letters))])
					}
				}
			}
			if err := w.Write(row); err != nil {
				t.Fatal(err)
			}
			var fs []string
			for _, v := range row {
				fs = append(fs, map[bool]string{true: "NULL", false: fmt.Sprintf("%q", v)}[v == nil])
			}
			want = append(want, strings.Join(fs, " "))
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		got, _, err := readAll(file(b.Bytes()), y, Position{})
		for i := range got {
			_, got[i], _ = strings.Cut(got[i], "| ")
			got[i] = strings.TrimPrefix(got[i], "id,v,w: ")
		}
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("%+v %q:\n got %q, %v\nwant %q", y, b.String(), got, err, want)
		}
	}
}

// TestLikeNull: a text that would be read as NULL is refused.
func TestLikeNull(t *testing.T) {
	w, err := Create(io.Discard, &Format{Kind: CSV, FieldEnd: ",", Escape: `\`, Null: "-"}, []Column{{Name: "a"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write([][]byte{[]byte("-")}); err == nil {
		t.Error("it is written")
	}
	if err := w.Write([][]byte{[]byte("--")}); err != nil {
		t.Error(err)
	}
}

// TestWriteParquet: values of all types are read again, from any row on.
func TestWriteParquet(t *testing.T) {
	cols := []Column{{Name: "z", Type: Int}, {Name: "u", Type: Uint}, {Name: "d", Type: Decimal, Precision: 10, Scale: 2},
		{Name: "big", Type: Decimal, Precision: 30, Scale: 5}, {Name: "f", Type: Double}, {Name: "day", Type: Date},
		{Name: "at", Type: DateTime}, {Name: "ts", Type: Timestamp}, {Name: "s"}, {Name: "raw", Type: Bytes}, {Name: "doc", Type: JSON},
		{Name: "e", Type: Float}, {Name: "huge", Type: Decimal, Precision: 65, Scale: 1}}
	rows := [][]string{
		{"-9223372036854775808", "18446744073709551615", "-12345678.90", "-1234567890123456789012345.00001", "0.1", "1969-12-31",
			"1969-12-31 23:59:59.000001", "2038-01-19 03:14:08", "é", "\x00\xff", `{"a":1}`, "1.5", "1" + strings.Repeat("2", 60) + ".5"},
		{"7", "0", "0.01", "0.00000", "-1e+300", "9999-12-31", "0001-01-01 00:00:00", "1970-01-01 00:00:01.5", "", "", "null", "-0.25", "0.0"},
	}
	for _, z := range Compressions[Parquet] {
		f := &Format{Kind: Parquet, Compression: z}
		var b bytes.Buffer
		w, err := Create(&b, f, cols)
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for i := range 3000 {
			row := make([][]byte, len(cols))
			var fs []string
			for k := range row {
				if i%3 == 2 || (i+k)%7 == 0 {
					fs = append(fs, "NULL")
					continue
				}
				row[k] = []byte(rows[i%3][k])
				fs = append(fs, fmt.Sprintf("%q", row[k]))
			}
			if err := w.Write(row); err != nil {
				t.Fatal(err)
			}
			if i == 1000 {
				if err := w.(*parquetWriter).w.Flush(); err != nil { // a second row group
					t.Fatal(err)
				}
			}
			want = append(want, fmt.Sprintf("%d| z,u,d,big,f,day,at,ts,s,raw,doc,e,huge: %s", i+1, strings.Join(fs, " ")))
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		in := file(b.Bytes())
		got, ends, err := readAll(in, f, Position{})
		if err != nil || !slices.Equal(got, want) {
			for i := range want {
				if i >= len(got) || got[i] != want[i] {
					t.Fatalf("%s: %d rows, %v: row %d is %q, want %q", z, len(got), err, i, got[min(i, len(got)-1)], want[i])
				}
			}
		}
		for _, i := range []int{0, 500, 1000, 1001, 2500, 2999} {
			if got, _, err := readAll(in, f, ends[i]); err != nil || !slices.Equal(got, want[i+1:]) {
				t.Errorf("%s from row %d: %d rows, %v", z, i+1, len(got), err)
			}
		}
	}
	for col, bad := range map[Column]string{{Name: "a", Type: Date}: "0000-00-00", {Name: "a", Type: Decimal, Precision: 5, Scale: 1}: "1.25",
		{Name: "a", Type: Int}: "x"} {
		w, err := Create(io.Discard, &Format{Kind: Parquet}, []Column{col})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Write([][]byte{[]byte(bad)}); err == nil {
			t.Errorf("%q is written", bad)
		}
	}
	if _, err := Create(io.Discard, &Format{Kind: Parquet}, []Column{{Name: "a"}, {Name: "a"}}); err == nil {
		t.Error("two columns of one name")
	}
}

// TestGuess: names say what is in a file.
func TestGuess(t *testing.T) {
	for name, want := range map[string]string{"a.csv": "csv ", "A.CSV.GZ": "csv gzip", "x.sql.zst": "sql zstd", "p.parquet": "parquet ", "x": " ",
		"x.gz": " gzip", "t.tsv": "csv "} {
		if kind, z := Guess(name); string(kind)+" "+z != want {
			t.Errorf("%s: %s %s", name, kind, z)
		}
	}
}

func fuzzed(t *testing.T, data []byte, f *Format) {
	t.Helper()
	begin := time.Now()
	rows, ends, err := readAll(file(data), f, Position{})
	var bad *BadError
	if err != nil && !errors.As(err, &bad) {
		t.Fatalf("an error without a line: %T %v", err, err)
	}
	if time.Since(begin) > 20*time.Second {
		t.Fatal("it takes long")
	}
	if err == nil && len(ends) > 0 {
		i := len(ends) / 2
		if got, _, err := readAll(file(data), f, ends[i]); err != nil || !slices.Equal(got, rows[i+1:]) {
			t.Fatalf("from %+v: %q, %v; want %q", ends[i], got, err, rows[i+1:])
		}
	}
}

// FuzzDump: any text ends in rows or in an error with a line, and is read from its middle alike.
func FuzzDump(f *testing.F) {
	f.Add([]byte("-- MySQL dump\nINSERT INTO `t` (a,b) VALUES (1,'it\\'s;\\n'),(-2.5e3,NULL);\n"))
	f.Add([]byte("insert into t values (0x4142,x'00',b'1',_binary 'z') /* x */ , (1,2,3,4)"))
	f.Fuzz(func(t *testing.T, data []byte) { fuzzed(t, data, &Format{Kind: SQL, Table: "t"}) })
}

// FuzzCSV does the same for CSV, with and without a header.
func FuzzCSV(f *testing.F) {
	f.Add([]byte("id,v\r\n1,\"a\nb\"\r\n"), true)
	f.Add([]byte("\xef\xbb\xbf1,\\N\n\n"), false)
	f.Fuzz(func(t *testing.T, data []byte, header bool) {
		fuzzed(t, data, (&Format{Kind: CSV, Header: header}).withDefaults())
	})
}

// FuzzParquet: damaged files end in an error, and nothing panics.
func FuzzParquet(f *testing.F) {
	var b bytes.Buffer
	w, err := Create(&b, &Format{Kind: Parquet, Compression: "snappy"}, []Column{{Name: "a", Type: Int}, {Name: "b"}, {Name: "d", Type: Decimal, Precision: 30, Scale: 2}})
	if err != nil {
		f.Fatal(err)
	}
	for i := range 20 {
		if err := w.Write([][]byte{[]byte(fmt.Sprint(i)), []byte("text"), nil}); err != nil {
			f.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) { fuzzed(t, data, &Format{Kind: Parquet}) })
}
