package bulk

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"

	"github.com/godwitdb/godwit/sql/backup/place"
	"github.com/godwitdb/godwit/sql/bulk/rowfile"
	"github.com/godwitdb/godwit/sql/phrase"
)

// Statements, in the syntax of TiDB and of CockroachDB:
//
//	IMPORT INTO [d.]t [(column | @variable, ...)] [SET column = expression, ...] FROM 'files'
//	   [FORMAT 'csv' | 'parquet' | 'sql'] [WITH option [= value], ...]
//	EXPORT INTO [CSV | PARQUET] 'place' [WITH option [= value], ...] FROM {[TABLE] [d.]t | query}

// verb is what a statement does: the kind of its job.
type verb string

const (
	verbImport verb = "IMPORT"
	verbExport verb = "EXPORT"
)

// What becomes of a row that meets another one.
const (
	onDuplicateError   = "error"
	onDuplicateIgnore  = "ignore"
	onDuplicateReplace = "replace"
)

// Statement is a statement of this package.
type Statement struct {
	verb   verb
	db     string // empty: the session's database
	table  string
	fields string // the list of columns and variables, and SET, as they were written
	listed bool
	url    string
	query  string // of an export that names no table
	o      options
	detach bool

	err error // the statement is one of ours, and wrong
}

// options are those of a job, as its record keeps them.
type options struct {
	Format rowfile.Format `json:"format"`
	// OnDuplicate says what becomes of a row that meets another one, MaxErrors how many rows may be
	// wrong, and Threads how many chunks are loaded at once.
	OnDuplicate string `json:"on_duplicate,omitempty"`
	MaxErrors   int64  `json:"max_errors,omitempty"`
	Threads     int    `json:"threads,omitempty"`
	// FileRows and FileBytes are about how much an exported file has.
	FileRows  int64 `json:"file_rows,omitempty"`
	FileBytes int64 `json:"file_bytes,omitempty"`
}

// Bounds of options.
const (
	defaultThreads   = 4
	mostThreads      = 64
	defaultFileBytes = 32 << 20
	mostFileBytes    = 256 << 20
)

// Parse reads a statement; nil if it is none of them. One that is wrong is one that fails when it
// is run.
func Parse(q string) *Statement {
	p := &reader{phrase.Reader{Rest: q}}
	st := &Statement{o: options{Format: rowfile.Format{FieldEnd: ",", Enclosed: `"`, Escape: `\`, Null: `\N`}}}
	switch {
	case p.Word("IMPORT") && p.Word("INTO"):
		st.verb = verbImport
		p.imported(st)
		p.End()
	case p.again(q) && p.Word("EXPORT") && p.Word("INTO"):
		st.verb = verbExport
		p.exported(st)
	default:
		return nil
	}
	st.err = p.Err
	return st
}

// Name is the statement without its places and texts.
func (st *Statement) Name() string { return string(st.verb) + " INTO" }

// Schema is that of the answer.
func (st *Statement) Schema() sql.Schema {
	text := func(n string) *sql.Column { return &sql.Column{Name: n, Type: types.LongText} }
	number := func(n string) *sql.Column { return &sql.Column{Name: n, Type: types.Int64} }
	switch {
	case st.detach:
		return sql.Schema{number("job_id")}
	case st.verb == verbImport:
		return sql.Schema{number("job_id"), number("files"), number("rows"), number("skipped"), number("errors"), number("bytes")}
	}
	return sql.Schema{text("filename"), number("rows"), number("bytes")}
}

// reader reads a statement from the left. After the first error it reads nothing more.
type reader struct{ phrase.Reader }

// again begins anew.
func (p *reader) again(q string) bool {
	p.Reader = phrase.Reader{Rest: q}
	return true
}

func (p *reader) table(st *Statement) {
	st.table = p.Ident()
	if p.Sign('.') {
		st.db, st.table = st.table, p.Ident()
	}
}

func (p *reader) imported(st *Statement) {
	st.o.OnDuplicate, st.o.Threads = onDuplicateError, defaultThreads
	p.table(st)
	begin := p.Rest
	if p.Sign('(') {
		st.listed = true
		p.until(")")
		p.Sign(')')
	}
	if p.Word("SET") {
		if !st.listed {
			p.Wrong("IMPORT INTO ... SET needs a list of the columns and variables that the fields go to")
		}
		p.until("FROM")
	}
	st.fields = strings.TrimSpace(begin[:len(begin)-len(p.Rest)])
	p.Must("FROM")
	st.url = p.Text("the name of the files")
	_, file, err := place.Split(st.url)
	if err != nil && p.Err == nil {
		p.Wrong("%v", err)
	}
	st.o.Format.Kind, st.o.Format.Compression = rowfile.Guess(file)
	if p.Word("FORMAT") {
		st.o.Format.Kind = p.kind(p.Text("a format"))
	}
	p.options(st, importOptions)
	if st.o.Format.Kind == "" {
		p.Wrong("the name of the files does not say what is in them: add FORMAT 'csv', 'parquet' or 'sql'")
	}
	if st.o.Format.Kind == rowfile.Parquet && st.o.Format.Compression != "" {
		p.Wrong("Parquet files have their compression inside, and cannot be read if they are compressed as a whole")
	}
	p.layout(st)
}

// until goes to a sign or keyword that stands outside of quotes and parentheses.
func (p *reader) until(end string) {
	depth := 0
	for i := 0; i < len(p.Rest); i++ {
		switch c := p.Rest[i]; {
		case depth == 0 && p.stands(i, end):
			p.Rest = p.Rest[i:]
			return
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == '\'' || c == '"' || c == '`':
			i = p.behind(i)
		case c == '#' || c == ';' || strings.HasPrefix(p.Rest[i:], "--") || strings.HasPrefix(p.Rest[i:], "/*"):
			p.Rest = p.Rest[i:]
			p.Fail("a statement without comments")
			return
		}
	}
	p.Rest = ""
	p.Fail(end)
}

// stands reports whether a sign or keyword stands at a place.
func (p *reader) stands(i int, end string) bool {
	rest := p.Rest[i:]
	if len(rest) < len(end) || !strings.EqualFold(rest[:len(end)], end) {
		return false
	}
	if end == ")" {
		return true
	}
	begins := i == 0 || !phrase.IsWord(p.Rest[i-1]) && p.Rest[i-1] != '@' && p.Rest[i-1] != '.'
	return begins && (len(rest) == len(end) || !phrase.IsWord(rest[len(end)]))
}

// behind is where the quotes end that begin at a place.
func (p *reader) behind(i int) int {
	quote := p.Rest[i]
	for i++; i < len(p.Rest) && p.Rest[i] != quote; i++ {
		if p.Rest[i] == '\\' && quote != '`' {
			i++
		}
	}
	return i
}

func (p *reader) kind(text string) rowfile.Kind {
	k := rowfile.Kind(strings.ToLower(text))
	if k != rowfile.CSV && k != rowfile.Parquet && k != rowfile.SQL {
		p.Wrong("no format is called %q: there are csv, parquet and sql", text)
	}
	return k
}

func (p *reader) exported(st *Statement) {
	st.o.FileBytes = defaultFileBytes
	st.o.Format.Kind = rowfile.CSV
	switch {
	case p.Word("CSV"):
	case p.Word("PARQUET"):
		st.o.Format.Kind = rowfile.Parquet
	}
	st.url = p.Text("a place")
	if st.o.Format.Kind == rowfile.Parquet {
		st.o.Format.Compression = "snappy"
	}
	p.options(st, exportOptions)
	if st.o.Format.Kind == rowfile.SQL {
		p.Wrong("EXPORT INTO writes CSV and Parquet, and no SQL: use mysqldump")
	}
	if z := st.o.Format.Compression; p.Err == nil && !slices.Contains(rowfile.Compressions[st.o.Format.Kind], z) {
		p.Wrong("%s files have no compression %q: there are %s", st.o.Format.Kind, z,
			strings.Trim(strings.Join(rowfile.Compressions[st.o.Format.Kind], ", ")+", none", ", "))
	}
	p.layout(st)
	p.Must("FROM")
	p.Space()
	if p.Is("SELECT") || p.Is("WITH") || strings.HasPrefix(p.Rest, "(") {
		st.query = strings.TrimRight(p.Rest, "; \t\r\n")
		return
	}
	p.Word("TABLE")
	p.table(st)
	p.End()
}

// layout looks whether a CSV file can be read that was written so.
func (p *reader) layout(st *Statement) {
	f := &st.o.Format
	if f.Kind != rowfile.CSV || p.Err != nil {
		return
	}
	switch {
	case f.FieldEnd == "":
		p.Wrong("fields_terminated_by must not be empty")
	case f.LineEnd != "" && (strings.HasPrefix(f.LineEnd, f.FieldEnd) || strings.HasPrefix(f.FieldEnd, f.LineEnd)):
		p.Wrong("lines and fields end with the same: %q and %q", f.LineEnd, f.FieldEnd)
	case len(f.Enclosed) > 1 || len(f.Escape) > 1:
		p.Wrong("fields_enclosed_by and fields_escaped_by are one character of one byte, or empty")
	case f.Enclosed != "" && strings.ContainsAny(f.FieldEnd+f.LineEnd, f.Enclosed), f.Escape != "" &&
		strings.ContainsAny(f.FieldEnd+f.LineEnd, f.Escape):
		p.Wrong("a terminator has the quote or the escape in it")
	case f.Header && st.listed:
		p.Wrong("the header names the columns: leave it out with skip_rows = 1, or leave out the list")
	}
}

// option sets an option by its value; an empty one is that of an option without one.
type option func(o *options, value string) error

// text is an option that is a text.
func text(at func(*options) *string) option {
	return func(o *options, v string) error { *at(o) = v; return nil }
}

// number is an option that is a number in a range.
func number(least, most int64, set func(*options, int64)) option {
	return func(o *options, v string) error {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || n < least || n > most {
			return fmt.Errorf("a number from %d to %d is expected", least, most)
		}
		set(o, n)
		return nil
	}
}

// one is an option that has one of some values.
func one(at func(*options) *string, values ...string) option {
	return func(o *options, v string) error {
		if v = strings.ToLower(v); !slices.Contains(values, v) {
			return fmt.Errorf("one of %s is expected", strings.Join(values, ", "))
		}
		*at(o) = v
		return nil
	}
}

var layoutOptions = map[string]option{
	"fields_terminated_by":   text(func(o *options) *string { return &o.Format.FieldEnd }),
	"fields_enclosed_by":     text(func(o *options) *string { return &o.Format.Enclosed }),
	"fields_escaped_by":      text(func(o *options) *string { return &o.Format.Escape }),
	"fields_defined_null_by": text(func(o *options) *string { return &o.Format.Null }),
	"lines_terminated_by":    text(func(o *options) *string { return &o.Format.LineEnd }),
	"header": func(o *options, v string) error {
		var err error
		o.Format.Header = true
		if v != "" {
			o.Format.Header, err = strconv.ParseBool(strings.ToLower(v))
		}
		return err
	},
	"compression": func(o *options, v string) error {
		if v = strings.ToLower(v); v == "none" {
			v = ""
		}
		if !slices.Contains([]string{"", rowfile.Gzip, rowfile.Zstd, "snappy"}, v) {
			return fmt.Errorf("one of gzip, zstd, none is expected, or snappy with Parquet")
		}
		o.Format.Compression = v
		return nil
	},
}

var importOptions = map[string]option{
	"skip_rows":    number(0, 1<<40, func(o *options, n int64) { o.Format.Skip = n }),
	"max_errors":   number(0, 1<<40, func(o *options, n int64) { o.MaxErrors = n }),
	"threads":      number(1, mostThreads, func(o *options, n int64) { o.Threads = int(n) }),
	"thread":       number(1, mostThreads, func(o *options, n int64) { o.Threads = int(n) }), // TiDB's
	"on_duplicate": one(func(o *options) *string { return &o.OnDuplicate }, onDuplicateError, onDuplicateIgnore, onDuplicateReplace),
}

var exportOptions = map[string]option{
	"format": func(o *options, v string) error {
		o.Format.Kind = rowfile.Kind(strings.ToLower(v))
		if o.Format.Kind == rowfile.Parquet && o.Format.Compression == "" {
			o.Format.Compression = "snappy"
		}
		if !slices.Contains([]rowfile.Kind{rowfile.CSV, rowfile.Parquet, rowfile.SQL}, o.Format.Kind) {
			return fmt.Errorf("one of csv, parquet is expected")
		}
		return nil
	},
	"chunk_rows": number(1, 1<<40, func(o *options, n int64) { o.FileRows = n }),
	"chunk_size": number(1<<10, mostFileBytes, func(o *options, n int64) { o.FileBytes = n }),
}

// options reads WITH.
func (p *reader) options(st *Statement, own map[string]option) {
	if !p.Word("WITH") {
		return
	}
	seen := map[string]bool{}
	for {
		name := strings.ToLower(p.Ident())
		value := ""
		if p.Sign('=') {
			value = p.value()
		}
		if p.Err != nil {
			return
		}
		set := own[name]
		if set == nil {
			set = layoutOptions[name]
		}
		switch {
		case seen[name]:
			p.Wrong("the option %s is given twice", name)
		case name == "detached" && value == "":
			st.detach = true
		case set == nil:
			p.Wrong("%s has no option %s", st.Name(), name)
		default:
			if err := set(&st.o, value); err != nil {
				p.Wrong("%s: %v", name, err)
			}
		}
		seen[name] = true
		if !p.Sign(',') {
			return
		}
	}
}

// letters are what stand for bytes behind a backslash; N is for NULL.
var letters = map[byte]string{'t': "\t", 'n': "\n", 'r': "\r", '0': "\x00", 'N': `\N`}

// value is a text in quotes, or a word.
func (p *reader) value() string {
	p.Space()
	if p.Rest == "" || p.Rest[0] != '\'' && p.Rest[0] != '"' {
		return p.Ident()
	}
	quote := p.Rest[0]
	var b strings.Builder
	for i := 1; i < len(p.Rest); i++ {
		c := p.Rest[i]
		next := byte(0)
		if i+1 < len(p.Rest) {
			next = p.Rest[i+1]
		}
		switch {
		case c == '\\' && next != 0:
			i++
			if s, ok := letters[next]; ok {
				b.WriteString(s)
				continue
			}
			b.WriteByte(next)
		case c == quote && next == quote:
			i++
			b.WriteByte(c)
		case c == quote:
			p.Rest = p.Rest[i+1:]
			return b.String()
		default:
			b.WriteByte(c)
		}
	}
	p.Fail("the end of a value")
	return ""
}

// matches reports whether a file is one of those that a statement names.
func matches(pattern, file string) bool {
	ok, err := path.Match(pattern, file)
	return ok && err == nil
}
