package recording

import (
	"regexp"
	"slices"
	"strings"
	"time"
)

// FileVersion is that of the form of a [File]. Those of 1 have no programs and no placements.
const FileVersion = 2

// File is what a cluster has recorded, as it leaves it: without literals of its own.
type File struct {
	Version int       `json:"version"`
	At      time.Time `json:"at"`
	Regions []Region  `json:"regions"`
	// RTT are round trips between regions, in ms.
	RTT    [][]float64 `json:"rtt_ms"`
	Shards int         `json:"shards"`
	// Timestamps: transactions are ordered by timestamps (godwit init --concurrency).
	Concurrency string            `json:"concurrency,omitempty"`
	Settings    map[string]string `json:"settings,omitempty"` // that are not at their defaults
	// Placements are statements that make those that there are.
	Placements []string `json:"placements,omitempty"`
	Tables     []Table  `json:"tables"`
	// Programs are views, functions, procedures and triggers, in the order in which they were made.
	Programs []Program `json:"programs,omitempty"`
	Texts    []Text    `json:"texts"`
	Sessions []Session `json:"sessions"`
	// Missed is how many statements were not kept, since the nodes began.
	Missed int64 `json:"missed"`
}

// Region is a place, with so many nodes.
type Region struct {
	Name  string `json:"name"`
	Nodes int    `json:"nodes"`
}

// Table is a table with some of its rows.
type Table struct {
	DB     string `json:"db"`
	Name   string `json:"name"`
	Create string `json:"create"`
	// Locality is "", table, global or multi; Region is that of table.
	Locality string `json:"locality,omitempty"`
	Region   string `json:"region,omitempty"`
	Async    bool   `json:"async,omitempty"`
	// Placement is the clause that says where rows may lie; empty: everywhere.
	Placement string `json:"placement,omitempty"`
	// Left says why the table, and what uses it, cannot be played; empty: it can.
	Left    string   `json:"left,omitempty"`
	Columns []string `json:"columns"`
	Key     []string `json:"key,omitempty"` // the primary key's columns
	Rows    []Row    `json:"rows"`
	// Cut: there are more rows than these.
	Cut bool `json:"cut,omitempty"`
}

// Row is a row: its values, as literals, and where it lives.
type Row struct {
	Values []string `json:"v"`
	Home   string   `json:"home,omitempty"`
	Pinned bool     `json:"pinned,omitempty"`
	// New: it was made since the first statement of the recording.
	New bool `json:"new,omitempty"`
}

// Session is one client's statements, in their order.
type Session struct {
	Region int    `json:"region"` // its place in File.Regions
	Steps  []Step `json:"steps"`
}

// Step is a statement.
type Step struct {
	Text int `json:"t"` // its place in File.Texts
	// Began is since the first statement of all; pauses in which nothing was kept are left out.
	// Took is how long it took. Both are µs.
	Began int64    `json:"at"`
	Took  int64    `json:"took"`
	Hops  int64    `json:"hops,omitempty"`
	Bytes int64    `json:"bytes,omitempty"`
	Args  []string `json:"args,omitempty"`
	// Trait: it sets what the session had set before. Was: it was part of a transaction when it
	// began, Goes: that goes on.
	Trait  bool `json:"trait,omitempty"`
	Was    bool `json:"was,omitempty"`
	Goes   bool `json:"goes,omitempty"`
	Failed bool `json:"failed,omitempty"`
	// Lost: it failed, and who tries its transaction again may succeed.
	Lost bool `json:"lost,omitempty"`
}

var reLimit = regexp.MustCompile(`(?i)\b(?:limit|offset)\s+(?:\?\s*,\s*)?$`)

// reSet is a statement that sets variables of the session, none of a user's.
var reSet = regexp.MustCompile(`(?i)^\s*SET\s+(?:NAMES\b|CHARACTER\s+SET\b|CHARSET\b|TRANSACTION\b|` +
	`(?:(?:SESSION|LOCAL)\s+|@@(?:(?:SESSION|LOCAL)\.)?)?\w+\s*:?=)`)

// plain says which literals of a text say nothing of rows: those behind LIMIT, and those of SET.
func plain(text string) (all bool, some map[int]bool) {
	if reSet.MatchString(text) && !strings.Contains(strings.ReplaceAll(text, "@@", ""), "@") {
		return true, nil
	}
	n := 0
	for i := range len(text) {
		if text[i] != '?' {
			continue
		}
		if reLimit.MatchString(text[max(0, i-64):i]) {
			if some == nil {
				some = map[int]bool{}
			}
			some[n] = true
		}
		n++
	}
	return false, some
}

// Fill is a text with its literals.
func Fill(text string, args []string) string {
	var b strings.Builder
	for len(args) > 0 {
		i := strings.IndexByte(text, '?')
		if i < 0 {
			break
		}
		b.WriteString(text[:i])
		b.WriteString(args[0])
		text, args = text[i+1:], args[1:]
	}
	b.WriteString(text)
	return b.String()
}

// Newest drops all but the newest n statements, with the whole transactions that they are of.
func (f *File) Newest(n int) {
	var began []int64
	for _, s := range f.Sessions {
		for _, step := range s.Steps {
			began = append(began, step.Began)
		}
	}
	if len(began) <= n {
		return
	}
	slices.Sort(began)
	from := began[len(began)-n]
	for i := range f.Sessions {
		s := &f.Sessions[i]
		at := slices.IndexFunc(s.Steps, func(x Step) bool { return x.Began >= from && !x.Was })
		if at < 0 {
			at = len(s.Steps)
		}
		s.Steps = slices.Clone(s.Steps[at:])
		for j := range s.Steps {
			s.Steps[j].Began -= from
		}
	}
	f.Sessions = slices.DeleteFunc(f.Sessions, func(s Session) bool { return len(s.Steps) == 0 })
}
