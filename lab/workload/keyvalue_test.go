package workload

import (
	"context"
	"database/sql/driver"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestYCSBPart checks that readers never draw a key before its insert is decided.
func TestYCSBPart(t *testing.T) {
	p := &ycsbPart{next: 10, known: 10, done: map[int]bool{}}
	a, b, c := p.reserve(), p.reserve(), p.reserve()
	for _, step := range []struct{ settle, size int }{{c, 10}, {a, 11}, {b, 13}} {
		p.settle(step.settle)
		if p.size() != step.size {
			t.Errorf("after key %d the size is %d, want %d", step.settle, p.size(), step.size)
		}
	}
	if len(p.done) != 0 || p.reserve() != 13 {
		t.Errorf("left over: %v", p.done)
	}
}

// openYCSB opens a mix over two regions of 100 and 50 keys.
func openYCSB(t *testing.T, mix string, remote float64) *ycsb {
	t.Helper()
	y := &ycsb{opts: DefaultOptions().YCSB, seed: 1}
	y.opts.Mix, y.opts.Remote, y.opts.Fields = mix, remote, 2
	f := &fakeServer{answer: func(_ string, args []driver.NamedValue) (*fakeRows, error) {
		if args[0].Value == "user00" {
			return rowsOf([]driver.Value{[]byte(ycsbKey(0, 99))}), nil
		}
		return rowsOf([]driver.Value{[]byte(ycsbKey(1, 49))}), nil
	}}
	p := f.pool("a")
	defer closePools([]*pool{p})
	s := p.session(0)
	defer s.reset()
	if err := y.open(t.Context(), s, 2); err != nil {
		t.Fatal(err)
	}
	return y
}

func TestYCSBMixesAndKeys(t *testing.T) {
	for mix, shares := range ycsbMixes {
		y := openYCSB(t, mix, 0.2)
		c := y.client(1, 0, 1).(*ycsbClient)
		const n = 20_000
		seen, remote := make([]int, 5), 0
		for range n {
			tx := c.next()
			seen[tx.kind]++
			if tx.single == (tx.kind == ycsbRMW) {
				t.Fatalf("mix %s: kind %d, single %v", mix, tx.kind, tx.single)
			}
			if tx.done != nil {
				tx.done()
			}
			switch key := c.key(); {
			case key >= ycsbKey(1, 0) && key < ycsbKey(1, y.parts[1].size()):
			case key >= ycsbKey(0, 0) && key < ycsbKey(0, y.parts[0].size()):
				remote++
			default:
				t.Fatalf("mix %s: key %s", mix, key)
			}
		}
		for k, share := range shares {
			if d := seen[k] - n*share/100; d < -n/50 || d > n/50 {
				t.Errorf("mix %s: %d of %d are %s, want %d%%", mix, seen[k], n, ycsbKinds[k], share)
			}
		}
		if remote < n*15/100 || remote > n*25/100 {
			t.Errorf("mix %s: %d of %d keys are another region's, want 20%%", mix, remote, n)
		}
	}
}

// TestYCSBValuesAreUnique includes the loaded ones, whose tags have the top bit.
func TestYCSBValuesAreUnique(t *testing.T) {
	y, seen := openYCSB(t, "A", 0), map[string]bool{}
	for region := range 2 {
		for i := range 3 {
			c := y.client(region, i, 3).(*ycsbClient)
			for range 100 {
				v := c.value()
				if len(v) != 100 || seen[v[:ycsbTagLength]] || v[0] >= '8' {
					t.Fatalf("value %q", v)
				}
				seen[v[:ycsbTagLength]] = true
			}
		}
	}
}

// traced runs a transaction on a fake server and returns its statements with their arguments.
func traced(t *testing.T, tx txn, row []driver.Value) []string {
	t.Helper()
	var out []string
	f := &fakeServer{answer: func(q string, args []driver.NamedValue) (*fakeRows, error) {
		for _, a := range args {
			q += fmt.Sprintf(" %v", a.Value)
		}
		out = append(out, q)
		if strings.HasPrefix(q, "SELECT") {
			return rowsOf(row), nil
		}
		return nil, nil
	}}
	p := f.pool("a")
	defer closePools([]*pool{p})
	s := p.session(0)
	defer s.reset()
	if err := tx.run(context.Background(), s); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestYCSBT(t *testing.T) {
	o := DefaultOptions().YCSBT
	o.Ops, o.Cross, o.Span, o.Reads, o.Theta = 6, 0.5, 3, 0.4, 0.9
	y := &ycsbT{opts: o, seed: 1}
	var err error
	if y.keys, err = newKeyRanges(100, 4, o.Theta); err != nil {
		t.Fatal(err)
	}
	c := y.client(2, 0, 1).(*ycsbTClient)
	const n = 500
	cross, reads, writes := 0, 0, 0
	for range n {
		tx := c.next()
		regions, sum, last := map[int]bool{}, int64(0), -1
		for _, q := range traced(t, tx, []driver.Value{int64(0), int64(5), []byte("x")}) {
			var key, version int
			var val int64
			if _, err := fmt.Sscanf(q, "UPDATE ycsb_t SET val = ?, version = ? WHERE id = ? %d %d %d", &val, &version,
				&key); err == nil {
				sum += val
				writes++
				if key != last || version != 6 {
					t.Fatalf("%s after reading key %d", q, last)
				}
				continue
			}
			reads++
			if _, err := fmt.Sscanf(q[strings.LastIndexByte(q, ' '):], "%d", &key); err != nil || key <= last {
				t.Fatalf("%s after key %d", q, last)
			}
			last = key
			regions[key/25] = true
		}
		if sum != 0 {
			t.Fatalf("the economy is not closed: %d", sum)
		}
		want := 1
		if tx.kind == ycsbTCross {
			want = 3
			cross++
		}
		if len(regions) != want || !regions[2] {
			t.Fatalf("kind %d touches regions %v", tx.kind, regions)
		}
	}
	if cross < n*4/10 || cross > n*6/10 || reads != n*6 || writes < n*6*50/100 || writes > n*6*70/100 {
		t.Errorf("%d cross-region transactions, %d reads, %d writes", cross, reads, writes)
	}
}

func TestBankTransfers(t *testing.T) {
	b := &bank{opts: DefaultOptions().Bank, seed: 1, total: 1000}
	b.opts.Cross = 0.5
	var err error
	if b.keys, err = newKeyRanges(10, 2, 0); err != nil {
		t.Fatal(err)
	}
	c := b.client(1, 0, 1).(*bankClient)
	for range 200 {
		tx := c.next()
		qs := traced(t, tx, []driver.Value{int64(40)})
		if len(qs) != 4 {
			t.Fatalf("statements %v", qs)
		}
		var ids []int
		var sum int64
		for _, q := range qs[2:] {
			var balance int64
			var id int
			if _, err := fmt.Sscanf(q, "UPDATE accounts SET balance = ? WHERE id = ? %d %d", &balance,
				&id); err != nil || balance < 0 {
				t.Fatalf("%s: %v", q, err)
			}
			ids, sum = append(ids, id), sum+balance
		}
		if sum != 80 || !slices.IsSorted(ids) || ids[0] == ids[1] || (ids[0] < 5) != (tx.kind == bankCross) || ids[1] < 5 {
			t.Fatalf("kind %d: %v", tx.kind, qs)
		}
	}
	b.opts.Audits = 1
	tx := c.next()
	if got := traced(t, tx, []driver.Value{[]byte("1000")}); tx.kind != bankAudit || len(got) != 1 {
		t.Errorf("audit %v", got)
	}
}
