package migrate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/godwitdb/godwit/sql/follow"
)

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
	follow.Name
}

// catalog is what the chosen databases of the source hold.
type catalog struct {
	databases []string
	tables    []*follow.Table
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
			n := follow.Name{DB: db, Of: r[0]}
			switch r[1] {
			case "BASE TABLE", "SYSTEM VERSIONED":
				t, err := follow.ReadTable(ctx, reading(q), n)
				if err != nil {
					return nil, err
				}
				t.Engine = r[2]
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
				c.objects = append(c.objects, object{x.kind, follow.Name{DB: db, Of: r[0]}})
			}
		}
	}
	return c, nil
}

// createText is the statement that makes an object, as its server says it.
func createText(ctx context.Context, q queryer, k kind, n follow.Name) (string, error) {
	cell := 1
	switch k {
	case aFunction, aProcedure, aTrigger:
		cell = 2
	case anEvent:
		cell = 3
	}
	return text(ctx, q, cell, "SHOW CREATE "+string(k)+" "+n.Quoted())
}

// aTable is a kind for createText only.
const aTable kind = "TABLE"
