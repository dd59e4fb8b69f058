package history

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestRecorderConcurrent records a mutex-protected map under many clients; with -race it also
// checks the recorder.
func TestRecorderConcurrent(t *testing.T) {
	var clock atomic.Int64
	rec := NewRecorder(func() int64 { return clock.Add(1) })
	rec.SetInit(map[string]string{"x": "init"})
	var mu sync.Mutex
	state := map[string]string{"x": "init"}
	var wg sync.WaitGroup
	for client := range 8 {
		wg.Go(func() {
			for n := range 50 {
				a := rec.Begin(client, "A")
				a.Touch("A", "B", "A")
				mu.Lock()
				a.Read("x", state["x"])
				v := fmt.Sprintf("%d.%d", client, n)
				a.Write("x", v)
				a.Append("list", v)
				a.Scan("x", "", []KV{{"x", v}})
				state["x"], state["list"] = v, v
				ts := uint64(clock.Add(1))
				mu.Unlock()
				a.Commit(ts)
				a.Abort()            // ignored: it has ended
				a.Write("y", "late") // ignored too
			}
		})
	}
	running := rec.Begin(9, "B")
	running.Delete("nothing")
	running.ReadAt(7, true)
	wg.Wait()
	rec.SetFinal(state)
	h := rec.History()
	for l := LevelSnapshotIsolation; l <= LevelStrictSerializable; l++ {
		v, st := Check(h, l)
		if v != nil {
			t.Fatal(v)
		}
		if st.Effective != 400 || st.Txns != 401 || st.UnorderedKeys != 0 {
			t.Fatalf("%s: %+v", l, st)
		}
	}
	if v := NoLostWrites(h); v != nil {
		t.Fatal(v)
	}
	if got := h.Txns[0].Regions; len(got) != 2 && h.Txns[0].Client != 9 {
		t.Fatalf("regions %v", got)
	}
}

func TestCodec(t *testing.T) {
	m := mix{txns: 40, keys: 6, ops: 5, scans: true, deletes: true, unknown: true, timestamps: true, slack: 30}
	h := serialHistory(rand.New(rand.NewPCG(1, 6)), m)
	h.Txns[0].Ops = append(h.Txns[0].Ops, Op{Kind: OpAppend, Key: "l", Value: "<1>"},
		Op{Kind: OpReadList, Key: "l", List: []string{"<1>"}})
	h.Txns[1].Stale, h.Txns[1].Snapshot = true, 12
	for _, final := range []map[string]string{nil, {}, h.Final} {
		h.Final = final
		var b bytes.Buffer
		n, err := h.WriteTo(&b)
		if err != nil || n != int64(b.Len()) {
			t.Fatal(n, b.Len(), err)
		}
		text := b.String()
		back, err := Read(&b)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(h, back) {
			t.Fatalf("came back different:\n%s\n%s", dump(h), dump(back))
		}
		for what, bad := range map[string]string{
			"cut off":      text[:strings.LastIndexByte(strings.TrimSpace(text), '\n')],
			"not a header": text[strings.IndexByte(text, '\n')+1:],
			"version 9":    strings.Replace(text, `"version":1`, `"version":9`, 1),
			"outcome":      strings.Replace(text, `"outcome":"committed"`, `"outcome":"perhaps"`, 1),
			"operation":    strings.Replace(text, `"op":"read"`, `"op":"peek"`, 1),
			"empty":        "",
		} {
			if _, err := Read(strings.NewReader(bad)); err == nil || !strings.Contains(err.Error(), what) {
				t.Errorf("%s: error is %v", what, err)
			}
		}
	}
}

func TestValidate(t *testing.T) {
	for want, h := range map[string]*History{
		"twice":         {Txns: []Txn{{ID: 1}, {ID: 1}}},
		"monotonic":     {Txns: []Txn{{ID: 1, Invoke: 5, Return: 4, Outcome: Committed}}},
		"OpDelete":      {Txns: []Txn{{ID: 1, Ops: []Op{{Kind: OpWrite, Key: "x"}}}}},
		"below its":     {Txns: []Txn{{ID: 1, Ops: []Op{{Kind: OpScan, Key: "x", End: "a"}}}}},
		"unknown kind":  {Txns: []Txn{{ID: 1, Ops: []Op{{Kind: 99}}}}},
		"has outcome 7": {Txns: []Txn{{ID: 1, Outcome: 7}}},
	} {
		v := StrictSerializable(h)
		if v == nil || v.Kind != KindMalformed || !strings.Contains(v.Detail, want) {
			t.Errorf("%s: %v", want, v)
		}
	}
}

// TestLinearizableAgrees: porcupine accepts what ran serially; and on histories of one operation a
// transaction, where single-key linearizability and the brute force over one key say the same, the
// verdicts agree.
func TestLinearizableAgrees(t *testing.T) {
	illegal := 0
	for seed := uint64(0); seed < 200; seed++ {
		rng := rand.New(rand.NewPCG(seed, 7))
		h := serialHistory(rng, mix{txns: 6, keys: 1, ops: 1, deletes: seed%2 == 0, unknown: seed%3 == 0, slack: 30})
		h.Final = nil
		if verdict, v := Linearizable(h, time.Minute); verdict != Ok {
			t.Fatalf("seed %d: %s: %v\n%s", seed, verdict, v, dump(h))
		}
		mutate(rng, h)
		verdict, v := Linearizable(h, time.Minute)
		want := (&bruteForce{h: h, level: LevelStrictSerializable}).possible()
		if want != (verdict == Ok) {
			t.Fatalf("seed %d: brute force %t, %s: %v\n%s", seed, want, verdict, v, dump(h))
		}
		if !want {
			illegal++
		}
	}
	if illegal < 20 {
		t.Fatalf("only %d illegal histories", illegal)
	}
	if verdict, _ := Linearizable(benchHistory(100, true), 0); verdict != Undecided {
		t.Fatalf("no time, but %s", verdict)
	}
}
