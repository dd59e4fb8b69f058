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
	p := parsers.Get().(*parser.Parser)
	defer parsers.Put(p)
	p.SetSQLMode(m.parser())
	if !m.NoBackslashEscapes {
		text = signIntervals(text)
	}
	text, tables := cutJSONTables(plainAsOf(signJoins(text), m), m)
	stmts, _, err := p.Parse(text, "", "")
	if err != nil {
		if plain, alias := cutRowAlias(text); alias.Name != "" {
			if stmts, _, err = p.Parse(plain, "", ""); err == nil && len(stmts) == 1 {
				if n, ok := stmts[0].(*ast.InsertStmt); ok && n.Select == nil && putJSONTables(n, tables) {
					putJoins(n, text)
					number(n)
					return &Aliased{n, alias}, nil
				}
			}
		}
		return nil, ErrSyntax
	}
	if len(stmts) != 1 {
		return nil, ErrSeveral
	}
	if !putJSONTables(stmts[0], tables) {
		return nil, ErrSyntax
	}
	putJoins(stmts[0], text)
	number(stmts[0])
	return stmts[0], nil
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
