package writes

import (
	"bytes"
	"hash/maphash"

	"github.com/godwitdb/godwit/base"
)

// bounds are the first and the last key of each section of a run: rows that are written in the
// order of their keys lie outside those of all earlier runs.
type bounds struct {
	sections []extent
	many     bool // there are too many
}

type extent struct{ section, first, last base.Key }

// add takes a key that is not below the last one.
func (b *bounds) add(key base.Key) {
	if n := len(b.sections); n > 0 && bytes.HasPrefix(key, b.sections[n-1].section) {
		b.sections[n-1].last = key
		return
	}
	if b.many = b.many || len(b.sections) == maxSections; !b.many {
		b.sections = append(b.sections, extent{key.Section().Clone(), key.Clone(), key})
	}
}

// keep copies what add only refers to.
func (b *bounds) keep() {
	for i := range b.sections {
		b.sections[i].last = b.sections[i].last.Clone()
	}
}

// has reports whether a key may be in the run.
func (b *bounds) has(key base.Key) bool {
	if b.many {
		return true
	}
	for i := range b.sections {
		if s := &b.sections[i]; s.first.Compare(key) <= 0 && key.Compare(s.last) <= 0 {
			return true
		}
	}
	return false
}

// filter says which keys are certainly not in a run. A wrong guess costs a block that is read and
// decoded, so it is to be rarer than in the tables of a store: about 1 of 500. All bits of a key
// are in one line of the processor's cache.
type filter struct {
	seed  maphash.Seed
	lines [][lineWords]uint64
}

const (
	bitsAKey  = 16
	probes    = 6
	lineWords = 8
	lineBits  = 64 * lineWords
)

func newFilter(keys int) filter {
	return filter{maphash.MakeSeed(), make([][lineWords]uint64, keys*bitsAKey/lineBits+1)}
}

// line is where the bits of a key are, and a number that says which ones.
func (f *filter) line(key base.Key) (line *[lineWords]uint64, h uint64) {
	h = maphash.Bytes(f.seed, key)
	return &f.lines[(h>>32)*uint64(len(f.lines))>>32], h * 0x9e3779b97f4a7c15
}

func (f *filter) add(key base.Key) {
	line, h := f.line(key)
	for range probes {
		line[h>>6%lineWords] |= 1 << (h % 64)
		h >>= 9
	}
}

func (f *filter) has(key base.Key) bool {
	line, h := f.line(key)
	for range probes {
		if line[h>>6%lineWords]&(1<<(h%64)) == 0 {
			return false
		}
		h >>= 9
	}
	return true
}
