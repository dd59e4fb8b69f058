package describe

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/token"
)

// This file words a whole catalog for strangers: names and types, but no literals and no comments.

// Skeleton is the statements that make the databases of a catalog, without values: the literals of
// defaults, checks, views and routines are ?, numbers but those of types, too, and comments are
// left out. Names and the values of ENUM and SET stay. locality words where a table's rows live.
func Skeleton(ctx context.Context, s *schema.Snapshot, locality func(schema.Locality) string) string {
	var b strings.Builder
	for _, d := range s.InOrder() {
		fmt.Fprintf(&b, "CREATE DATABASE %s;\nUSE %s;\n\n", name(d.Desc.Name), name(d.Desc.Name))
		hidden := d.FulltextTables()
		for _, key := range slices.Sorted(maps.Keys(d.Tables)) {
			t := d.Tables[key]
			if t.HomesOf != nil || hidden[key] {
				continue
			}
			fmt.Fprintf(&b, "%s /* %s, id %d, %s */;\n\n", bare(Create(sql.NewContext(ctx), t, t.Desc.FKs, 0), token.Mode{}, true),
				locality(t.Desc.Locality), t.Desc.ID, stage(t))
		}
		for _, kind := range []base.IndexID{schema.IxView, schema.IxFunction, schema.IxProcedure, schema.IxTrigger, schema.IxEvent} {
			objects := slices.SortedFunc(maps.Values(d.Objects[kind]),
				func(a, b *schema.ObjectDesc) int { return cmp.Compare(a.Seq, b.Seq) })
			for _, o := range objects {
				text, mode := source(o)
				fmt.Fprintf(&b, "%s;\n\n", bare(text, token.ModeOf(mode), false))
			}
		}
	}
	return b.String()
}

// stage says how far a change of a table's locality is.
func stage(t *schema.Table) string {
	switch {
	case t.Next != nil:
		return "being replaced"
	case t.Prev != nil:
		return "being filled"
	}
	return "public"
}

// source is the text that made an object, and the sql_mode of then.
func source(o *schema.ObjectDesc) (text, mode string) {
	switch {
	case o.View != nil:
		return "CREATE VIEW " + name(o.Name) + " AS " + o.View.TextDefinition, o.View.SqlMode
	case o.Function != nil:
		return o.Function.Text, o.Function.SQLMode
	case o.Procedure != nil:
		return o.Procedure.CreateStatement, o.Procedure.SqlMode
	case o.Trigger != nil:
		return o.Trigger.CreateStatement, o.Trigger.SqlMode
	case o.Event != nil:
		return "CREATE EVENT " + name(o.Name) + " DO " + o.Event.EventBody, o.Event.SqlMode
	}
	return "", ""
}

// bare is a text without literals and comments. Lines stay as they are. In the definition of a
// table that we have worded ourselves, numbers behind types and names are those of lengths.
func bare(text string, m token.Mode, table bool) string {
	ts := token.Scan(text, m)
	var b strings.Builder
	at, depth := 0, []string{} // what stands before each open parenthesis
	before := ""
	for _, t := range ts {
		if gap := text[at:t.From]; strings.Contains(gap, "\n") {
			b.WriteString("\n")
			if strings.Contains(gap, "\n  ") {
				b.WriteString("  ")
			}
		} else if gap != "" && b.Len() > 0 && t.Kind != token.End {
			b.WriteString(" ")
		}
		at = t.To
		within := ""
		if len(depth) > 0 {
			within = depth[len(depth)-1]
		}
		switch {
		case t.Kind == token.String && !(table && (within == "enum" || within == "set")):
			b.WriteString("'?'")
		case t.Kind == token.Number && !(table && lengths[within]):
			b.WriteString("?")
		default:
			b.WriteString(text[t.From:t.To])
		}
		switch {
		case t.Is("("):
			depth = append(depth, before)
		case t.Is(")") && len(depth) > 0:
			depth = depth[:len(depth)-1]
		}
		before = t.Lower
		if t.Kind == token.Quoted {
			before = prefixed
		}
	}
	return b.String()
}

// prefixed stands for a column of an index, whose prefix has a length.
const prefixed = "`"

// lengths are what numbers in parentheses are no literals behind.
var lengths = map[string]bool{prefixed: true, "char": true, "varchar": true, "binary": true, "varbinary": true, "decimal": true,
	"bit": true, "time": true, "datetime": true, "timestamp": true, "year": true, "tinyint": true, "int": true, "float": true,
	"double": true, "text": true, "blob": true, "vector": true, "current_timestamp": true}
