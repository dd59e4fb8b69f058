package sqldiff

import (
	"strings"
)

// Kind is the class of a node. A node may be replaced by one below it of the same kind.
type Kind uint8

// The kinds of nodes: expressions by the class of their values, queries, and the rest.
const (
	Other Kind = iota
	Int
	Decimal
	Double
	Text
	Date
	Datetime
	Time
	Bool
	Query
	From
)

// Node is a piece of a statement. The tree is what the reducer works on.
type Node struct {
	Kind Kind
	// Form is the text. If there are kids and no list, each $ of it stands for one.
	Form string
	Kids []*Node
	// List joins the kids by Form, and keeps at least Min of them.
	List bool
	Min  int
	// Opt nodes may be left out.
	Opt  bool
	gone bool
	// Note is what a rule may want to know about a column: noteYear, noteGroup, or "".
	Note string
}

// Notes of columns. A form by this name is for those columns.
const (
	noteYear  = "a YEAR"
	noteGroup = "a key of GROUP BY"
)

// leaf is a node without kids.
func leaf(k Kind, text string) *Node { return &Node{Kind: k, Form: text} }

// node is one whose kids stand where the form has a $.
func node(k Kind, form string, kids ...*Node) *Node { return &Node{Kind: k, Form: form, Kids: kids} }

// list joins kids.
func list(sep string, least int, kids ...*Node) *Node {
	return &Node{Form: sep, Kids: kids, List: true, Min: least}
}

// opt is a node that may be left out.
func opt(form string, kids ...*Node) *Node {
	n := node(Other, form, kids...)
	n.Opt = true
	return n
}

// String is the text of the statement.
func (n *Node) String() string { return n.Text(nil) }

// Text is the text of the statement with other forms: in these, $1 stands for the first kid.
func (n *Node) Text(forms map[string]string) string {
	var b strings.Builder
	n.write(&b, forms)
	return b.String()
}

func (n *Node) write(b *strings.Builder, forms map[string]string) {
	switch {
	case n.gone:
	case n.List:
		for i, k := range n.Kids {
			if i > 0 {
				b.WriteString(n.Form)
			}
			k.write(b, forms)
		}
	case len(n.Kids) == 0:
		other, ok := n.leafAs(forms)
		if !ok {
			other = "$1"
		}
		b.WriteString(strings.ReplaceAll(other, "$1", n.Form))
	default:
		if other, ok := n.other(forms); ok {
			n.writeAs(b, other, forms)
			return
		}
		rest := n.Form
		for _, k := range n.Kids {
			before, after, _ := strings.Cut(rest, "$")
			b.WriteString(before)
			k.write(b, forms)
			rest = after
		}
		b.WriteString(rest)
	}
}

// leafAs is what stands in the place of a leaf: by its note, or by its kind if it is NULL.
func (n *Node) leafAs(forms map[string]string) (string, bool) {
	switch {
	case len(n.Kids) > 0 || n.gone:
		return "", false
	case n.Note != "":
		other, ok := forms[n.Note]
		return other, ok
	case n.Form == "NULL":
		other, ok := forms[kindNames[n.Kind]+" NULL"]
		return other, ok
	}
	return "", false
}

// other is what stands in the place of a form: for it, or for it with kids of these kinds, which
// are written before it.
func (n *Node) other(forms map[string]string) (string, bool) {
	if len(forms) == 0 {
		return "", false
	}
	if other, ok := forms[n.Form]; ok {
		return other, true
	}
	var kinds strings.Builder
	for _, k := range n.Kids {
		kinds.WriteString(kindNames[k.Kind] + " ")
	}
	other, ok := forms[kinds.String()+n.Form]
	return other, ok
}

// writeAs writes the kids in a form with $1, $2 and so on.
func (n *Node) writeAs(b *strings.Builder, form string, forms map[string]string) {
	for {
		before, after, ok := strings.Cut(form, "$")
		b.WriteString(before)
		if !ok {
			return
		}
		n.Kids[after[0]-'1'].write(b, forms)
		form = after[1:]
	}
}

// below calls fn with all nodes below n, the nearest first.
func (n *Node) below(fn func(*Node) bool) bool {
	level := n.Kids
	for len(level) > 0 {
		var next []*Node
		for _, k := range level {
			if k.gone {
				continue
			}
			if fn(k) {
				return true
			}
			next = append(next, k.Kids...)
		}
		level = next
	}
	return false
}
