package stats_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/stats"
)

// disk takes 100 bytes for each of its keys, which are in order.
type disk []base.Key

func (d disk) size(start, end base.Key) (int64, error) {
	at := func(k base.Key) int { return sort.Search(len(d), func(i int) bool { return d[i].Compare(k) >= 0 }) }
	return 100 * int64(max(0, at(end)-at(start))), nil
}

// keysOfKind are 20,000 keys in order, behind what all of them begin with.
func keysOfKind(kind string) (out disk) {
	r := rand.New(rand.NewPCG(1, 1))
	for i := range 20_000 {
		k := base.Key("prefix")
		switch kind {
		case "numbers":
			k = binary.BigEndian.AppendUint64(k, 1<<63+uint64(i))
		case "random":
			k = binary.BigEndian.AppendUint64(k, r.Uint64())
		case "texts":
			k = fmt.Appendf(k, "https://www.example.com/a/long/path/that/all/have/in/common/%d", i)
		case "two places": // half of them far from the others
			k = binary.BigEndian.AppendUint64(k, uint64(i)+uint64(i%2)<<60)
		}
		out = append(out, k)
	}
	slices.SortFunc(out, base.Key.Compare)
	return slices.CompactFunc(out, func(a, b base.Key) bool { return a.Compare(b) == 0 })
}

// TestPieces: pieces hold all keys, each once, and are about as large as was asked for; drawn parts
// have each key about as often as any other.
func TestPieces(t *testing.T) {
	for _, kind := range []string{"numbers", "random", "texts", "two places"} {
		t.Run(kind, func(t *testing.T) {
			d := keysOfKind(kind)
			span := base.Span{Start: base.Key("prefix"), End: base.Key("prefix").PrefixEnd()}
			const want = 5000
			calls := 0
			parts, err := stats.Pieces(span, want, func(a, b base.Key) (int64, error) {
				calls++
				return d.size(a, b)
			})
			if err != nil {
				t.Fatal(err)
			}
			sum, end := int64(0), base.Key(nil)
			for _, p := range parts {
				if n, _ := d.size(p.Start, p.End); n != p.Bytes || n > want || n == 0 {
					t.Errorf("a piece of %d bytes holds %d", p.Bytes, n)
				}
				if p.Start.Compare(end) < 0 {
					t.Error("pieces overlap")
				}
				sum, end = sum+p.Bytes, p.End
			}
			if sum != int64(100*len(d)) || len(parts) < 400 || calls > 6000 {
				t.Errorf("%d pieces hold %d bytes of %d, found with %d questions", len(parts), sum, 100*len(d), calls)
			}
			r := rand.New(rand.NewPCG(2, 2))
			low := 0
			for range 400 {
				p, err := stats.Piece{Span: span, Bytes: sum}.Narrow(want, d.size, r)
				if err != nil || p.Bytes > want || p.Bytes == 0 {
					t.Fatal(p, err)
				}
				if p.Start.Compare(d[len(d)/2]) < 0 {
					low++
				}
			}
			if low < 140 || low > 260 {
				t.Errorf("%d of 400 parts are of the lower half of the keys", low)
			}
		})
	}
	if p, err := stats.Pieces(base.Span{Start: base.Key("a"), End: base.Key("b")}, 10, disk(nil).size); p != nil || err != nil {
		t.Error(p, err)
	}
}
