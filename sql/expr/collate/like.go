package collate

import (
	"strings"
	"unicode/utf8"
)

// Like is a pattern of LIKE, made ready for many strings.
type Like struct {
	c    *Collator
	toks []token
	// Simple patterns have a part before the only % and a part after it, or one part between two.
	prefix, suffix, inner string
	kind                  likeKind
}

type likeKind uint8

const (
	likeGeneral  likeKind = iota
	likeEqual             // no wildcard
	likeAffix             // prefix%suffix
	likeContains          // %inner%
)

const (
	anyOne  = -1 // _
	anyMany = -2 // %
)

// token is the weight of a character, or a wildcard.
type token = int32

// NewLike prepares a pattern. The character escape (0: none) takes the meaning from the one after
// it.
func (c *Collator) NewLike(pattern string, escape rune) *Like {
	l := &Like{c: c}
	var parts []string
	var part strings.Builder
	special := false
	for len(pattern) > 0 {
		r, n := c.decode(pattern)
		lit := pattern[:n]
		pattern = pattern[n:]
		switch {
		case r == escape && escape != 0 && len(pattern) > 0:
			_, n := c.decode(pattern)
			lit = pattern[:n]
			pattern = pattern[n:]
		case r == '%':
			if k := len(l.toks); k == 0 || l.toks[k-1] != anyMany {
				l.toks = append(l.toks, anyMany)
				parts = append(parts, part.String())
				part.Reset()
			}
			continue
		case r == '_':
			l.toks = append(l.toks, anyOne)
			special = true
			continue
		}
		w, _ := c.next(lit)
		l.toks = append(l.toks, w)
		part.WriteString(lit)
	}
	parts = append(parts, part.String())
	l.simplify(parts, special)
	return l
}

func (c *Collator) decode(s string) (rune, int) {
	if c.bytes {
		return rune(s[0]), 1
	}
	return utf8.DecodeRuneInString(s)
}

// simplify finds the patterns that need no search with steps back.
func (l *Like) simplify(parts []string, special bool) {
	switch {
	case special:
	case len(parts) == 1:
		l.kind, l.prefix = likeEqual, parts[0]
	case len(parts) == 2:
		l.kind, l.prefix, l.suffix = likeAffix, parts[0], parts[1]
	case len(parts) == 3 && parts[0] == "" && parts[2] == "":
		l.kind, l.inner = likeContains, parts[1]
	}
}

// Match reports whether a string fits the pattern. It may take time that grows with the product of
// the lengths: ask is called now and then, and its error is returned.
func (l *Like) Match(s string, ask func() error) (bool, error) {
	switch {
	case l.kind == likeContains:
		return l.contains(s, ask)
	case l.kind == likeGeneral || !l.c.Binary:
		return l.search(s, &asking{ask, stepsBetween})
	case l.kind == likeEqual:
		return s == l.prefix, nil
	}
	return len(s) >= len(l.prefix)+len(l.suffix) && strings.HasPrefix(s, l.prefix) && strings.HasSuffix(s, l.suffix), nil
}

// contains looks for what stands between two %.
func (l *Like) contains(s string, ask func() error) (bool, error) {
	find := l.c.indexAlone
	if l.c.Binary {
		find = l.c.Index
	}
	at, _, err := find(s, l.inner, 0, ask)
	return at >= 0, err
}

// search goes through the pattern; on a mismatch the last % takes one more character.
func (l *Like) search(s string, a *asking) (bool, error) {
	toks := l.toks
	retry := -1 // the token after the last %
	var from string
	i := 0
	for {
		if err := a.step(); err != nil {
			return false, err
		}
		switch {
		case i < len(toks) && toks[i] == anyMany:
			if i+1 == len(toks) {
				return true, nil
			}
			i++
			retry, from = i, s
			continue
		case s == "" && i == len(toks):
			return true, nil
		case s != "" && i < len(toks):
			w, rest := l.c.next(s)
			if toks[i] == anyOne || toks[i] == w {
				s = rest
				i++
				continue
			}
		}
		if retry < 0 || from == "" {
			return false, nil
		}
		_, from = l.c.next(from)
		s, i = from, retry
	}
}
