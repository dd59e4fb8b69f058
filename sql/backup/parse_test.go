package backup

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/backup/archive"
	"github.com/godwitdb/godwit/sql/backup/decode"
	"github.com/godwitdb/godwit/sql/schema"
)

// text is a statement as it was understood.
func (st *Statement) text() string {
	if st == nil {
		return "none"
	}
	if st.err != nil {
		return "error: " + st.err.Error()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s at %s", st.verb, st.order().target(), st.place)
	if st.asOf != nil {
		fmt.Fprintf(&b, " as of %v", st.asOf)
	}
	if st.as != nil {
		fmt.Fprintf(&b, " as %s", st.as)
	}
	for _, o := range []struct {
		on   bool
		name string
	}{{st.incremental, "incremental"}, {st.skipMultiMaster, "skip multi"}, {st.skipForeignKeys, "skip keys"},
		{st.passphrase != "", "passphrase " + st.passphrase}} {
		if o.on {
			b.WriteString(" " + o.name)
		}
	}
	return b.String()
}

// TestPlacesOfStatements: places of regions, in our words and in CockroachDB's, and what is wrong.
func TestPlacesOfStatements(t *testing.T) {
	for q, want := range map[string]string{
		"BACKUP INTO 'm' PLACES ('EU' = 'e', 'us' = 'u') AS OF '-5s' WITH INCREMENTAL":                 "m map[eu:e us:u]",
		"BACKUP LOG TABLE a INTO 'm' PLACES ('eu'='e')":                                                "m map[eu:e]",
		"CREATE BACKUP SCHEDULE s FOR INTO 'm' PLACES ('eu' = 'e') EVERY 1 DAY KEEP 2 DAYS":            "m map[eu:e]",
		"RESTORE FROM 'm' PLACES ('eu' = 'e')":                                                         "m map[eu:e]",
		"VERIFY BACKUP 'm' PLACES ('eu' = 'e') WITH TABLES":                                            "m map[eu:e]",
		"BACKUP INTO ('s3://m?COCKROACH_LOCALITY=default', 's3://e/x?COCKROACH_LOCALITY=region%3Deu')": "s3://m map[eu:s3://e/x]",
		"BACKUP INTO ('s3://e?COCKROACH_LOCALITY=region%3Deu', 's3://m')":                              "s3://m map[eu:s3://e]",
		"BACKUP INTO ('s3://m', 's3://n')":                                                             "error: two places of BACKUP are for rows of all regions",
		"BACKUP INTO ('s3://e?COCKROACH_LOCALITY=region%3Deu')":                                        "error: no place of BACKUP is for the rows of all other",
		"BACKUP INTO ('s3://m', 's3://e?COCKROACH_LOCALITY=zone%3Deu')":                                "error: COCKROACH_LOCALITY=zone=eu is neither",
		"BACKUP INTO 'm' PLACES ('eu' = 'e', 'EU' = 'f')":                                              "error: region 'EU' has two places",
		"BACKUP INTO 'm' PLACES ()":                                                                    "error: ",
		"BACKUP INTO 'm' PLACES ('eu', 'e')":                                                           "error: ",
		"SHOW BACKUP FROM 'm' PLACES ('eu' = 'e')":                                                     "error: ",
	} {
		st := Parse(q)
		got := fmt.Sprint(st.place, " ", st.places)
		if st.err != nil {
			got = "error: " + st.err.Error()
		}
		if !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", q, got, want)
		}
	}
}

func TestParse(t *testing.T) {
	for q, want := range map[string]string{
		"BACKUP INTO 'file:///a'": "BACKUP CLUSTER at file:///a",
		" backup\tdatabase a, `B``c` into \"file:///a\" as of system time '-5s' with incremental, skip_multi_master;": "BACKUP DATABASE a, b`c " +
			"at file:///a as of -5s incremental skip multi",
		"BACKUP TABLE a, b.c INTO 'x' AS OF -5 WITH encryption_passphrase = 'it''s \\'so'": "BACKUP TABLE .a, b.c at x as of -5 passphrase it's 'so",
		"BACKUP TABLE a.b INTO 'x' AS OF TIMESTAMP 12.5":                                   "BACKUP TABLE a.b at x as of 12.5",
		"RESTORE FROM 'x'":                                             "RESTORE CLUSTER at x",
		"RESTORE DATABASE a FROM 'x' AS b":                             "RESTORE DATABASE a at x as b",
		"RESTORE TABLE a.b FROM 'x' AS OF 'now' AS c.d":                "RESTORE TABLE a.b at x as of now as c.d",
		"RESTORE TABLE a FROM 'x' AS b WITH skip_missing_foreign_keys": "RESTORE TABLE .a at x as .b skip keys",
		"show  backup from 'x'":                                        "SHOW BACKUP CLUSTER at x",
		"VERIFY BACKUP 'x' WITH ENCRYPTION_PASSPHRASE 'p'":             "VERIFY BACKUP CLUSTER at x passphrase p",
		"BACKUPS INTO 'x'":                                             "none",
		"SHOW BACKUPS":                                                 "none",
		"backup log INTO 'x'":                                          "BACKUP LOG CLUSTER at x",
		"BACKUP LOG DATABASE log INTO 'x' WITH SKIP_MULTI_MASTER":      "BACKUP LOG DATABASE log at x skip multi",
		"SHOW BACKUP LOG FROM 'x'":                                     "SHOW BACKUP LOG CLUSTER at x",
		"CANCEL JOB 12":                                                "CANCEL JOB CLUSTER at ",
		"CREATE BACKUP SCHEDULE s FOR DATABASE d INTO 'x' EVERY 1 DAY FULL EVERY 1 WEEK KEEP 30 DAYS": "CREATE BACKUP SCHEDULE DATABASE d at x",
		"SHOW BACKUP SCHEDULES":                           "SHOW BACKUP SCHEDULES CLUSTER at ",
		"DROP BACKUP SCHEDULE `a b`":                      "DROP BACKUP SCHEDULE CLUSTER at ",
		"DROP BACKUP s":                                   "none",
		"CREATE BACKUP TABLE":                             "none",
		"CANCEL QUERY 12":                                 "none",
		"REPLACE INTO t VALUES (1)":                       "none",
		"VERIFY":                                          "none",
		"BACKUP":                                          `error: the statement cannot be read near "": INTO is expected there`,
		"BACKUP INTO x":                                   `error: the statement cannot be read near "x": the place of the backup in quotes is expected there`,
		"BACKUP INTO 'x":                                  `error: the statement cannot be read near "...": the end of the place of the backup is expected there`,
		"BACKUP DATABASE INTO 'x'":                        `error: the statement cannot be read near "...": INTO is expected there`,
		"BACKUP INTO 'x' AS y":                            `error: the statement cannot be read near "y"`,
		"BACKUP INTO 'x' WITH FOO 'secret'":               `error: the statement cannot be read near "FOO ...": an option of BACKUP is expected there`,
		"RESTORE FROM 'x' WITH INCREMENTAL":               `error: the statement cannot be read near "INCREMENTAL": an option of RESTORE is expected there`,
		"RESTORE FROM 'x' AS OF 1 AS OF 2 AS a":           `error: the statement cannot be read near "2 AS a": the end of the statement is expected there`,
		"BACKUP INTO 'x' WITH ENCRYPTION_PASSPHRASE = ''": `error: the statement cannot be read near "": a passphrase that is not empty is expected there`,
		"BACKUP INTO 'x'; DROP TABLE t":                   `error: the statement cannot be read near "; DROP TABLE t": the end of the statement is expected there`,
	} {
		got := Parse(q).text()
		if i := strings.Index(got, "(errno"); i >= 0 {
			got = strings.TrimSpace(got[:i])
		}
		if got != want {
			t.Errorf("%s:\n got %s\nwant %s", q, got, want)
		}
	}
}

// FuzzParse: any text is read without a panic, and what is understood is one of our statements.
func FuzzParse(f *testing.F) {
	f.Add("BACKUP TABLE a, `b`.c INTO 'x' AS OF SYSTEM TIME '-5s' WITH INCREMENTAL, ENCRYPTION_PASSPHRASE = 'p'")
	f.Add("RESTORE DATABASE a FROM \"x\\\"\" AS OF 1.5 AS b WITH SKIP_MISSING_FOREIGN_KEYS")
	f.Add("VERIFY BACKUP 'x' PLACES ('eu' = 'y') WITH TABLES")
	f.Add("BACKUP INTO ('s3://a?COCKROACH_LOCALITY=default', 's3://b?COCKROACH_LOCALITY=region%3Deu')")
	f.Fuzz(func(t *testing.T, q string) {
		st := Parse(q)
		if (st != nil) != Ours(strings.TrimSpace(q)) {
			t.Fatalf("%q", q)
		}
		if st != nil && st.err == nil && (st.verb == "" || st.complete("db") == nil && len(st.Schema()) == 0) {
			t.Fatalf("%q is understood as %+v", q, st)
		}
	})
}

// someTable is a definition for fuzzing.
func someTable() *schema.TableDesc {
	return &schema.TableDesc{V: 1, ID: base.MakeTableID(100, 1), DB: "d", Name: "t", Shards: 4, NextCol: 4, NextIndex: 3,
		Cols: []schema.ColumnDesc{{ID: 1, Name: "id", Type: "int"}, {ID: 2, Name: "v", Type: "varchar(20)", Nullable: true},
			{ID: 3, Name: "d", Type: "decimal(10,2)", Nullable: true}, {ID: 4, Name: "e", Type: "enum", Values: []string{"a", "b"}}},
		PK: []uint32{1}, Indexes: []schema.IndexDesc{
			{ID: 1, Name: "v", Cols: []schema.IndexedColumn{{Col: 2, Length: 3}}, Class: schema.ClassByHome},
			{ID: 2, Name: "u", Cols: []schema.IndexedColumn{{Col: 3}}, Class: schema.ClassUnique, Constraint: sql.IndexConstraint_Unique}}}
}

// FuzzContents: definitions and rows in a backup may be anything: they lead to an error that names
// the file, or to keys and values.
func FuzzContents(f *testing.F) {
	f.Add(schema.Marshal(someTable()), []byte{1, 2, 2, 4, 1, 'x'}, []byte{1, 0, 0, 0, 0, 0, 0, 0, 5})
	d := someTable()
	d.Cols[1] = schema.ColumnDesc{ID: 2, Name: "v", Type: "point"}
	srid := uint32(4326)
	d.Cols[1].SRID, d.Indexes, d.PK = &srid, nil, nil
	f.Add(schema.Marshal(d), []byte{1}, []byte{1})
	f.Add([]byte(`{"v":1,"id":7,"db":"d","name":"t","shards":1,"next_col":1,"cols":[{"id":1,"name":"a","type":"int","srid":5}]}`),
		[]byte{1}, []byte{1})
	f.Add([]byte(`{"v":1,"name":"x","db":"d","view":{"Name":"x"}}`), []byte{}, []byte{})
	f.Fuzz(func(t *testing.T, def, value, pk []byte) {
		v := &volume{Manifest: &archive.Manifest{ID: "x", Databases: nil}}
		for _, kind := range []base.IndexID{schema.IxView, schema.IxTrigger, schema.IxProcedure, schema.IxEvent, schema.IxFunction, 9} {
			v.Objects = []archive.Object{{Kind: kind, Desc: def}}
			_, _, err := v.contents()
			fileError(t, err)
		}
		v.Objects = nil
		v.Tables = []archive.Table{{Desc: def}}
		tab, desc, err := v.table(&v.Tables[0])
		fileError(t, err)
		if err != nil {
			return
		}
		e := archive.Encoder{Kind: archive.RowPiece}
		e.Add(&archive.Record{PK: pk, Value: value})
		b, file, err := e.Finish("x", "f", nil)
		if err != nil {
			t.Fatal(err)
		}
		dec, err := archive.Open("x", file, archive.RowPiece, b, nil)
		if err != nil {
			t.Fatal(err)
		}
		var r archive.Record
		if ok, err := dec.Next(&r); !ok || err != nil {
			t.Fatal(ok, err)
		}
		row, ref, err := decode.Row(t.Context(), tab, dec, &r)
		fileError(t, err)
		if err == nil {
			if ws, err := tab.RowWrites(t.Context(), row, r.Value, ref, 1); err == nil && len(ws) == 0 {
				t.Fatalf("table %s has no row", desc.Name)
			}
		}
	})
}

func fileError(t *testing.T, err error) {
	t.Helper()
	var fe *archive.FileError
	if err != nil && !errors.As(err, &fe) {
		t.Fatalf("%T: %v", err, err)
	}
}
