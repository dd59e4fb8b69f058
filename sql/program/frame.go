package program

import (
	"errors"
	"strings"

	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/token"
)

// Value is a value with its type.
type Value struct {
	V expr.Value
	T expr.Type
}

// Variable is a local variable. Decl is what the host keeps of its type.
type Variable struct {
	Name string
	Decl any
	Value
}

// Condition is an error, or a warning (Warning), of a statement.
type Condition struct {
	Code        int
	State, Text string
	Warning     bool
	Info        map[string]string // more items of SIGNAL, by name in upper case
}

// Error implements error.
func (c *Condition) Error() string { return c.Unwrap().Error() }

// Unwrap is the error that the client gets.
func (c *Condition) Unwrap() error { return mysql.NewSQLError(c.Code, c.State, "%s", c.Text) }

// Told is the error that the client gets of one of a program.
func Told(err error) error {
	var c *Condition
	if errors.As(err, &c) {
		return c.Unwrap()
	}
	return err
}

// Warning is what a statement has warned of.
func Warning(code int, text string) *Condition {
	c := &Condition{Code: code, State: "01000", Text: text, Warning: true}
	if code == 1329 {
		c.State = "02000"
	}
	return c
}

// class is the class that a handler may name: not found, sqlwarning or sqlexception.
func (c *Condition) class() string {
	switch {
	case strings.HasPrefix(c.State, "02"):
		return "not found"
	case c.Warning, strings.HasPrefix(c.State, "01"):
		return "sqlwarning"
	}
	return "sqlexception"
}

// Host is what runs the statements of a program.
type Host interface {
	// Declare makes a variable of a type, which is NULL. Assign converts a value to its type.
	Declare(name, typ string) (*Variable, error)
	Assign(f *Frame, v *Variable, x Value) error
	// Eval computes an expression, Rows the rows of a query. What an expression may only warn of
	// is an error if its value is stored.
	Eval(f *Frame, e Expr, stored bool) (Value, error)
	Rows(f *Frame, query string) (*Rows, error)
	// Run runs a statement, and returns its warnings. Call calls a procedure.
	Run(f *Frame, text string) ([]*Condition, error)
	Call(f *Frame, c *Call) error
	// SetUser assigns @name, SetSystem the system variable of a text, SetRow a column of a row.
	SetUser(f *Frame, name string, x Value) error
	SetSystem(f *Frame, target string, e Expr) error
	SetRow(f *Frame, row, column string, x Value) error
	// Warn adds a warning that the client sees.
	Warn(c *Condition)
	// RowCount is ROW_COUNT().
	RowCount() int64
	// Step is asked before each statement; its error ends the program. Fatal are errors that no
	// handler may take.
	Step() error
	Fatal(err error) bool
}

// Frame is a program that runs.
type Frame struct {
	Host Host
	// Program is what runs, DB its database.
	Program *Program
	DB      string
	// Outer is the program that has called it; nil: none.
	Outer *Frame
	// Data is what the host keeps.
	Data any

	scopes []*scope
	result *Variable
	// diag are the conditions of the last statement. handled are those that handlers run for.
	diag    []*Condition
	handled []*Condition
}

// scope is a block that runs, or the parameters.
type scope struct {
	block   *Block
	vars    map[string]*Variable
	cursors map[string]*cursor
	busy    bool // one of its handlers runs
}

type cursor struct {
	query string
	open  bool
	rows  *Rows
	at    int
}

// Rows are those of a query. Free is called when nobody reads them again.
type Rows struct {
	All  [][]Value
	Free func()
}

// flow says that the next statement is not the one behind the present one.
type flow struct {
	leave, iterate string // in lower case
	ret            bool
	exit           *scope
}

// unhandled is an error for which no handler was found.
type unhandled struct{ error }

// Unwrap is the error.
func (u unhandled) Unwrap() error { return u.error }

// Lookup finds a variable by its name; nil if there is none.
func (f *Frame) Lookup(name string) *Variable {
	name = strings.ToLower(name)
	for i := len(f.scopes) - 1; i >= 0; i-- {
		if v := f.scopes[i].vars[name]; v != nil {
			return v
		}
	}
	return nil
}

// Names reports whether there is any variable.
func (f *Frame) Names() bool {
	for _, s := range f.scopes {
		if len(s.vars) > 0 {
			return true
		}
	}
	return false
}

func (s *scope) add(v *Variable) { s.vars[strings.ToLower(v.Name)] = v }

func newScope(b *Block) *scope {
	return &scope{block: b, vars: map[string]*Variable{}, cursors: map[string]*cursor{}}
}

// Bind makes the parameters, which are NULL unless they have a value.
func (f *Frame) Bind(args []Value) error {
	s := newScope(nil)
	f.scopes = append(f.scopes, s)
	for i, p := range f.Program.Params {
		v, err := f.Host.Declare(p.Name, p.Type)
		if err != nil {
			return err
		}
		if p.In {
			if err := f.Host.Assign(f, v, args[i]); err != nil {
				return err
			}
		}
		s.add(v)
	}
	if f.Program.Kind == Function {
		var err error
		if f.result, err = f.Host.Declare(f.Program.Name+"()", f.Program.Returns); err != nil {
			return err
		}
	}
	return nil
}

// Run runs the body.
func (f *Frame) Run() error {
	fl, err := f.list([]Stmt{f.Program.Body})
	var u unhandled
	if errors.As(err, &u) {
		err = u.error
	}
	if err == nil && f.Program.Kind == Function && (fl == nil || !fl.ret) {
		err = mysql.NewSQLError(1321, "2F005", "FUNCTION %s ended without RETURN", f.Program.Name)
	}
	return err
}

// Result is the value of a function.
func (f *Frame) Result() Value { return f.result.Value }

// list runs statements.
func (f *Frame) list(list []Stmt) (*flow, error) {
	for _, s := range list {
		if err := f.Host.Step(); err != nil {
			return nil, unhandled{err}
		}
		fl, err := f.statement(s)
		if err != nil {
			fl, err = f.handle(err)
		}
		if fl != nil || err != nil {
			return fl, err
		}
	}
	return nil, nil
}

func (f *Frame) statement(s Stmt) (*flow, error) {
	switch s := s.(type) {
	case *Block:
		return f.block(s)
	case *If:
		return f.ifs(s)
	case *Case:
		return f.cases(s)
	case *Loop:
		return f.loop(s)
	case *Leave:
		return &flow{leave: strings.ToLower(s.Label)}, nil
	case *Iterate:
		return &flow{iterate: strings.ToLower(s.Label)}, nil
	case *Return:
		return f.ret(s)
	case *Set:
		return nil, f.set(s)
	case *Open:
		return nil, f.open(s)
	case *Close:
		return nil, f.close(s)
	case *Fetch:
		return nil, f.fetch(s)
	case *Signal:
		return f.signal(s)
	case *Diagnostics:
		return nil, f.diagnostics(s)
	case *Call:
		return nil, f.Host.Call(f, s)
	case *Do:
		for _, e := range s.Exprs {
			if _, err := f.Host.Eval(f, e, false); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}
	warnings, err := f.Host.Run(f, s.(*SQL).Text)
	if err != nil {
		return nil, err
	}
	return f.warned(warnings)
}

func (f *Frame) block(b *Block) (*flow, error) {
	s := newScope(b)
	for name, q := range b.Cursors {
		s.cursors[name] = &cursor{query: q}
	}
	depth := len(f.scopes)
	f.scopes = append(f.scopes[:depth:depth], s)
	defer func() {
		f.scopes = f.scopes[:depth]
		for _, c := range s.cursors {
			c.close()
		}
	}()
	fl, err := f.declared(s, b)
	if fl == nil && err == nil {
		fl, err = f.list(b.Body)
	}
	if fl != nil && (fl.exit == s || fl.leave != "" && strings.EqualFold(fl.leave, b.Label)) {
		fl = nil
	}
	return fl, err
}

// declared makes the variables of a block.
func (f *Frame) declared(s *scope, b *Block) (*flow, error) {
	for _, d := range b.Vars {
		var x Value
		if d.Default != "" {
			var err error
			if x, err = f.Host.Eval(f, d.Default, true); err != nil {
				return f.handle(err)
			}
		}
		for _, name := range d.Names {
			v, err := f.Host.Declare(name, d.Type)
			if err == nil && d.Default != "" {
				err = f.Host.Assign(f, v, x)
			}
			if err != nil {
				return f.handle(err)
			}
			s.add(v)
		}
	}
	return nil, nil
}

// truth computes a condition.
func (f *Frame) truth(e Expr) (bool, error) {
	x, err := f.Host.Eval(f, "("+e+"\n) IS TRUE", false)
	return err == nil && x.V.I != 0, err
}

func (f *Frame) ifs(s *If) (*flow, error) {
	for _, w := range s.Whens {
		ok, err := f.truth(w.Cond)
		if err != nil {
			return nil, err
		}
		if ok {
			return f.list(w.Then)
		}
	}
	return f.list(s.Else)
}

// caseValue is the name of the variable that has the value of CASE. No statement can name it.
const caseValue = "\x01case"

func (f *Frame) cases(s *Case) (*flow, error) {
	depth := len(f.scopes)
	if s.Value != "" {
		x, err := f.Host.Eval(f, s.Value, false)
		if err != nil {
			return nil, err
		}
		own := newScope(nil)
		own.add(&Variable{Name: caseValue, Value: x})
		f.scopes = append(f.scopes[:depth:depth], own)
	}
	for _, w := range s.Whens {
		cond := w.Cond
		if s.Value != "" {
			cond = "`" + caseValue + "` = (" + cond + "\n)"
		}
		ok, err := f.truth(cond)
		if ok || err != nil {
			f.scopes = f.scopes[:depth]
			if err != nil {
				return nil, err
			}
			return f.list(w.Then)
		}
	}
	f.scopes = f.scopes[:depth]
	if s.Lacks {
		return nil, mysql.NewSQLError(1339, "20000", "Case not found for CASE statement")
	}
	return f.list(s.Else)
}

func (f *Frame) loop(s *Loop) (*flow, error) {
	label := strings.ToLower(s.Label)
	for {
		if err := f.Host.Step(); err != nil {
			return nil, unhandled{err}
		}
		if s.While != "" {
			if ok, err := f.truth(s.While); !ok || err != nil {
				return nil, err
			}
		}
		fl, err := f.list(s.Body)
		switch {
		case err != nil:
			return nil, err
		case fl == nil:
		case label != "" && fl.leave == label:
			return nil, nil
		case label != "" && fl.iterate == label:
			continue
		default:
			return fl, nil
		}
		if s.Until != "" {
			if ok, err := f.truth(s.Until); ok || err != nil {
				return nil, err
			}
		}
	}
}

func (f *Frame) ret(s *Return) (*flow, error) {
	if f.result == nil {
		return nil, mysql.NewSQLError(1313, "42000", "RETURN is only allowed in a FUNCTION")
	}
	x, err := f.Host.Eval(f, s.Value, true)
	if err == nil {
		err = f.Host.Assign(f, f.result, x)
	}
	return &flow{ret: true}, err
}

// set assigns.
func (f *Frame) set(s *Set) error {
	for _, a := range s.To {
		v := f.Lookup(a.Name)
		if a.System == "" && !a.User && a.Row == "" && v == nil {
			a.System = a.Name
		}
		if a.System != "" {
			if err := f.Host.SetSystem(f, a.System, a.Value); err != nil {
				return err
			}
			continue
		}
		x, err := f.Host.Eval(f, a.Value, true)
		if err != nil {
			return err
		}
		if a.Row != "" {
			err = f.Host.SetRow(f, strings.ToLower(a.Row), a.Name, x)
		} else {
			err = f.assign(token.Variable{Name: a.Name, User: a.User}, x)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// assign gives a variable a value.
func (f *Frame) assign(to token.Variable, x Value) error {
	if to.User {
		return f.Host.SetUser(f, to.Name, x)
	}
	v := f.Lookup(to.Name)
	if v == nil {
		return mysql.NewSQLError(1327, "42000", "Undeclared variable: %s", to.Name)
	}
	return f.Host.Assign(f, v, x)
}

// Into gives variables the values of a row.
func (f *Frame) Into(to []token.Variable, row []Value) error {
	for i, v := range to {
		if err := f.assign(v, row[i]); err != nil {
			return err
		}
	}
	return nil
}

func (f *Frame) cursor(name string) (*cursor, error) {
	for i := len(f.scopes) - 1; i >= 0; i-- {
		if c := f.scopes[i].cursors[strings.ToLower(name)]; c != nil {
			return c, nil
		}
	}
	return nil, mysql.NewSQLError(1324, "42000", "Undefined CURSOR: %s", name)
}

func (f *Frame) open(s *Open) error {
	c, err := f.cursor(s.Cursor)
	if err != nil {
		return err
	}
	if c.open {
		return mysql.NewSQLError(1325, "24000", "Cursor is already open")
	}
	if c.rows, err = f.Host.Rows(f, c.query); err != nil {
		return err
	}
	c.open, c.at = true, 0
	return nil
}

func (f *Frame) close(s *Close) error {
	c, err := f.cursor(s.Cursor)
	if err != nil {
		return err
	}
	if !c.open {
		return mysql.NewSQLError(1326, "24000", "Cursor is not open")
	}
	c.close()
	return nil
}

func (c *cursor) close() {
	if c.rows != nil {
		c.rows.Free()
	}
	c.open, c.rows = false, nil
}

func (f *Frame) fetch(s *Fetch) error {
	c, err := f.cursor(s.Cursor)
	if err != nil {
		return err
	}
	switch {
	case !c.open:
		return mysql.NewSQLError(1326, "24000", "Cursor is not open")
	case c.at >= len(c.rows.All):
		return mysql.NewSQLError(1329, "02000", "No data - zero rows fetched, selected, or processed")
	case len(c.rows.All[c.at]) != len(s.To):
		return mysql.NewSQLError(1328, "HY000", "Incorrect number of FETCH variables")
	}
	c.at++
	return f.Into(s.To, c.rows.All[c.at-1])
}
