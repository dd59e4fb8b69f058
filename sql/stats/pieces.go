package stats

import (
	"math/rand/v2"

	"github.com/godwitdb/godwit/base"
)

// Piece is a part of a span of keys, and what it takes on disk.
type Piece struct {
	base.Span
	Bytes int64
}

// mostHalvings is how often a span is halved at most: keys may have a long beginning in common, of
// which a halving finds one bit.
const mostHalvings = 1024

// Pieces parts a span into pieces that take about so many bytes, in order. What takes nothing is
// left out. Keys are halved as numbers are, whatever they stand for. size may be an estimate.
func Pieces(span base.Span, want int64, size func(start, end base.Key) (int64, error)) ([]Piece, error) {
	total, err := size(span.Start, span.End)
	if err != nil || total <= 0 {
		return nil, err
	}
	var out []Piece
	var part func(p Piece, depth int) error
	part = func(p Piece, depth int) error {
		at := middle(p.Start, p.End)
		if p.Bytes <= want || depth == mostHalvings || at == nil {
			out = append(out, p)
			return nil
		}
		for _, half := range []base.Span{{Start: p.Start, End: at}, {Start: at, End: p.End}} {
			n, err := size(half.Start, half.End)
			if err != nil {
				return err
			}
			if n > 0 {
				if err := part(Piece{half, n}, depth+1); err != nil {
					return err
				}
			}
		}
		return nil
	}
	err = part(Piece{span, total}, 0)
	return out, err
}

// Narrow is a part of the piece that takes about so many bytes, drawn so that each byte is as
// likely as any other to be in it.
func (p Piece) Narrow(want int64, size func(start, end base.Key) (int64, error), r *rand.Rand) (Piece, error) {
	for range mostHalvings {
		at := middle(p.Start, p.End)
		if p.Bytes <= want || at == nil {
			break
		}
		left, err := size(p.Start, at)
		if err != nil {
			return p, err
		}
		right, err := size(at, p.End)
		if err != nil {
			return p, err
		}
		if left+right <= 0 {
			break // it was compacted meanwhile
		}
		if r.Int64N(left+right) < left {
			p = Piece{base.Span{Start: p.Start, End: at}, left}
		} else {
			p = Piece{base.Span{Start: at, End: p.End}, right}
		}
	}
	return p, nil
}

// middle is a key between two, about half-way; nil: there is none of a sensible length. A key
// counts as a binary fraction.
func middle(lo, hi base.Key) base.Key {
	const digits = 8 // behind what both have in common
	same := 0
	for same < len(lo) && same < len(hi) && lo[same] == hi[same] {
		same++
	}
	n := same + digits
	at := func(k base.Key, i int) int {
		if i < len(k) {
			return int(k[i])
		}
		return 0
	}
	out := make(base.Key, n)
	carry := 0
	for i := n - 1; i >= 0; i-- { // the sum
		s := at(lo, i) + at(hi, i) + carry
		out[i], carry = byte(s), s>>8
	}
	for i := range out { // its half
		d := carry<<8 | int(out[i])
		out[i], carry = byte(d>>1), d&1
	}
	if base.Key(out).Compare(lo) <= 0 || base.Key(out).Compare(hi) >= 0 {
		return nil
	}
	return out
}
