package program

import (
	"errors"
	"strconv"
	"strings"

	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/sql/expr"
)

// conditionOf is an error as a condition.
func conditionOf(err error) *Condition {
	var c *Condition
	if errors.As(err, &c) {
		return c
	}
	var me *mysql.SQLError
	if errors.As(err, &me) {
		return &Condition{Code: me.Num, State: me.State, Text: me.Message}
	}
	return &Condition{Code: 1105, State: "HY000", Text: err.Error()}
}

// rank says how well a condition is met: 0 is not at all.
func (f *Frame) rank(m Match, c *Condition) int {
	if m.Name != "" {
		named, ok := f.named(m.Name)
		if !ok {
			return 0
		}
		m = named
	}
	switch {
	case m.Code != 0 && m.Code == c.Code:
		return 3
	case m.State != "" && m.State == c.State:
		return 2
	case m.Class != "" && m.Class == c.class():
		return 1
	}
	return 0
}

// named is the condition that has been declared under a name.
func (f *Frame) named(name string) (Match, bool) {
	for i := len(f.scopes) - 1; i >= 0; i-- {
		if b := f.scopes[i].block; b != nil {
			if m, ok := b.Conditions[strings.ToLower(name)]; ok {
				return m, true
			}
		}
	}
	return Match{}, false
}

// handler finds the handler of a condition, and where its scope is; nil if there is none.
func (f *Frame) handler(c *Condition) (h *Handler, at int) {
	for at = len(f.scopes) - 1; at >= 0; at-- {
		s := f.scopes[at]
		if s.block == nil || s.busy {
			continue
		}
		best := 0
		for _, x := range s.block.Handlers {
			for _, m := range x.For {
				if r := f.rank(m, c); r > best {
					h, best = x, r
				}
			}
		}
		if h != nil {
			return h, at
		}
	}
	return nil, 0
}

// handle runs the handler for an error; the error goes on if there is none.
func (f *Frame) handle(err error) (*flow, error) {
	var u unhandled
	if errors.As(err, &u) {
		return nil, err
	}
	if f.Host.Fatal(err) {
		return nil, unhandled{err}
	}
	c := conditionOf(err)
	h, at := f.handler(c)
	if h == nil {
		return nil, unhandled{err}
	}
	return f.run(h, at, c)
}

// warned runs the handler for the first warning that has one.
func (f *Frame) warned(warnings []*Condition) (*flow, error) {
	f.diag = warnings
	for _, c := range warnings {
		if h, at := f.handler(c); h != nil {
			return f.run(h, at, c)
		}
	}
	return nil, nil
}

// run runs a handler of the scope at. It sees the scopes up to there.
func (f *Frame) run(h *Handler, at int, c *Condition) (*flow, error) {
	all, own := f.scopes, f.scopes[at]
	f.scopes, own.busy = all[:at+1:at+1], true
	f.diag, f.handled = []*Condition{c}, append(f.handled, c)
	fl, err := f.list([]Stmt{h.Body})
	f.scopes, own.busy, f.handled = all, false, f.handled[:len(f.handled)-1]
	if fl == nil && err == nil && h.Exit {
		fl = &flow{exit: own}
	}
	return fl, err
}

// signal raises a condition.
func (f *Frame) signal(s *Signal) (*flow, error) {
	c := &Condition{}
	if s.Again {
		if len(f.handled) == 0 {
			return nil, mysql.NewSQLError(1645, "0K000", "RESIGNAL when handler not active")
		}
		*c = *f.handled[len(f.handled)-1]
	}
	if s.Match != nil {
		m := *s.Match
		if m.Name != "" {
			var ok bool
			if m, ok = f.named(m.Name); !ok {
				return nil, mysql.NewSQLError(1319, "42000", "Undefined CONDITION: %s", s.Match.Name)
			}
		}
		if m.State == "" {
			return nil, mysql.NewSQLError(1646, "HY000", "SIGNAL/RESIGNAL can only use a CONDITION defined with SQLSTATE")
		}
		c.of(m.State, !s.Again)
	}
	if err := f.items(c, s.Items); err != nil {
		return nil, err
	}
	if c.class() == "sqlwarning" {
		c.Warning = true
		f.Host.Warn(c)
		return f.warned([]*Condition{c})
	}
	return nil, c
}

// of makes the condition one of a state; fresh says that it has nothing else yet.
func (c *Condition) of(state string, fresh bool) {
	c.State, c.Warning = state, false
	if !fresh {
		return
	}
	switch state[:2] {
	case "01":
		c.Code, c.Text = 1642, "Unhandled user-defined warning condition"
	case "02":
		c.Code, c.Text = 1643, "Unhandled user-defined not found condition"
	default:
		c.Code, c.Text = 1644, "Unhandled user-defined exception condition"
	}
}

// items sets what SIGNAL says about a condition.
func (f *Frame) items(c *Condition, items []Item) error {
	for _, it := range items {
		x, err := f.Host.Eval(f, it.Value, true)
		if err != nil {
			return err
		}
		if x.V.IsNull() {
			return mysql.NewSQLError(1231, "42000", "Variable '%s' can't be set to the value of 'NULL'", it.Name)
		}
		text := x.V.Text(x.T)
		switch it.Name {
		case "MESSAGE_TEXT":
			c.Text = text
		case "MYSQL_ERRNO":
			n, err := strconv.Atoi(text)
			if err != nil || n <= 0 || n > 65535 {
				return mysql.NewSQLError(1231, "42000", "Variable '%s' can't be set to the value of '%s'", it.Name, text)
			}
			c.Code = n
		default:
			info := map[string]string{it.Name: text}
			for k, v := range c.Info {
				if k != it.Name {
					info[k] = v
				}
			}
			c.Info = info
		}
	}
	return nil
}

// diagnostics runs GET DIAGNOSTICS.
func (f *Frame) diagnostics(s *Diagnostics) error {
	area := f.diag
	if s.Stacked {
		if len(f.handled) == 0 {
			return mysql.NewSQLError(3044, "0Z002", "GET STACKED DIAGNOSTICS when handler not active")
		}
		area = f.handled[len(f.handled)-1:]
	}
	if s.Number == "" {
		for _, it := range s.Items {
			n := int64(len(area))
			if it.Name == "ROW_COUNT" {
				n = f.Host.RowCount()
			}
			if err := f.assign(it.To, Value{expr.Value{Kind: expr.Int, I: n}, expr.TypeInt}); err != nil {
				return err
			}
		}
		return nil
	}
	x, err := f.Host.Eval(f, "CAST("+s.Number+" AS SIGNED)", false)
	if err != nil {
		return err
	}
	if x.V.IsNull() || x.V.I < 1 || x.V.I > int64(len(area)) {
		return mysql.NewSQLError(1758, "35000", "Invalid condition number")
	}
	c := area[x.V.I-1]
	for _, it := range s.Items {
		if err := f.assign(it.To, c.Item(it.Name)); err != nil {
			return err
		}
	}
	return nil
}

// Item is a part of what is known about a condition, by its name in upper case.
func (c *Condition) Item(name string) Value {
	text := c.Info[name]
	switch name {
	case "MYSQL_ERRNO":
		return Value{expr.Value{Kind: expr.Int, I: int64(c.Code)}, expr.TypeInt}
	case "RETURNED_SQLSTATE":
		text = c.State
	case "MESSAGE_TEXT":
		text = c.Text
	case "CLASS_ORIGIN", "SUBCLASS_ORIGIN":
		if text == "" {
			text = c.origin(name == "SUBCLASS_ORIGIN")
		}
	}
	n := expr.TextConst(text, expr.DefaultCollation)
	return Value{n.V, n.T}
}

// origin says who has defined the class of the state, or the rest of it, as MySQL does: the
// standard has classes that begin with 0 to 4 and A to H.
func (c *Condition) origin(sub bool) string {
	if s := c.State; len(s) == 5 && (s[0] >= '0' && s[0] <= '4' || s[0] >= 'A' && s[0] <= 'H' || sub && s[2:] == "000") {
		return "ISO 9075"
	}
	return "MySQL"
}
