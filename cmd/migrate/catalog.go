package migrate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// name is a table or another object in a database.
type name struct{ db, of string }

func (n name) String() string { return n.db + "." + n.of }
func (n name) quoted() string { return quoteName(n.db) + "." + quoteName(n.of) }

// column is a column of a table.
type column struct {
	name      string
	data      string // DATA_TYPE in lower case
	charset   string // of texts, else ""
	unsigned  bool
	generated bool
	onUpdate  bool // what is not written becomes the present time
}

func (c *column) binary() bool {
	switch c.data {
	case "binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "geometry", "point", "linestring", "polygon",
		"multipoint", "multilinestring", "multipolygon", "geometrycollection", "vector":
		return true
	}
	return false
}

func (c *column) float() bool { return c.data == "float" || c.data == "double" }

// table is a table with rows of its own.
type table struct {
	name
	engine  string
	columns []column
	key     []int // positions of the primary key's columns
}

// stored are the columns that a statement may write.
func (t *table) stored() []column {
	return slices.DeleteFunc(slices.Clone(t.columns), func(c column) bool { return c.generated })
}

// kind is what an object is besides a table, by the word of SHOW CREATE.
type kind string

const (
	aView      kind = "VIEW"
	aFunction  kind = "FUNCTION"
	aProcedure kind = "PROCEDURE"
	aTrigger   kind = "TRIGGER"
	anEvent    kind = "EVENT"
)

// object is what is defined beside tables.
type object struct {
	kind
	name
}

// catalog is what the chosen databases of the source hold.
type catalog struct {
	databases []string
	tables    []*table
	objects   []object
	left      []Left // what is known from the start not to be copied
}

// systemDatabases are never copied.
var systemDatabases = []string{"mysql", "information_schema", "performance_schema", "sys", progressDB}

// databasesOf are those that were asked for, or all of them.
func databasesOf(ctx context.Context, q queryer, chosen []string) ([]string, error) {
	rows, err := texts(ctx, q, "SELECT schema_name FROM information_schema.schemata ORDER BY schema_name")
	if err != nil {
		return nil, err
	}
	var all []string
	for _, r := range rows {
		if !slices.Contains(systemDatabases, strings.ToLower(r[0])) {
			all = append(all, r[0])
		}
	}
	if len(chosen) == 0 {
		if len(all) == 0 {
			return nil, errors.New("the source has no databases")
		}
		return all, nil
	}
	for _, d := range chosen {
		if !slices.Contains(all, d) {
			return nil, fmt.Errorf("the source has no database %s: it has %s", d, strings.Join(all, ", "))
		}
	}
	return chosen, nil
}

// readCatalog lists what there is to copy.
func readCatalog(ctx context.Context, q queryer, databases []string) (*catalog, error) {
	c := &catalog{databases: databases}
	for _, db := range databases {
		rows, err := texts(ctx, q, `SELECT table_name, table_type, engine FROM information_schema.tables WHERE table_schema = ? ORDER BY table_name`, db)
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			n := name{db, r[0]}
			switch r[1] {
			case "BASE TABLE", "SYSTEM VERSIONED":
				t, err := readTable(ctx, q, n)
				if err != nil {
					return nil, err
				}
				t.engine = r[2]
				c.tables = append(c.tables, t)
			case "VIEW":
				c.objects = append(c.objects, object{aView, n})
			default:
				c.left = append(c.left, Left{What: n.String(), Why: "there is no " + r[1] + " in Godwit"})
			}
		}
		for _, x := range []struct {
			kind  kind
			query string
		}{
			{aFunction, "SELECT routine_name FROM information_schema.routines WHERE routine_type = 'FUNCTION' AND routine_schema = ? ORDER BY 1"},
			{aProcedure, "SELECT routine_name FROM information_schema.routines WHERE routine_type = 'PROCEDURE' AND routine_schema = ? ORDER BY 1"},
			{aTrigger, "SELECT trigger_name FROM information_schema.triggers WHERE trigger_schema = ? ORDER BY event_object_table, event_manipulation, action_timing, action_order"},
			{anEvent, "SELECT event_name FROM information_schema.events WHERE event_schema = ? ORDER BY 1"},
		} {
			rows, err := texts(ctx, q, x.query, db)
			if err != nil {
				return nil, err
			}
			for _, r := range rows {
				c.objects = append(c.objects, object{x.kind, name{db, r[0]}})
			}
		}
	}
	return c, nil
}

var errGone = errors.New("there is no table")

// readTable reads the columns and the primary key of a table, from either server.
func readTable(ctx context.Context, q queryer, n name) (*table, error) {
	t := &table{name: n}
	rows, err := texts(ctx, q, `SELECT column_name, data_type, character_set_name, column_type, extra FROM information_schema.columns
WHERE table_schema = ? AND table_name = ? ORDER BY ordinal_position`, n.db, n.of)
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		t.columns = append(t.columns, column{name: r[0], data: strings.ToLower(r[1]), charset: strings.ToLower(r[2]),
			unsigned: strings.Contains(strings.ToLower(r[3]), "unsigned"), generated: strings.Contains(strings.ToUpper(r[4]), " GENERATED"), onUpdate: strings.Contains(strings.ToLower(r[4]), "on update")})
	}
	if len(t.columns) == 0 {
		return nil, fmt.Errorf("%w %s, or it may not be seen", errGone, n)
	}
	rows, err = texts(ctx, q, `SELECT column_name FROM information_schema.statistics
WHERE table_schema = ? AND table_name = ? AND index_name = 'PRIMARY' ORDER BY seq_in_index`, n.db, n.of)
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		i := slices.IndexFunc(t.columns, func(c column) bool { return strings.EqualFold(c.name, r[0]) })
		if i < 0 {
			return nil, fmt.Errorf("the primary key of %s has an unknown column %s", n, r[0])
		}
		t.key = append(t.key, i)
	}
	return t, nil
}

// createText is the statement that makes an object, as its server says it.
func createText(ctx context.Context, q queryer, k kind, n name) (string, error) {
	cell := 1
	switch k {
	case aFunction, aProcedure, aTrigger:
		cell = 2
	case anEvent:
		cell = 3
	}
	return text(ctx, q, cell, "SHOW CREATE "+string(k)+" "+n.quoted())
}

// aTable is a kind for createText only.
const aTable kind = "TABLE"
