package moments

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/sql/statements"
)

func moment(at int, size int) Moment {
	return Moment{At: time.Unix(int64(at), 0), State: json.RawMessage(`"` + strings.Repeat("x", size-2) + `"`)}
}

func times(r *Ring) (out []int64) {
	for _, m := range r.All() {
		out = append(out, m.At.Unix())
	}
	return out
}

// TestRingIsBounded: no moment is older than an hour, all take no more than they may, and if they
// are large the hour stays whole.
func TestRingIsBounded(t *testing.T) {
	var small, large Ring
	every := int(Every / time.Second)
	for i := range 1000 {
		small.Add(moment(i*every, 1000))
		large.Add(moment(i*every, 20_000))
		for _, r := range []*Ring{&small, &large} {
			at, sum := times(r), 0
			for _, m := range r.All() {
				sum += len(m.State)
			}
			if sum > mostBytes || sum != r.bytes || at[len(at)-1]-at[0] > int64(Kept/time.Second) || !slices.IsSorted(at) {
				t.Fatalf("after %d: %d bytes, %v", i, sum, at)
			}
		}
	}
	if n := len(times(&small)); n != 121 {
		t.Errorf("%d small ones", n)
	}
	if at := times(&large); len(at) < 5 || at[len(at)-1]-at[0] < 1800 {
		t.Errorf("of large ones: %v", at)
	}
}

// TestFill: a node that begins gets from others what was before, and nothing twice.
func TestFill(t *testing.T) {
	var r Ring
	r.Fill([]Moment{moment(10, 10)})
	r.Add(moment(100, 10))
	r.Fill([]Moment{moment(105, 10), moment(70, 10), moment(40, 10), moment(100, 10)})
	if got, want := times(&r), []int64{10, 100}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	var q Ring
	q.Add(moment(100, 10))
	q.Fill([]Moment{moment(105, 10), moment(70, 10), moment(40, 10), moment(100, 10)})
	if got, want := times(&q), []int64{40, 70, 100}; !slices.Equal(got, want) || q.bytes != 30 {
		t.Errorf("%v, want %v; %d bytes", got, want, q.bytes)
	}
}

// TestRun: the node that leads keeps what it is told, in the form of the tables, and asks for the
// past until somebody answers.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		top := &base.Topology{Shards: 1, Regions: []base.Region{{ID: 1, Name: "eu"}, {ID: 2, Name: "us"}},
			Nodes: []base.Node{{ID: 1, Region: 1}, {ID: 2, Region: 2}, {ID: 3, Region: 2, Gone: true}, {ID: 5, Region: 2}, {ID: 4, Region: 1}}}
		asked, past := 0, time.Now().Add(-time.Minute)
		s := Source{Self: 1, Topology: func() *base.Topology { return top }, Live: func(n base.NodeID) bool { return n != 2 },
			Leader:  func(base.GroupID) base.NodeID { return 1 },
			Between: func(context.Context) [][]any { return [][]any{{"eu", "us", 80.5}} },
			Shares: func(context.Context) []Share {
				return []Share{{Node: 1, Region: 1, Answers: []statements.Answer{{Client: 1, By: 2, Statements: 7, Took: time.Second}},
					Links: Links(1, []wan.LinkStats{{Region: 1, WireSent: 9}, {Region: 2, WireSent: 5, Packets: 10, Resent: 1, Lately: wan.Packets{Sent: 4, Resent: 1}},
						{Region: 2, WireSent: 6, Connected: true, Dropped: 3}})}}
			},
			Ask: func(_ context.Context, of base.NodeID, name string, _ []byte) ([]byte, error) {
				if name != AskAll || of == 1 || of == 2 || of == 3 {
					t.Errorf("node %d is asked for %s", of, name)
				}
				if of == 4 {
					asked++
				}
				switch {
				case asked < 3:
					return nil, errors.New("no answer")
				case of == 4: // of the same region, and asked first
					return json.Marshal([]Moment{{past.Add(time.Second), json.RawMessage(`{}`)}})
				}
				return json.Marshal([]Moment{{past, json.RawMessage(`{}`)}})
			}}
		ctx, cancel := context.WithCancel(t.Context())
		var r Ring
		done := make(chan struct{})
		go func() { defer close(done); r.Run(ctx, s) }()
		time.Sleep(4*Every + 2*first)
		cancel()
		<-done
		rows := MomentRows(r.All())
		if len(rows) != 6 || asked != 3 || !rows[0][0].(time.Time).Equal(past) {
			t.Fatalf("%d moments, asked %d times, the first of %v", len(rows), asked, rows[0][0])
		}
		want := `{"answers":{"columns":["client_region","answered_by","statements","total_ms"],"rows":[["eu","us",7,1000]]},` +
			`"nodes":{"columns":["node","region","state","leads","statements"],"rows":[[1,"eu","live",3,7],[2,"us","dead",0,null],[5,"us","live",0,null],[4,"eu","live",0,null]]},` +
			`"region_links":{"columns":["from_region","to_region","links","connected","wire_bytes","packets","resent_packets","loss","lost_messages"],` +
			`"rows":[["eu","us",2,1,11,10,1,0.25,3]]},"round_trips":{"columns":["from_region","to_region","rtt_ms"],"rows":[["eu","us",80.5]]}}`
		if got := fmt.Sprint(rows[5][1]); got != want {
			t.Errorf("%s\nwant\n%s", got, want)
		}
	})
}

// TestOneAsksAll: a node that does not lead takes the moments of the one that does, each once, and
// asks all others itself while that one does not answer.
func TestOneAsksAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		top := &base.Topology{Shards: 1, Regions: []base.Region{{ID: 1, Name: "eu"}},
			Nodes: []base.Node{{ID: 1, Region: 1}, {ID: 2, Region: 1}}}
		var leader Ring
		answers, shares := true, 0
		s := Source{Self: 2, Topology: func() *base.Topology { return top }, Live: func(base.NodeID) bool { return true },
			Leader:  func(base.GroupID) base.NodeID { return 1 },
			Between: func(context.Context) [][]any { return nil },
			Shares:  func(context.Context) []Share { shares++; return nil },
			Ask: func(_ context.Context, of base.NodeID, name string, _ []byte) ([]byte, error) {
				switch {
				case of != 1 || !answers:
					return nil, errors.New("no answer")
				case name == AskAll:
					return json.Marshal(leader.All())
				}
				return json.Marshal(leader.Newest())
			}}
		ctx, cancel := context.WithCancel(t.Context())
		var r Ring
		done := make(chan struct{})
		go func() { defer close(done); r.Run(ctx, s) }()
		time.Sleep(first + time.Second) // it has none yet
		if n := len(r.All()); n != 0 || shares != 0 {
			t.Errorf("%d moments, %d rounds", n, shares)
		}
		for range 3 {
			leader.Add(Moment{time.Now(), json.RawMessage(`{}`)})
			time.Sleep(2 * Every) // each is asked for twice
		}
		if n := len(r.All()); n != 3 || shares != 0 {
			t.Errorf("%d moments of 3, %d rounds", n, shares)
		}
		answers = false
		time.Sleep(2 * Every)
		if n := len(r.All()); n != 5 || shares != 2 {
			t.Errorf("%d moments, %d rounds while the leader does not answer", n, shares)
		}
		cancel()
		<-done
	})
}
