package server

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/memkv"
	"github.com/godwitdb/godwit/sql/ddl"
	"github.com/godwitdb/godwit/sql/ddl/sharding"
	"github.com/godwitdb/godwit/sql/schema"
)

// someCluster has a topic with a column of each kind.
type someCluster struct{}

func (someCluster) Promote(context.Context, string, string, bool, bool) error { return nil }

func (someCluster) AwaitHeld(context.Context) error { return nil }

func (someCluster) DropRegion(_ context.Context, name, into string) (string, error) {
	return into, nil
}

func (someCluster) Live(base.NodeID) bool { return true }

func (someCluster) EnableAsync(context.Context) error { return nil }

func (someCluster) CreatePlacement(context.Context, base.PlacementSpec) error { return nil }

func (someCluster) DropPlacement(context.Context, string) error { return nil }

func (someCluster) PlacementNamed(context.Context, string) (base.Placed, error) {
	return base.Placed{}, nil
}

func (someCluster) OwnShards(context.Context, []base.PlacementID, int, func(int) bool) (map[base.PlacementID]int, error) {
	return nil, base.Errorf(base.CodeInvalid, "this cluster has no shards for tables of their own")
}

func (someCluster) Shards(context.Context, base.TableID, []base.ShardID) []sharding.Use { return nil }

func (someCluster) Topics() []Topic {
	return []Topic{{Name: "moves", Comment: "what moved", Columns: []TopicColumn{
		{Name: "at", Kind: TopicTime}, {Name: "row_name", Kind: TopicText}, {Name: "to_region", Kind: TopicText}, {Name: "bytes", Kind: TopicInt},
		{Name: "heat", Kind: TopicFloat}, {Name: "dry_run", Kind: TopicBool}, {Name: "why_json", Kind: TopicJSON}}}}
}

func (someCluster) Status(_ context.Context, topic string) [][]any {
	if topic != "moves" {
		return nil
	}
	at := time.Date(2024, 5, 6, 7, 8, 9, 123456000, time.UTC)
	return [][]any{
		{at, "d.t(1)", "eu", 100, 2.5, false, `{"rule":"run","run":3}`},
		{at.Add(time.Second), "d.t(2)", "us", uint64(40), 1.0, true, nil},
		{at.Add(2 * time.Second), "d.t(1)", "us", int64(60), nil, false, `{"rule":"hotter","run":1}`},
	}
}

// Advice knows what is used from here.
func (someCluster) Advice(_ context.Context, _ base.NodeID, _ base.Key, home base.RegionID) (bool, string) {
	return true, fmt.Sprintf("r%d to r1 (run)", home)
}

func withCluster(c *Config) { c.Cluster = someCluster{} }

// TestSystemDatabase: events and states can be selected, filtered, ordered, grouped and joined,
// with types.
func TestSystemDatabase(t *testing.T) {
	_, c := startServer(t, memkv.New(2, "eu", "us"), withCluster)
	expect(t, c, "SELECT row_name, bytes FROM godwit.moves WHERE at > '2024-05-06 07:08:10' ORDER BY bytes",
		"d.t(2)|40", "d.t(1)|60")
	expect(t, c, "SELECT row_name, COUNT(*), SUM(bytes) FROM godwit.moves WHERE NOT dry_run GROUP BY row_name", "d.t(1)|2|160")
	expect(t, c, "SELECT at, heat + 1, dry_run FROM godwit.moves LIMIT 1", "2024-05-06 07:08:09.123456|3.5|0")
	expect(t, c, "SELECT why_json->>'$.rule' FROM godwit.moves WHERE why_json->'$.run' = 3", "run")
	exec(t, c, "CREATE TABLE seen (name VARCHAR(20) PRIMARY KEY, who INT)")
	exec(t, c, "INSERT INTO seen SELECT row_name, MAX(bytes) FROM godwit.moves GROUP BY row_name")
	expect(t, c, "SELECT s.who, m.to_region FROM seen s JOIN godwit.moves m ON m.row_name = s.name AND m.bytes = "+
		"s.who ORDER BY 1", "40|us", "100|eu")
	expect(t, c, "SELECT COLUMN_NAME, DATA_TYPE FROM information_schema.columns WHERE table_schema = 'godwit' AND "+
		"table_name = 'moves' ORDER BY ORDINAL_POSITION",
		"at|datetime", "row_name|longtext", "to_region|longtext", "bytes|bigint", "heat|double", "dry_run|tinyint",
		"why_json|json")
	expect(t, c, "SELECT table_name FROM information_schema.tables WHERE table_schema = 'godwit' ORDER BY 1",
		"admission", "fallbacks", "moves", "programs")
	if got := query(t, c, "SHOW DATABASES"); !slices.Contains(got, "godwit") {
		t.Errorf("databases: %q", got)
	}
	expect(t, c, "SHOW TABLES FROM godwit", "admission", "fallbacks", "moves", "programs")
	if short, long := query(t, c, "SHOW GODWIT MOVES"), query(t, c, "SELECT * FROM godwit.moves"); len(short) != 3 ||
		!slices.Equal(short, long) {
		t.Errorf("SHOW GODWIT MOVES: %q\ntable: %q", short, long)
	}
	if _, err := tryQuery(c, "SHOW GODWIT NONSENSE"); err == nil || !strings.Contains(err.Error(), "MOVES") {
		t.Errorf("an unknown topic: %v", err)
	}
}

// TestSystemDatabaseIsReadOnly: nothing of it can be written, changed or dropped, nor its name
// taken.
func TestSystemDatabaseIsReadOnly(t *testing.T) {
	_, c := startServer(t, memkv.New(2, "eu", "us"), withCluster)
	for _, q := range []string{
		"INSERT INTO godwit.moves (row_name) VALUES ('x')", "UPDATE godwit.moves SET bytes = 1",
		"DELETE FROM godwit.moves", "TRUNCATE TABLE godwit.moves",
		"DROP TABLE godwit.moves", "ALTER TABLE godwit.moves ADD COLUMN x INT",
		"CREATE INDEX i ON godwit.moves (bytes)", "CREATE TABLE godwit.t (id INT)",
		"RENAME TABLE godwit.moves TO godwit.m", "DROP DATABASE godwit", "CREATE DATABASE godwit",
		"CREATE DATABASE GODWIT", "CREATE VIEW godwit.v AS SELECT 1",
		"ALTER TABLE godwit.moves SET LOCALITY GLOBAL", "SHOW LOCALITY FROM godwit.moves",
	} {
		if _, err := tryQuery(c, q); err == nil {
			t.Errorf("%s: no error", q)
		} else {
			t.Logf("%s: %v", q, err)
		}
	}
	exec(t, c, "CREATE DATABASE IF NOT EXISTS godwit")
	if got := query(t, c, "SELECT COUNT(*) FROM godwit.moves"); got[0] != "3" {
		t.Errorf("afterwards: %q", got)
	}
}

// TestSystemDatabasePrivileges: PROCESS is enough, and so is SELECT; nothing else is.
func TestSystemDatabasePrivileges(t *testing.T) {
	s, c := startServer(t, memkv.New(2, "eu", "us"), withCluster)
	for user, grant := range map[string]string{"nobody": "SELECT ON test.*", "ops": "PROCESS ON *.*",
		"reader": "SELECT ON godwit.*"} {
		exec(t, c, fmt.Sprintf("CREATE USER %s@'%%' IDENTIFIED BY ''", user))
		exec(t, c, fmt.Sprintf("GRANT %s TO %s@'%%'", grant, user))
	}
	exec(t, c, "CREATE TABLE mine (id INT)")
	as := func(user, q string) error {
		_, err := tryQuery(openDSN(t, fmt.Sprintf("%s@tcp(%s)/", user, s.Addr())), q)
		return err
	}
	for _, x := range []struct {
		user, q string
		ok      bool
	}{
		{"nobody", "SELECT * FROM godwit.moves", false}, {"nobody", "SHOW GODWIT MOVES", false},
		{"nobody", "SELECT * FROM test.mine", true},
		{"nobody", "SELECT * FROM test.mine, godwit.moves", false}, {"nobody", "SHOW GODWIT STATEMENT COST", true},
		{"ops", "SELECT row_name FROM godwit.moves WHERE bytes > 1", true}, {"ops", "SHOW GODWIT MOVES", true},
		{"ops", "SELECT * FROM test.mine", false},
		{"ops", "SELECT * FROM godwit.moves m JOIN test.mine t ON t.id = m.bytes", false},
		{"reader", "SELECT * FROM godwit.moves", true},
	} {
		if err := as(x.user, x.q); (err == nil) != x.ok {
			t.Errorf("%s, %s: %v", x.user, x.q, err)
		}
	}
}

// TestSystemDatabaseHidden: a store from before, which holds a database of that name, keeps it.
func TestSystemDatabaseHidden(t *testing.T) {
	db := memkv.New(2, "eu", "us")
	_, c := startServer(t, db)
	if _, err := kv.Run(t.Context(), db, kv.Options{}, func(tx kv.Txn) error {
		tx.Put(schema.CatalogKey(schema.IxDatabase, ddl.SystemDatabase),
			schema.Marshal(&schema.DatabaseDesc{V: schema.DescVersion, Name: ddl.SystemDatabase}), 0)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	exec(t, c, "CREATE TABLE godwit.moves (id INT PRIMARY KEY)")
	exec(t, c, "INSERT INTO godwit.moves VALUES (7)")
	_, other := startServer(t, db, withCluster)
	expect(t, other, "SELECT * FROM godwit.moves", "7")
	if got := query(t, other, "SHOW GODWIT MOVES"); len(got) != 3 {
		t.Errorf("SHOW GODWIT MOVES: %q", got)
	}
	n := 0
	for _, d := range query(t, other, "SHOW DATABASES") {
		if d == "godwit" {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d databases of that name", n)
	}
	exec(t, other, "DROP DATABASE godwit")
	if got := query(t, other, "SELECT COUNT(*) FROM godwit.moves"); got[0] != "3" {
		t.Errorf("afterwards: %q", got)
	}
}

// TestInformationSchemaAsksAll: what tools read there, dumps for one, goes over all databases, ours
// too.
func TestInformationSchemaAsksAll(t *testing.T) {
	_, c := startServer(t, memkv.New(1), withCluster)
	for _, q := range []string{
		"SELECT TRIGGER_NAME FROM INFORMATION_SCHEMA.TRIGGERS WHERE EVENT_OBJECT_SCHEMA = DATABASE()",
		"SELECT ROUTINE_NAME FROM INFORMATION_SCHEMA.ROUTINES", "SELECT EVENT_NAME FROM INFORMATION_SCHEMA.EVENTS",
		"SELECT TABLE_NAME FROM INFORMATION_SCHEMA.VIEWS", "SELECT COUNT(*) FROM INFORMATION_SCHEMA.COLUMNS",
		"SELECT COUNT(*) FROM INFORMATION_SCHEMA.STATISTICS",
		"SELECT COUNT(*) FROM INFORMATION_SCHEMA.TABLE_CONSTRAINTS",
		"SELECT COUNT(*) FROM INFORMATION_SCHEMA.KEY_COLUMN_USAGE", "SHOW TRIGGERS", "SHOW PROCEDURE STATUS",
		"SELECT COUNT(*) FROM INFORMATION_SCHEMA.PARAMETERS",
		"SELECT COUNT(*) FROM INFORMATION_SCHEMA.CHECK_CONSTRAINTS",
		"SELECT COUNT(*) FROM INFORMATION_SCHEMA.REFERENTIAL_CONSTRAINTS",
	} {
		query(t, c, q)
	}
}
