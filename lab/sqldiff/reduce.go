package sqldiff

// constants are what an expression of a kind may be replaced by.
var constants = map[Kind][]string{
	Int: {"NULL", "1", "0"}, Decimal: {"NULL", "1.5"}, Double: {"NULL", "1e0"}, Text: {"NULL", "'a'", "''"},
	Date:     {"NULL", "DATE'2024-01-31'"},
	Datetime: {"NULL", "TIMESTAMP'2024-01-31 12:00:00'"}, Time: {"NULL", "TIME'10:00:00'"}, Bool: {"TRUE", "FALSE", "NULL"},
}

// Reduce makes a statement smaller as long as it still differs, by at most so many tries. It
// changes the tree.
func Reduce(root *Node, tries int, differs func(sql string) bool) *Node {
	r := &reducer{root: root, tries: tries, differs: differs}
	for r.pass(root) && r.tries > 0 {
	}
	return r.root
}

type reducer struct {
	root    *Node
	tries   int
	differs func(string) bool
}

// try reports whether the statement as it is now still differs.
func (r *reducer) try() bool {
	if r.tries <= 0 {
		return false
	}
	r.tries--
	return r.differs(r.root.String())
}

// pass tries everything at n, then below it.
func (r *reducer) pass(n *Node) (smaller bool) {
	if n.gone {
		return false
	}
	if n.Opt {
		if n.gone = true; r.try() {
			return true
		}
		n.gone = false
	}
	smaller = r.shorten(n) || r.replace(n)
	for _, k := range n.Kids {
		smaller = r.pass(k) || smaller
	}
	return smaller
}

// shorten leaves out members of a list.
func (r *reducer) shorten(n *Node) (smaller bool) {
	if !n.List {
		return false
	}
	for i := 0; i < len(n.Kids) && len(n.Kids) > n.Min; {
		all := n.Kids
		n.Kids = append(append([]*Node(nil), all[:i]...), all[i+1:]...)
		if r.try() {
			smaller = true
			continue
		}
		n.Kids = all
		i++
	}
	return smaller
}

// replace puts a constant, or a node below of the same kind, in the place of n.
func (r *reducer) replace(n *Node) bool {
	if n.Kind == Other || n.List {
		return false
	}
	was := *n
	if len(n.Kids) > 0 {
		if was.below(func(k *Node) bool {
			if k.Kind != was.Kind || k.List {
				return false
			}
			to := *k
			to.Opt = was.Opt
			*n = to
			if r.try() {
				return true
			}
			*n = was
			return false
		}) {
			return true
		}
	}
	if len(n.Kids) == 0 && !column(n) {
		return false
	}
	for _, c := range constants[n.Kind] {
		if *n = (Node{Kind: was.Kind, Form: c, Opt: was.Opt}); r.try() {
			return true
		}
	}
	*n = was
	return false
}

// column reports whether a leaf names a column.
func column(n *Node) bool {
	return n.Form != "" && (n.Form[0] >= 'a' && n.Form[0] <= 'z' || n.Form[0] == '`')
}
