package recording

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/godwitdb/godwit/sql/token"
)

// Part is what one node has kept.
type Part struct {
	Region int // its place among the regions
	Taken  Taken
}

// Source is a table as it is, with literals.
type Source struct {
	Table // without rows
	// Rows are values as [Cut] makes them, Home and Pinned those of each.
	Rows   [][]Literal
	Home   []string
	Pinned []bool
	// New are those that were made since the first statement; nil: that is not known.
	New []bool
	// Values are those that the placement names: ? stands for them there.
	Values []Literal
}

// Cut is a literal as the recorder keeps it.
func Cut(text string) Literal {
	b := appendLiteral(nil, text, len(text))
	d := decoder{b: b}
	size := int(d.uint())
	return Literal{string(d.b), size}
}

// rePlayed are the statements that can be played: those of rows and of transactions, and CALL.
var rePlayed = regexp.MustCompile(`(?i)^[\s(]*(?:select|with|table|values|insert|replace|update|delete|begin|start|commit|rollback|` +
	`savepoint|release|set|call)\b`)

func played(text string) bool {
	return rePlayed.MatchString(text) && !(reSecret.MatchString(text))
}

// reSecret are statements that are no part of what clients do with rows, or have secrets.
var reSecret = regexp.MustCompile(`(?i)^\s*set\s+(?:cluster|global|persist|persist_only|@@global|@@persist)\b|^\s*set\s.*password|\binto\s+(?:outfile|dumpfile)\b`)

// Build adds sessions, texts, tables and programs to a file, with other literals than there were.
func (f *File) Build(parts []Part, tables []Source, programs []Program) error {
	b := builder{f: f, texts: map[Text]int{}, plains: map[int]plainness{}}
	for i := range parts {
		if err := b.part(&parts[i]); err != nil {
			return err
		}
	}
	for i := range tables {
		b.learn(&tables[i])
	}
	for i := range programs {
		b.learnProgram(&programs[i])
	}
	for _, k := range b.all {
		all, some := b.plain(k.text)
		for i, l := range k.Literals {
			if !all && !some[i] {
				b.mask.Learn(l)
			}
		}
	}
	b.mask.Seal()
	b.show()
	for i := range tables {
		f.Tables = append(f.Tables, b.table(&tables[i]))
	}
	for i := range programs {
		f.Programs = append(f.Programs, b.program(&programs[i]))
	}
	return nil
}

type builder struct {
	f      *File
	mask   Mask
	texts  map[Text]int
	all    []kept
	plains map[int]plainness
}

// plainness is which literals of a text say nothing of rows.
type plainness struct {
	all  bool
	some map[int]bool
}

func (b *builder) plain(text int) (all bool, some map[int]bool) {
	p, ok := b.plains[text]
	if !ok {
		p.all, p.some = plain(b.f.Texts[text].Text)
		b.plains[text] = p
	}
	return p.all, p.some
}

// kept is a statement and its place in the file.
type kept struct {
	*Statement
	session, step int
	text          int
}

// part takes over what a node has kept.
func (b *builder) part(p *Part) error {
	all, err := p.Taken.All()
	if err != nil {
		return err
	}
	b.f.Missed += p.Taken.Missed
	pauses := pausesOf(all)
	sessions := map[uint64]int{}
	for i := range all {
		s := &all[i]
		t := p.Taken.Texts[s.Text]
		if !played(t.Text) {
			b.f.Missed++
			continue
		}
		at, ok := sessions[s.Session]
		if !ok {
			at = len(b.f.Sessions)
			sessions[s.Session] = at
			b.f.Sessions = append(b.f.Sessions, Session{Region: p.Region})
		}
		text, ok := b.texts[t]
		if !ok {
			text = len(b.f.Texts)
			b.texts[t] = text
			b.f.Texts = append(b.f.Texts, t)
		}
		to := &b.f.Sessions[at].Steps
		b.all = append(b.all, kept{s, at, len(*to), text})
		*to = append(*to, Step{Text: text, Began: (s.Began - pauses[s.Slice]).Microseconds(), Took: s.Elapsed.Microseconds(), Hops: s.Hops,
			Bytes: s.Bytes, Trait: s.Trait, Was: s.Was, Goes: s.Goes, Failed: s.Failed, Lost: s.Lost})
	}
	return nil
}

// pausesOf is how much time before each slice nothing was kept.
func pausesOf(all []Statement) map[int64]time.Duration {
	type span struct{ from, to time.Duration }
	spans := map[int64]span{}
	for _, s := range all {
		x, ok := spans[s.Slice]
		if !ok {
			x.from = s.Began
		}
		spans[s.Slice] = span{min(x.from, s.Began), max(x.to, s.Began+s.Elapsed)}
	}
	out := map[int64]time.Duration{}
	var numbers []int64
	for n := range spans {
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	paused := time.Duration(0)
	for i, n := range numbers {
		if i > 0 {
			paused += max(0, spans[n].from-spans[numbers[i-1]].to)
		}
		out[n] = paused
	}
	return out
}

// learn has the mask see a table.
func (b *builder) learn(t *Source) {
	ddl(t.Create, func(s string, member bool) string {
		if member {
			b.mask.Keep(s)
		}
		return ""
	})
	ddl(t.Create, func(s string, member bool) string {
		if !member {
			b.mask.Learn(Cut(Quote(s)))
		}
		return ""
	})
	for _, row := range slices.Concat(t.Rows, [][]Literal{t.Values}) {
		for _, v := range row {
			b.mask.Learn(v)
		}
	}
}

// table is a table as it leaves the cluster.
func (b *builder) table(t *Source) Table {
	out := t.Table
	out.Create = ddl(t.Create, func(s string, member bool) string {
		if member {
			return Quote(s)
		}
		return b.mask.Show(Cut(Quote(s)))
	})
	var values []string
	for _, v := range t.Values {
		values = append(values, b.mask.Show(v))
	}
	out.Placement = Fill(t.Placement, values)
	for i, row := range t.Rows {
		r := Row{Home: t.Home[i], Pinned: t.Pinned[i], New: t.New != nil && t.New[i]}
		for _, v := range row {
			r.Values = append(r.Values, b.mask.Show(v))
		}
		out.Rows = append(out.Rows, r)
	}
	return out
}

// ddl is the definition of a table with other strings in it, and without comments. member says that
// one is a value of an ENUM or SET.
func ddl(text string, show func(s string, member bool) string) string {
	var b strings.Builder
	at := 0
	var depth []string // what stands before each open parenthesis
	before := ""
	for _, t := range token.Scan(text, token.Mode{}) {
		switch {
		case t.Kind == token.String:
			b.WriteString(text[at:t.From])
			at = t.To
			if before == "comment" || before == "=" && strings.HasSuffix(strings.ToLower(strings.TrimRight(text[:t.From], "= ")), "comment") {
				b.WriteString("''")
				break
			}
			within := ""
			if len(depth) > 0 {
				within = depth[len(depth)-1]
			}
			b.WriteString(show(t.Text, within == "enum" || within == "set"))
		case t.Is("("):
			depth = append(depth, before)
		case t.Is(")") && len(depth) > 0:
			depth = depth[:len(depth)-1]
		}
		before = t.Lower
	}
	return b.String() + text[at:]
}

// show fills in the literals of statements.
func (b *builder) show() {
	first := int64(0)
	for i, k := range b.all {
		if at := b.f.Sessions[k.session].Steps[k.step].Began; i == 0 || at < first {
			first = at
		}
	}
	for _, k := range b.all {
		all, some := b.plain(k.text)
		s := &b.f.Sessions[k.session].Steps[k.step]
		s.Began -= first
		for i, l := range k.Literals {
			if all || some[i] {
				s.Args = append(s.Args, l.Text)
				continue
			}
			s.Args = append(s.Args, b.mask.Show(l))
		}
	}
	for i := range b.f.Sessions {
		slices.SortStableFunc(b.f.Sessions[i].Steps, func(a, b Step) int { return cmp.Compare(a.Began, b.Began) })
	}
}
