package whatif

import (
	"regexp"
	"slices"
	"strings"

	"github.com/godwitdb/godwit/sql/recording"
	"github.com/godwitdb/godwit/sql/token"
)

var reInsert = regexp.MustCompile("(?is)^\\s*INSERT\\s+(?:IGNORE\\s+)?(?:INTO\\s+)?((?:`[^`]+`|\\w+)(?:\\.(?:`[^`]+`|\\w+))?)\\s*(\\([^)]*\\))?\\s*VALUES?\\s*(.*)$")

// inserted are the rows, by name, that INSERTs of the recording make: they are not there before.
func (p *plan) inserted() map[string]bool {
	out := map[string]bool{}
	for _, s := range p.f.Sessions {
		for _, step := range s.Steps {
			if text := &p.f.Texts[step.Text]; !step.Failed && !step.Trait {
				filled := recording.Fill(text.Text, step.Args)
				all, db := insertedBy(p.f, filled, text.Schema)
				if all == nil {
					all, db = []string{filled}, text.Schema
				}
				for _, q := range all {
					if m := reInsert.FindStringSubmatch(q); m != nil {
						p.rowsOf(m, db, out)
					}
				}
			}
		}
	}
	return out
}

// rowsOf names the rows of an INSERT: m has the table, its columns and what follows VALUES.
func (p *plan) rowsOf(m []string, db string, out map[string]bool) {
	table := strings.ReplaceAll(m[1], "`", "")
	if d, t, ok := strings.Cut(table, "."); ok {
		db, table = d, t
	}
	at := slices.IndexFunc(p.f.Tables, func(t recording.Table) bool {
		return strings.EqualFold(t.DB, db) && strings.EqualFold(t.Name, table)
	})
	if at < 0 {
		return
	}
	t := &p.f.Tables[at]
	cols := t.Columns
	if m[2] != "" {
		cols = nil
		for c := range strings.SplitSeq(strings.Trim(m[2], "()"), ",") {
			cols = append(cols, strings.Trim(strings.TrimSpace(c), "`"))
		}
	}
	for _, row := range tuples(m[3]) {
		values := make([]string, len(t.Columns))
		for i, c := range cols {
			if j := slices.IndexFunc(t.Columns, func(x string) bool { return strings.EqualFold(x, c) }); j >= 0 && i < len(row) {
				values[j] = row[i]
			}
		}
		out[rowName(t, values)] = true
	}
}

// tuples are the expressions of each parenthesis of a VALUES list.
func tuples(text string) (out [][]string) {
	depth, from := 0, 0
	var row []string
	for _, t := range token.Scan(text, token.Mode{}) {
		switch {
		case t.Is("("):
			if depth++; depth == 1 {
				row, from = nil, t.To
			}
		case depth == 1 && t.Is(",", ")"):
			row = append(row, strings.TrimSpace(text[from:t.From]))
			from = t.To
			if t.Is(")") {
				depth = 0
				out = append(out, row)
			}
		case t.Is(")"):
			depth--
		case depth == 0 && !t.Is(","):
			return out // ON DUPLICATE KEY UPDATE
		}
	}
	return out
}

// keyOf are the values of a row's primary key.
func keyOf(t *recording.Table, values []string) (out []string) {
	for _, k := range t.Key {
		v := ""
		if i := slices.IndexFunc(t.Columns, func(c string) bool { return strings.EqualFold(c, k) }); i >= 0 && i < len(values) {
			v = values[i]
		}
		out = append(out, v)
	}
	return out
}

// rowName names a row by its table and primary key.
func rowName(t *recording.Table, values []string) string {
	k := keyOf(t, values)
	if len(k) == 0 {
		return ""
	}
	for i := range k {
		k[i] = strings.Trim(k[i], "'")
	}
	return strings.ToLower(t.DB+"."+t.Name) + "\x00" + strings.Join(k, "\x00")
}
