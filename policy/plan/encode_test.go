package plan

import (
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
)

// A plan that has travelled makes the same rounds.
func TestEncode(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for n := 1; n <= 14; n++ {
		f := &Facts{}
		for i := range n {
			row := make([]time.Duration, n)
			for j := range row {
				if i != j {
					row[j] = time.Duration(1+r.IntN(100)) * time.Millisecond
				}
			}
			f.Latency, f.Region, f.Uplink, f.Batch = append(f.Latency, row), append(f.Region, i/3),
				append(f.Uplink, 1e7), append(f.Batch, 10_000)
		}
		p, err := Make(f, Params{})
		if err != nil {
			t.Fatal(err)
		}
		q, err := Decode(p.Encode(), n)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(p.Groups, q.Groups) || !reflect.DeepEqual(p.Of, q.Of) ||
			len(p.Routes) != len(q.Routes) || !reflect.DeepEqual(p.Order, q.Order) || Rerun(f, p) != Rerun(f, q) ||
			p.Makespan != q.Makespan {
			t.Errorf("%d nodes: %v became %v", n, p, q)
		}
		if _, err := Decode(p.Encode(), n+1); err == nil {
			t.Errorf("a plan of %d nodes passes for one of %d", n, n+1)
		}
	}
	for _, bad := range []string{"", "{}", `{"groups":[{"Members":[7],"Aggregators":[7]}]}`,
		`{"groups":[{"Members":[0],"Aggregators":[0]}],"routes":[[0]]}`} {
		if p, err := Decode([]byte(bad), 1); err == nil {
			t.Errorf("%q is the plan %v", bad, p)
		}
	}
}

// Plans come from other nodes: any bytes are a plan that rounds can follow, or an error.
func FuzzDecode(f *testing.F) {
	const two = `{"groups":[{"Members":[0,1],"Aggregators":[0]},{"Members":[2],"Aggregators":[2]}]`
	for _, seed := range []string{"", "{}", "null", two + "}", two + `,"order":[[1],[0]],"routes":[[0,1,2]]}`,
		two + `,"order":[[7],[0]]}`, two + `,"order":[[1]]}`, two + `,"order":[[1,1],[0]]}`,
		two + `,"routes":[[0,1,9]]}`, two + `,"routes":[[-1,1,2]]}`, two + `,"makespan":-5}`} {
		f.Add([]byte(seed), byte(3))
	}
	facts := &Facts{}
	for i := range 3 {
		row := make([]time.Duration, 3)
		for j := range row {
			if i != j {
				row[j] = time.Duration(10+i+j) * time.Millisecond
			}
		}
		facts.Latency = append(facts.Latency, row)
	}
	f.Fuzz(func(t *testing.T, data []byte, n byte) {
		p, err := Decode(data, int(n))
		if err != nil {
			return
		}
		_ = p.String()
		for dead := range int(n) {
			if err := p.Without(func(i int) bool { return i == dead }).Check(int(n)); err != nil {
				t.Fatalf("%s without %d: %v", data, dead, err)
			}
		}
		for i := range p.Of {
			for _, g := range append(p.Order, nil)[min(p.Of[i], len(p.Order))] {
				_ = p.Groups[g].Aggregators[0]
			}
		}
		for k := range p.Routes {
			_, _ = p.Of[k[0]], p.Of[k[1]]
		}
		if n == 3 {
			Rerun(facts, p)
		}
	})
}
