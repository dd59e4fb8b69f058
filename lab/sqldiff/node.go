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
}

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
func (n *Node) String() string {
	var b strings.Builder
	n.write(&b)
	return b.String()
}

func (n *Node) write(b *strings.Builder) {
	switch {
	case n.gone:
	case n.List:
		for i, k := range n.Kids {
			if i > 0 {
				b.WriteString(n.Form)
			}
			k.write(b)
		}
	case len(n.Kids) == 0:
		b.WriteString(n.Form)
	default:
		rest := n.Form
		for _, k := range n.Kids {
			before, after, _ := strings.Cut(rest, "$")
			b.WriteString(before)
			k.write(b)
			rest = after
		}
		b.WriteString(rest)
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
