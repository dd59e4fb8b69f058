package lock

import (
	"bytes"

	"github.com/godwitdb/godwit/base"
)

// node is one span that somebody holds or waits for.
type node struct {
	span   base.Span
	grants []grant
	queue  []*Waiter

	pri         uint64
	left, right *node
	reach       *node // the node of this subtree whose span ends last
}

// compareSpans orders by start, points before ranges, then by end.
func compareSpans(a, b base.Span) int {
	if c := bytes.Compare(a.Start, b.Start); c != 0 {
		return c
	}
	switch {
	case a.End == nil && b.End == nil:
		return 0
	case a.End == nil:
		return -1
	case b.End == nil:
		return 1
	}
	return bytes.Compare(a.End, b.End)
}

// endsAfter reports whether a's last key may lie behind b's: a point ends right
// after its key.
func endsAfter(a, b base.Span) bool {
	switch {
	case a.End == nil && b.End == nil:
		return bytes.Compare(a.Start, b.Start) > 0
	case a.End == nil:
		return bytes.Compare(a.Start, b.End) >= 0
	case b.End == nil:
		return bytes.Compare(a.End, b.Start) > 0
	}
	return bytes.Compare(a.End, b.End) > 0
}

// endsBefore reports whether s lies wholly before key.
func endsBefore(s base.Span, key base.Key) bool {
	if s.End == nil {
		return bytes.Compare(s.Start, key) < 0
	}
	return bytes.Compare(s.End, key) <= 0
}

// tree is a treap of nodes by span, each knowing how far its subtree reaches.
// Priorities come from a fixed sequence, so equal calls build equal trees.
type tree struct {
	root *node
	rng  uint64
}

func (n *node) fix() {
	n.reach = n
	for _, c := range [2]*node{n.left, n.right} {
		if c != nil && endsAfter(c.reach.span, n.reach.span) {
			n.reach = c.reach
		}
	}
}

func (t *tree) insert(n *node) {
	t.rng += 0x9e3779b97f4a7c15 // splitmix64
	z := t.rng
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	n.pri = z ^ z>>31
	n.left, n.right = nil, nil
	t.root = insert(t.root, n)
}

func insert(h, n *node) *node {
	if h == nil {
		n.fix()
		return n
	}
	if n.pri > h.pri {
		n.left, n.right = split(h, n.span)
		n.fix()
		return n
	}
	if compareSpans(n.span, h.span) < 0 {
		h.left = insert(h.left, n)
	} else {
		h.right = insert(h.right, n)
	}
	if endsAfter(n.span, h.reach.span) { // nothing else has come
		h.reach = n
	}
	return h
}

// split divides h into the nodes before and behind span, which is not in h.
func split(h *node, span base.Span) (l, r *node) {
	if h == nil {
		return nil, nil
	}
	if compareSpans(h.span, span) < 0 {
		h.right, r = split(h.right, span)
		h.fix()
		return h, r
	}
	l, h.left = split(h.left, span)
	h.fix()
	return l, h
}

func merge(l, r *node) *node {
	switch {
	case l == nil:
		return r
	case r == nil:
		return l
	case l.pri > r.pri:
		l.right = merge(l.right, r)
		l.fix()
		return l
	}
	r.left = merge(l, r.left)
	r.fix()
	return r
}

func (t *tree) delete(n *node) { t.root = remove1(t.root, n) }

func remove1(h, n *node) *node {
	if h == n {
		return merge(h.left, h.right)
	}
	if h == nil {
		return nil
	}
	if compareSpans(n.span, h.span) < 0 {
		h.left = remove1(h.left, n)
	} else {
		h.right = remove1(h.right, n)
	}
	if h.reach == n { // nothing else has gone
		h.fix()
	}
	return h
}

func (t *tree) find(s base.Span) *node {
	for h := t.root; h != nil; {
		switch c := compareSpans(s, h.span); {
		case c == 0:
			return h
		case c < 0:
			h = h.left
		default:
			h = h.right
		}
	}
	return nil
}

// overlapping calls fn for each node that shares a key with s, in order, until fn returns false.
func (t *tree) overlapping(s base.Span, fn func(*node) bool) { visit(t.root, s, fn) }

func visit(h *node, s base.Span, fn func(*node) bool) bool {
	if h == nil || endsBefore(h.reach.span, s.Start) {
		return true
	}
	if !visit(h.left, s, fn) {
		return false
	}
	if s.End == nil {
		if bytes.Compare(h.span.Start, s.Start) > 0 {
			return true
		}
	} else if bytes.Compare(h.span.Start, s.End) >= 0 {
		return true
	}
	if h.span.Overlaps(s) && !fn(h) {
		return false
	}
	return visit(h.right, s, fn)
}

func (t *tree) all(fn func(*node) bool) { walk(t.root, fn) }

func walk(h *node, fn func(*node) bool) bool {
	return h == nil || walk(h.left, fn) && fn(h) && walk(h.right, fn)
}

// find is the node of exactly this span; nil if there is none.
func (t *Table) find(s base.Span) *node {
	if s.IsPoint() {
		return t.points[string(s.Start)]
	}
	return t.tree.find(s)
}

func (t *Table) insert(s base.Span) *node {
	n := &node{span: s}
	t.tree.insert(n)
	if s.IsPoint() {
		t.points[string(s.Start)] = n
	} else {
		t.ranges++
	}
	return n
}

// drop removes a node that nobody holds or waits for.
func (t *Table) drop(n *node) {
	if len(n.grants) > 0 || len(n.queue) > 0 {
		return
	}
	t.tree.delete(n)
	if n.span.IsPoint() {
		delete(t.points, string(n.span.Start))
	} else {
		t.ranges--
	}
}

// overlapping visits the nodes that share a key with s; n is the node of s
// itself if there is one. A point needs no search while no range is locked.
func (t *Table) overlapping(s base.Span, n *node, fn func(*node) bool) {
	if s.IsPoint() && t.ranges == 0 {
		if n == nil {
			n = t.points[string(s.Start)]
		}
		if n != nil {
			fn(n)
		}
		return
	}
	t.tree.overlapping(s, fn)
}
