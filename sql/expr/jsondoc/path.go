package jsondoc

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Path leads to parts of a document.
type Path struct {
	legs []leg
	// Many: it has a wildcard or a range, and may lead to several parts.
	Many bool
}

type legKind uint8

const (
	member     legKind = iota // .key
	anyMember                 // .*
	cell                      // [n], [last-n]
	cells                     // [n to m]
	anyCell                   // [*]
	descendant                // **
)

// leg is a step of a path. Of cells, lo and hi count from the end if last says so.
type leg struct {
	kind           legKind
	key            string
	lo, hi         int
	loLast, hiLast bool
}

// PathError is a path that cannot be read, up to a position.
type PathError struct{ At int }

// Error implements error.
func (e *PathError) Error() string {
	return fmt.Sprintf("Invalid JSON path expression. The error is around character position %d.", e.At)
}

type pathParser struct {
	s  string
	at int
}

// ParsePath reads a path.
func ParsePath(s string) (*Path, error) {
	p := &pathParser{s: s}
	p.space()
	if !p.take("$") {
		return nil, &PathError{1}
	}
	out := &Path{}
	for {
		p.space()
		if p.at >= len(p.s) {
			if n := len(out.legs); n > 0 && out.legs[n-1].kind == descendant {
				return nil, &PathError{len(s)}
			}
			return out, nil
		}
		l, ok := p.leg()
		if !ok {
			return nil, &PathError{p.at}
		}
		out.Many = out.Many || l.kind != member && l.kind != cell
		out.legs = append(out.legs, l)
	}
}

func (p *pathParser) space() {
	for p.at < len(p.s) && strings.IndexByte(" \t\r\n", p.s[p.at]) >= 0 {
		p.at++
	}
}

func (p *pathParser) take(s string) bool {
	if !strings.HasPrefix(p.s[p.at:], s) {
		return false
	}
	p.at += len(s)
	return true
}

func (p *pathParser) leg() (l leg, ok bool) {
	switch {
	case p.take("**"):
		l.kind = descendant
		return l, !strings.HasPrefix(p.s[p.at:], "*")
	case p.take("."):
		p.space()
		if p.take("*") {
			l.kind = anyMember
			return l, true
		}
		l.key, ok = p.name()
		return l, ok
	case p.take("["):
		p.space()
		if p.take("*") {
			l.kind = anyCell
		} else if ok = p.cells(&l); !ok {
			return l, false
		}
		p.space()
		return l, p.take("]")
	}
	return l, false
}

// name reads a key, in quotation marks or as an identifier.
func (p *pathParser) name() (string, bool) {
	if p.at < len(p.s) && p.s[p.at] == '"' {
		end := p.at + 1
		for end < len(p.s) && p.s[end] != '"' {
			if p.s[end] == '\\' {
				end++
			}
			end++
		}
		if end >= len(p.s) {
			return "", false
		}
		v, err := Parse(p.s[p.at:end+1], nil)
		s, ok := v.(string)
		p.at = end + 1
		return s, ok && err == nil
	}
	start := p.at
	for p.at < len(p.s) && (p.s[p.at] >= 0x80 || p.s[p.at] == '_' || p.s[p.at] == '$' || isAlnum(p.s[p.at])) {
		p.at++
	}
	return p.s[start:p.at], p.at > start && (p.s[start] < '0' || p.s[start] > '9')
}

func isAlnum(c byte) bool {
	return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z'
}

func (p *pathParser) cells(l *leg) (ok bool) {
	l.kind = cell
	if l.lo, l.loLast, ok = p.index(); !ok {
		return false
	}
	p.space()
	if !p.take("to") {
		return true
	}
	p.space()
	l.kind = cells
	l.hi, l.hiLast, ok = p.index()
	return ok
}

// index reads n, last or last - n.
func (p *pathParser) index() (n int, last, ok bool) {
	if p.take("last") {
		p.space()
		if !p.take("-") {
			return 0, true, true
		}
		p.space()
		n, ok = p.digits()
		return n, true, ok
	}
	n, ok = p.digits()
	return n, false, ok
}

func (p *pathParser) digits() (int, bool) {
	start := p.at
	for p.at < len(p.s) && p.s[p.at] >= '0' && p.s[p.at] <= '9' {
		p.at++
	}
	n, err := strconv.Atoi(p.s[start:p.at])
	return n, err == nil && n <= 1<<31
}

// Whole reports whether the path is the document itself.
func (p *Path) Whole() bool { return len(p.legs) == 0 }

func at(n int, last bool, length int) int {
	if last {
		return length - 1 - n
	}
	return n
}

// Find are the parts of a document that the path leads to, in order.
func (p *Path) Find(doc any) (out []any) {
	for _, x := range p.parts(&doc, false) {
		out = append(out, *x.v)
	}
	return out
}

// Walk calls f with the paths to the parts of a document that the path leads to.
func (p *Path) Walk(doc any, f func(path string)) {
	for _, x := range p.parts(&doc, true) {
		f(x.path)
	}
}

// part is a part of a document; path is how to come to it, if that is asked for.
type part struct {
	v    *any
	path string
}

// parts goes through the steps of the path. A part that several ways lead to is kept once: with
// each ** there would be more of them, many times as many as the document has.
func (p *Path) parts(doc *any, named bool) []part {
	found := []part{{doc, "$"}}
	for i, l := range p.legs {
		w := walker{leg: l, named: named}
		for _, x := range found {
			w.from(x)
		}
		if found = w.out; l.kind == descendant && i > 0 {
			found = distinct(found)
		}
	}
	return found
}

// distinct leaves out what was found before.
func distinct(all []part) []part {
	seen := map[*any]bool{}
	return slices.DeleteFunc(all, func(x part) bool {
		again := seen[x.v]
		seen[x.v] = true
		return again
	})
}

// walker gathers the parts that one step leads to.
type walker struct {
	leg
	named bool
	out   []part
}

func (w *walker) add(from part, v *any, step func() string) {
	x := part{v: v}
	if w.named {
		x.path = from.path + step()
	}
	w.out = append(w.out, x)
}

func (w *walker) member(from part, o *Object, i int) {
	w.add(from, &o.Vals[i], func() string { return step(o.Keys[i]) })
}

func (w *walker) cell(from part, a []any, i int) {
	w.add(from, &a[i], func() string { return "[" + strconv.Itoa(i) + "]" })
}

// from takes the step from a part.
func (w *walker) from(x part) {
	o, object := (*x.v).(*Object)
	a, array := (*x.v).([]any)
	switch w.kind {
	case member:
		if object {
			if i, ok := o.find(w.key); ok {
				w.member(x, o, i)
			}
		}
	case anyMember:
		if object {
			for i := range o.Vals {
				w.member(x, o, i)
			}
		}
	case descendant:
		w.below(x)
	case anyCell:
		for i := range a {
			w.cell(x, a, i)
		}
	default:
		w.cells(x, a, array)
	}
}

// cells takes a step to one cell, or a range of them. A value that is no array is its own only
// cell.
func (w *walker) cells(x part, a []any, array bool) {
	n := len(a)
	if !array {
		n = 1
	}
	lo := at(w.lo, w.loLast, n)
	hi := lo
	if w.kind == cells {
		lo, hi = max(lo, 0), min(at(w.hi, w.hiLast, n), n-1)
	}
	for i := lo; i >= 0 && i <= hi && i < n; i++ {
		if array {
			w.cell(x, a, i)
		} else {
			w.out = append(w.out, x)
		}
	}
}

// below adds a value and all below it.
func (w *walker) below(x part) {
	w.out = append(w.out, x)
	down := walker{named: w.named}
	switch v := (*x.v).(type) {
	case []any:
		for i := range v {
			down.cell(x, v, i)
		}
	case *Object:
		for i := range v.Vals {
			down.member(x, v, i)
		}
	}
	for _, c := range down.out {
		w.below(c)
	}
}

// Change says what becomes of a part of a document: there says whether there is one. With keep
// false it goes.
type Change func(old any, there bool) (v any, keep bool)

// Edit changes the part that a path without wildcards leads to. What does not lie in the document
// is added to it if the change makes it: a member, or a cell behind the last one.
func (p *Path) Edit(doc any, f Change) any {
	v, _ := edit(doc, true, p.legs, f)
	return v
}

func edit(doc any, there bool, legs []leg, f Change) (any, bool) {
	if len(legs) == 0 {
		return f(doc, there)
	}
	l := legs[0]
	if l.kind == member {
		o, ok := doc.(*Object)
		if !ok {
			return doc, true
		}
		old, has := o.Get(l.key)
		if !has && len(legs) > 1 {
			return doc, true
		}
		v, keep := edit(old, has, legs[1:], f)
		switch {
		case keep:
			o.Set(l.key, v)
		case has:
			o.Delete(l.key)
		}
		return o, true
	}
	a, array := doc.([]any)
	if !array {
		return editScalar(doc, l, legs, f)
	}
	i := at(l.lo, l.loLast, len(a))
	switch {
	case i >= 0 && i < len(a):
		v, keep := edit(a[i], true, legs[1:], f)
		if keep {
			a[i] = v
			return a, true
		}
		return append(a[:i:i], a[i+1:]...), true
	case len(legs) > 1:
		return a, true
	}
	v, keep := f(nil, false)
	if !keep {
		return a, true
	}
	if i < 0 {
		return append([]any{v}, a...), true
	}
	return append(a, v), true
}

// editScalar changes what is no array by a path to a cell: it is the only one.
func editScalar(doc any, l leg, legs []leg, f Change) (any, bool) {
	i := at(l.lo, l.loLast, 1)
	if i == 0 {
		v, keep := edit(doc, true, legs[1:], f)
		if !keep {
			return doc, true
		}
		return v, true
	}
	if len(legs) > 1 {
		return doc, true
	}
	v, keep := f(nil, false)
	switch {
	case !keep:
		return doc, true
	case i < 0:
		return []any{v, doc}, true
	}
	return []any{doc, v}, true
}

// Insert puts a value before the cell that a path leads to.
func (p *Path) Insert(doc, v any) (any, bool) {
	n := len(p.legs)
	if n == 0 || p.legs[n-1].kind != cell {
		return doc, false
	}
	l := p.legs[n-1]
	parent := &Path{legs: p.legs[:n-1]}
	return parent.Edit(doc, func(old any, there bool) (any, bool) {
		a, ok := old.([]any)
		if !there || !ok {
			return old, there
		}
		i := max(0, min(at(l.lo, l.loLast, len(a)), len(a)))
		return append(append(append([]any(nil), a[:i]...), v), a[i:]...), true
	}), true
}

// Depth is how deep a document is nested.
func Depth(v any) int {
	n := 0
	switch v := v.(type) {
	case []any:
		for _, x := range v {
			n = max(n, Depth(x))
		}
	case *Object:
		for _, x := range v.Vals {
			n = max(n, Depth(x))
		}
	}
	return n + 1
}

// Contains reports whether a candidate is contained in a document.
func Contains(doc, candidate any) bool {
	switch d := doc.(type) {
	case []any:
		if c, ok := candidate.([]any); ok {
			for _, x := range c {
				if !Contains(doc, x) {
					return false
				}
			}
			return true
		}
		for _, x := range d {
			if Contains(x, candidate) {
				return true
			}
		}
		return false
	case *Object:
		c, ok := candidate.(*Object)
		if !ok {
			return false
		}
		for i, k := range c.Keys {
			x, has := d.Get(k)
			if !has || !Contains(x, c.Vals[i]) {
				return false
			}
		}
		return true
	}
	return rank(doc) == rank(candidate) && Compare(doc, candidate) == 0
}

// Overlaps reports whether two documents have a member or a cell in common.
func Overlaps(a, b any) bool {
	x, array := a.([]any)
	y, array2 := b.([]any)
	o, object := a.(*Object)
	q, object2 := b.(*Object)
	switch {
	case array || array2:
		if !array {
			x = []any{a}
		}
		if !array2 {
			y = []any{b}
		}
		for _, v := range x {
			for _, w := range y {
				if rank(v) == rank(w) && Compare(v, w) == 0 {
					return true
				}
			}
		}
		return false
	case object && object2:
		for i, k := range o.Keys {
			if v, ok := q.Get(k); ok && Compare(v, o.Vals[i]) == 0 {
				return true
			}
		}
		return false
	}
	return rank(a) == rank(b) && Compare(a, b) == 0
}

// MergePatch is a document with the members of another one, as RFC 7396 has it.
func MergePatch(doc, patch any) any {
	p, ok := patch.(*Object)
	if !ok {
		return patch
	}
	out := &Object{}
	if d, ok := doc.(*Object); ok {
		for i, k := range d.Keys {
			out.Set(k, d.Vals[i])
		}
	}
	for i, k := range p.Keys {
		if p.Vals[i] == nil {
			out.Delete(k)
			continue
		}
		old, _ := out.Get(k)
		out.Set(k, MergePatch(old, p.Vals[i]))
	}
	return out
}

// MergePreserve is two documents with all that both have.
func MergePreserve(a, b any) any {
	x, ok := a.(*Object)
	y, ok2 := b.(*Object)
	if ok && ok2 {
		out := &Object{}
		for i, k := range x.Keys {
			out.Set(k, x.Vals[i])
		}
		for i, k := range y.Keys {
			if old, has := out.Get(k); has {
				out.Set(k, MergePreserve(old, y.Vals[i]))
			} else {
				out.Set(k, y.Vals[i])
			}
		}
		return out
	}
	return append(append([]any(nil), cellsOf(a)...), cellsOf(b)...)
}

func cellsOf(v any) []any {
	if a, ok := v.([]any); ok {
		return a
	}
	return []any{v}
}

// Pretty is a document on several lines.
func Pretty(v any) string { return string(pretty(nil, v, 0)) }

func pretty(b []byte, v any, depth int) []byte {
	line := func(b []byte, n int) []byte {
		return append(append(b, '\n'), strings.Repeat("  ", n)...)
	}
	switch v := v.(type) {
	case []any:
		if len(v) == 0 {
			return append(b, "[]"...)
		}
		b = append(b, '[')
		for i, x := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = pretty(line(b, depth+1), x, depth+1)
		}
		return append(line(b, depth), ']')
	case *Object:
		if len(v.Keys) == 0 {
			return append(b, "{}"...)
		}
		b = append(b, '{')
		for i, k := range v.Keys {
			if i > 0 {
				b = append(b, ',')
			}
			b = pretty(append(AppendQuoted(line(b, depth+1), k), ": "...), v.Vals[i], depth+1)
		}
		return append(line(b, depth), '}')
	}
	return Append(b, v)
}

// step is the text of a step to a member.
func step(key string) string {
	p := &pathParser{s: key}
	if name, ok := p.name(); ok && name == key && key[0] != '"' {
		return "." + key
	}
	return "." + string(AppendQuoted(nil, key))
}

// Texts calls f with the texts in a document, and the paths to them, until it returns false.
func Texts(v any, f func(path, text string) bool) { texts("$", v, f) }

func texts(path string, v any, f func(path, text string) bool) bool {
	switch v := v.(type) {
	case string:
		return f(path, v)
	case []any:
		for i, x := range v {
			if !texts(path+"["+strconv.Itoa(i)+"]", x, f) {
				return false
			}
		}
	case *Object:
		for i, k := range v.Keys {
			if !texts(path+step(k), v.Vals[i], f) {
				return false
			}
		}
	}
	return true
}

// Search is JSON_SEARCH: the path to the first text of a document that fits, or an array of those
// to all of them; ok is false if there is none. With paths, what counts is what they lead to, with
// what is below. An error of fits ends the search.
func Search(doc any, paths []*Path, all bool, fits func(text string) (bool, error)) (v any, ok bool, err error) {
	allowed := map[string]bool{}
	for _, p := range paths {
		p.Walk(doc, func(path string) { allowed[path] = true })
	}
	var out []any
	Texts(doc, func(path, s string) bool {
		var found bool
		if found, err = fits(s); err != nil {
			return false
		}
		if found && (len(paths) == 0 || below(allowed, path)) {
			out = append(out, path)
		}
		return all || len(out) == 0
	})
	switch {
	case err != nil || len(out) == 0:
		return nil, false, err
	case len(out) == 1:
		return out[0], true, nil
	}
	return out, true, nil
}

// below reports whether a path leads to one of the parts, or into one.
func below(parts map[string]bool, path string) bool {
	for p := range parts {
		if path == p || strings.HasPrefix(path, p+".") || strings.HasPrefix(path, p+"[") {
			return true
		}
	}
	return false
}
