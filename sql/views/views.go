// Package views reads the texts of views.
package views

import (
	"regexp"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/sql/algebra"
)

// Of is a view as the binder knows it.
func Of(db string, def *sql.ViewDefinition) *algebra.View {
	text := viewEnd.ReplaceAllString(def.TextDefinition, "")
	out := &algebra.View{DB: db, Name: def.Name, Text: text, SQLMode: def.SqlMode, Columns: columnsOf(def.CreateViewStatement, text)}
	out.TempTable, out.Check = optionsOf(def.CreateViewStatement, out.Text)
	return out
}

var (
	viewNames = regexp.MustCompile("(?is)\\(((?:[^()`]|`[^`]*`)*)\\)\\s*as[\\s(]*$")
	viewEnd   = regexp.MustCompile(`(?i)\s+with(?:\s+(?:(?:local|cascaded)\s+)?check\s+option)?\s*$`)
	viewTemp  = regexp.MustCompile(`(?i)\balgorithm\s*=\s*temptable\b`)
	viewCheck = regexp.MustCompile(`(?i)\bwith\s+(?:(local|cascaded)\s+)?check\s+option\b`)
)

// around is what stands in CREATE VIEW before the SELECT, and behind it.
func around(create, text string) (head, tail string) {
	i := strings.LastIndex(create, text)
	if i < 0 || text == "" {
		return create, ""
	}
	return create[:i], create[i+len(text):]
}

// columnsOf are the names in front of AS of CREATE VIEW; nil if there are none.
func columnsOf(create, text string) (out []string) {
	head, _ := around(create, text)
	m := viewNames.FindStringSubmatch(head)
	if m == nil {
		return nil
	}
	for _, n := range strings.Split(m[1], ",") {
		out = append(out, strings.Trim(strings.TrimSpace(n), "`"))
	}
	return out
}

// optionsOf is what CREATE VIEW says besides the SELECT.
func optionsOf(create, text string) (temp bool, check algebra.ViewCheck) {
	head, tail := around(create, text)
	switch m := viewCheck.FindStringSubmatch(tail); {
	case m == nil:
	case strings.EqualFold(m[1], "local"):
		check = algebra.CheckLocal
	default:
		check = algebra.CheckCascaded
	}
	return viewTemp.MatchString(head), check
}
