package recording

import (
	"strings"

	"github.com/godwitdb/godwit/sql/token"
)

// Program is a view, function, procedure or trigger.
type Program struct {
	DB   string `json:"db"`
	Kind string `json:"kind"` // view, function, procedure, trigger
	Name string `json:"name"`
	// Create is the statement that makes it, without DEFINER and comments; SQLMode is of that time.
	Create  string `json:"create"`
	SQLMode string `json:"sql_mode,omitempty"`
}

// sized are the words behind which numbers in parentheses are lengths.
var sized = map[string]bool{"char": true, "varchar": true, "binary": true, "varbinary": true, "decimal": true, "dec": true,
	"numeric": true, "bit": true, "time": true, "datetime": true, "timestamp": true, "year": true, "tinyint": true, "smallint": true,
	"mediumint": true, "int": true, "integer": true, "bigint": true, "float": true, "double": true, "text": true, "blob": true}

// length reports whether a number is one of (n) or (n, m), as that of a type is: functions of the
// same names have others.
func length(ts []token.Token, i int) bool {
	kinds := func(from int, want ...token.Kind) bool {
		for j, k := range want {
			if from+j < 0 || from+j >= len(ts) || ts[from+j].Kind != k {
				return false
			}
		}
		return true
	}
	switch {
	case ts[i].To-ts[i].From > 5: // longer than any length
		return false
	case ts[i-1].Is("("):
		return ts[i+1].Is(")") || kinds(i+1, token.Op, token.Number, token.Op) && ts[i+3].Is(")") && !ts[i-2].Is("char")
	}
	return kinds(i-2, token.Number, token.Op, token.Number, token.Op) && ts[i-3].Is("(") && ts[i+1].Is(")") && !ts[i-4].Is("char")
}

// heads are the words that can follow a DEFINER.
var heads = []string{"sql", "view", "function", "procedure", "trigger", "aggregate"}

// literals goes through the literals of the definition of a program. What show returns takes the
// place of one. Comments are left out, and so is the account of the DEFINER. Some literals stay as
// they are, since they say nothing of rows: lengths of types, values of ENUM and SET, SQLSTATEs,
// numbers of errors, and numbers behind LIMIT.
func (p *Program) literals(show func(l Literal, member bool) string) string {
	var b strings.Builder
	var depth []string // what stands before each open parenthesis
	at := 0
	ts := token.Scan(p.Create, token.ModeOf(p.SQLMode))
	before := func(i, n int) string {
		if i < n {
			return ""
		}
		return ts[i-n].Lower
	}
	for i := 0; i < len(ts); i++ {
		t := ts[i]
		if gap := p.Create[at:t.From]; gap != "" && b.Len() > 0 && t.Kind != token.End {
			if strings.Contains(gap, "\n") {
				b.WriteString("\n")
			} else {
				b.WriteString(" ")
			}
		}
		at = t.To
		if i > 0 && i < 8 && t.Is("definer") && ts[i+1].Is("=") {
			for !ts[i+1].Is(heads...) && ts[i+1].Kind != token.End {
				i++
			}
			at = ts[i+1].From
			continue
		}
		if next := ts[min(i+1, len(ts)-1)]; t.Is("x", "b", "n") && next.Kind == token.String && next.From == t.To {
			i, at = i+1, next.To
			b.WriteString(show(Cut(p.Create[t.From:next.To]), false))
			continue
		}
		raw, within := p.Create[t.From:t.To], ""
		if len(depth) > 0 {
			within = depth[len(depth)-1]
		}
		last := before(i, 1)
		switch {
		case t.Kind == token.String && last == "comment":
			raw = "''"
		case t.Kind == token.String && (last == "sqlstate" || last == "value" && before(i, 2) == "sqlstate"):
		case t.Kind == token.String:
			raw = show(Cut(raw), within == "enum" || within == "set")
		case t.Kind == token.UserVar:
			raw = "@" + show(Cut(t.Text), false)
		case t.Kind != token.Number, sized[within] && length(ts, i), last == "limit", last == "offset", last == "," && before(i, 3) == "limit",
			last == "for", last == "=" && before(i, 2) == "mysql_errno":
		default:
			raw = show(Cut(raw), false)
		}
		b.WriteString(raw)
		switch {
		case t.Is("("):
			depth = append(depth, last)
		case t.Is(")") && len(depth) > 0:
			depth = depth[:len(depth)-1]
		}
	}
	return b.String()
}

// learnProgram has the mask see the literals of a program.
func (b *builder) learnProgram(p *Program) {
	p.literals(func(l Literal, member bool) string {
		if member {
			b.mask.Keep(l.Text[1 : len(l.Text)-1])
		} else {
			b.mask.Learn(l)
		}
		return ""
	})
}

// program is one as it leaves the cluster.
func (b *builder) program(p *Program) Program {
	out := *p
	out.Create = p.literals(func(l Literal, member bool) string {
		if member {
			return l.Text
		}
		return b.mask.Show(l)
	})
	return out
}
