package tree

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/pingcap/tidb/pkg/parser"
	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/mysql"
)

// What Parse does not take.
var (
	ErrSyntax  = errors.New("syntax")
	ErrSeveral = errors.New("several statements")
)

// Mode is what of sql_mode matters to the meaning of a text.
type Mode struct {
	ANSIQuotes, PipesAsConcat, NoBackslashEscapes, IgnoreSpace, HighNotPrecedence bool
	OnlyFullGroupBy, Strict, SignedDifference                                     bool
}

var parsers = sync.Pool{New: func() any { return parser.New() }}

// ModeOf reads a sql_mode.
func ModeOf(text string) Mode {
	var m Mode
	for _, s := range strings.Split(strings.ToUpper(text), ",") {
		switch strings.TrimSpace(s) {
		case "ANSI":
			m.ANSIQuotes, m.PipesAsConcat, m.IgnoreSpace, m.OnlyFullGroupBy = true, true, true, true
		case "ANSI_QUOTES":
			m.ANSIQuotes = true
		case "PIPES_AS_CONCAT":
			m.PipesAsConcat = true
		case "NO_BACKSLASH_ESCAPES":
			m.NoBackslashEscapes = true
		case "IGNORE_SPACE":
			m.IgnoreSpace = true
		case "HIGH_NOT_PRECEDENCE":
			m.HighNotPrecedence = true
		case "STRICT_TRANS_TABLES", "STRICT_ALL_TABLES", "TRADITIONAL":
			m.Strict = true
		case "NO_UNSIGNED_SUBTRACTION":
			m.SignedDifference = true
		case "ONLY_FULL_GROUP_BY":
			m.OnlyFullGroupBy = true
		}
	}
	return m
}

func (m Mode) parser() (out mysql.SQLMode) {
	for _, x := range []struct {
		on   bool
		mode mysql.SQLMode
	}{
		{m.ANSIQuotes, mysql.ModeANSIQuotes}, {m.PipesAsConcat, mysql.ModePipesAsConcat},
		{m.NoBackslashEscapes, mysql.ModeNoBackslashEscapes},
		{m.IgnoreSpace, mysql.ModeIgnoreSpace}, {m.HighNotPrecedence, mysql.ModeHighNotPrecedence},
	} {
		if x.on {
			out |= x.mode
		}
	}
	return out
}

// Parse parses one statement.
func Parse(text string, m Mode) (ast.StmtNode, error) {
	n, err := parse(text, m, single)
	if errors.Is(err, ErrSyntax) {
		if r := parseReturning(text, m); r != nil {
			return r, nil
		}
	}
	return n, err
}

// single is the statement of a text that has no others.
func single(stmts []ast.StmtNode) (ast.StmtNode, error) {
	if len(stmts) != 1 {
		return nil, ErrSeveral
	}
	return stmts[0], nil
}

// parse parses a text, of whose statements one is made.
func parse(text string, m Mode, made func([]ast.StmtNode) (ast.StmtNode, error)) (ast.StmtNode, error) {
	p := parsers.Get().(*parser.Parser)
	defer parsers.Put(p)
	p.SetSQLMode(m.parser())
	if !m.NoBackslashEscapes {
		text = signIntervals(text)
	}
	text, tables := cutJSONTables(plainAsOf(signJoins(text), m), m)
	stmts, _, err := p.Parse(text, "", "")
	if err != nil {
		if stmts = parseAliased(p, text); stmts == nil {
			return nil, ErrSyntax
		}
	}
	stmt, err := made(stmts)
	if err != nil {
		return nil, err
	}
	if !putJSONTables(stmt, tables) {
		return nil, ErrSyntax
	}
	putJoins(stmt, text)
	number(stmt)
	return stmt, nil
}

// parseAliased parses an INSERT whose rows have a name; nil if the text is none.
func parseAliased(p *parser.Parser, text string) []ast.StmtNode {
	plain, alias := cutRowAlias(text)
	if alias.Name == "" {
		return nil
	}
	stmts, _, err := p.Parse(plain, "", "")
	if err != nil || len(stmts) == 0 {
		return nil
	}
	n, ok := stmts[0].(*ast.InsertStmt)
	if !ok || n.Select != nil {
		return nil
	}
	stmts[0] = &Aliased{n, alias}
	return stmts
}

// number gives the parameters their numbers, by where they stand.
func number(stmt ast.StmtNode) {
	f := &paramFinder{}
	stmt.Accept(f)
	slices.SortFunc(f.found, func(a, b *Param) int { return cmp.Compare(a.at, b.at) })
	for i, p := range f.found {
		p.Order = i
	}
}

type paramFinder struct{ found []*Param }

// Enter implements ast.Visitor.
func (f *paramFinder) Enter(n ast.Node) (ast.Node, bool) {
	if p, ok := n.(*Param); ok {
		f.found = append(f.found, p)
	}
	return n, false
}

// Leave implements ast.Visitor.
func (f *paramFinder) Leave(n ast.Node) (ast.Node, bool) { return n, true }
