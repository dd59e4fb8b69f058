package txn

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/owner"
	"github.com/godwitdb/godwit/wire"
)

// recorder is the transport of an owner set that writes down what a gateway asks of other nodes.
type recorder struct {
	owner.Transport
	mu    sync.Mutex
	lines []string
}

func (r *recorder) Call(ctx context.Context, to base.NodeID, kind wire.Kind, q, resp wan.Msg) error {
	err := r.Transport.Call(ctx, to, kind, q, resp)
	if line := asked(q, resp, err); line != "" {
		r.mu.Lock()
		r.lines = append(r.lines, line)
		r.mu.Unlock()
	}
	return err
}

// take returns what was asked since the last time. Messages that are sent at once are in no order.
func (r *recorder) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	lines := r.lines
	r.lines = nil
	slices.Sort(lines)
	return lines
}

func rowName(k []byte) string { return string(base.Key(k)[base.IndexPrefixLen:]) }

// asked is a line for a request and what came of it; "" for those that are no part of a commit.
func asked(q, resp wan.Msg, err error) string {
	var b strings.Builder
	switch q := q.(type) {
	case *wire.CommitRequest:
		fmt.Fprintf(&b, "2 %s: ", base.GroupID(q.Group))
		if q.Prepare {
			fmt.Fprintf(&b, "prepare (of %d)", len(q.Participants))
		} else {
			b.WriteString("commit")
		}
		for _, w := range q.Writes {
			fmt.Fprintf(&b, " write %s", rowName(w.Key))
		}
		for _, s := range q.Reads {
			fmt.Fprintf(&b, " validate %s", rowName(s.Start))
		}
		for _, f := range []struct {
			on   bool
			name string
		}{{q.LockTerm != 0, "under locks"}, {q.Slot != 0 && !q.Ordered, "at a slot"},
			{q.Slot != 0 && q.Ordered, "at its timestamp"}, {q.Ordered && q.Slot == 0, "by timestamp"}} {
			if f.on {
				b.WriteString(", " + f.name)
			}
		}
		if r, ok := resp.(*wire.CommitResponse); ok && err == nil {
			b.WriteString(outcomeOf(r.Status))
		}
	case *wire.FinishRequest:
		fmt.Fprintf(&b, "3 %s: ", base.GroupID(q.Group))
		switch {
		case q.Prepared && q.Commit:
			b.WriteString("it has committed")
		case q.Prepared:
			b.WriteString("it has aborted")
		default:
			b.WriteString("release")
		}
	case *wire.ReadRequest:
		if q.Lock == 0 && q.ReadTs == 0 {
			return ""
		}
		fmt.Fprintf(&b, "1 %s: read", base.GroupID(q.Group))
		for _, s := range q.Spans {
			fmt.Fprintf(&b, " %s", rowName(s.Start))
		}
		if q.Lock != 0 {
			b.WriteString(", lock")
		}
	default:
		return ""
	}
	if err != nil {
		b.WriteString(": no answer")
	}
	return b.String()
}

func outcomeOf(s *wire.Status) string {
	switch base.Code(s.GetCode()) {
	case base.CodeOther:
		if s == nil {
			return ": yes"
		}
	case base.CodeWrongOwner:
		return ": not the owner"
	case base.CodeTooLate:
		return ": too late"
	}
	return ": " + s.GetMsg()
}

// TestCommitRouting runs the scripts of testdata/commit: which groups a commit asks for what. A
// script is run by the gateway of region 3 of a cluster with one group a region. Of several lines
// of one answer, those with 1 are reads, with 2 the votes, with 3 what follows in the background;
// requests to groups of region 3 itself are no messages. Commands:
//
//	begin [relay]      start a transaction
//	get ROW [lock]     read a row; "lock" locks it for writing
//	put ROW            write it
//	delete ROW         delete it
//	insert ROW         insert it
//	elsewhere ROW to=N another gateway moves a row, just now
//	commit             commit and show what was asked
//
// A row is rN/name: its key lies in a gap that region N owns at first.
func TestCommitRouting(t *testing.T) {
	datadriven.Walk(t, "testdata/commit", func(t *testing.T, path string) {
		how := base.Locking
		if strings.HasSuffix(path, "timestamp") {
			how = base.ByTimestamp
		}
		rec := &recorder{}
		bubble(t, 3, 1, func(t *testing.T, c *cluster) {
			for _, r := range []string{"r1/a", "r1/b", "r2/a", "r2/b", "r3/a"} {
				put(t, c.db(int(r[1]-'0')), rowKey(r), "0")
			}
			time.Sleep(time.Second) // all replicas know
			rec.take()
			s := &script{t: t, c: c, rec: rec}
			datadriven.RunTest(t, path, s.run)
		}, func(c *cluster) {
			c.oc = func(o *owner.Config) {
				o.Concurrency = how
				if o.Self == 3 {
					rec.Transport = o.Transport
					o.Transport = rec
				}
			}
		})
	})
}

func rowKey(name string) base.Key { return key(1, int(name[1]-'0'), 1, name) }

type script struct {
	t   *testing.T
	c   *cluster
	rec *recorder
	x   kv.Txn
}

func (s *script) run(t *testing.T, d *datadriven.TestData) string {
	if d.Cmd == "begin" {
		s.x = s.c.db(3).Begin(kv.Options{Relay: d.HasArg("relay")})
		return ""
	}
	if d.Cmd == "commit" {
		return s.commit()
	}
	k := rowKey(d.CmdArgs[0].Key)
	var err error
	switch d.Cmd {
	case "get":
		lock := kv.LockNone
		if d.HasArg("lock") {
			lock = kv.LockExclusive
		}
		_, err = s.x.Get(ctx(t), []base.Key{k}, lock)
	case "put":
		s.x.Put(k, []byte("1"), 0)
	case "delete":
		s.x.Delete(k)
	case "insert":
		err = s.x.Insert(k, []byte("1"), 0)
	case "elsewhere":
		var to int
		d.ScanArgs(t, "to", &to)
		_, err = do(ctx(t), s.c.db(1), kv.Options{}, func(x kv.Txn) error {
			x.Move(k, base.RegionID(to), kv.MoveOptions{})
			return nil
		})
	default:
		d.Fatalf(t, "no such command")
	}
	if err != nil {
		return err.Error()
	}
	return s.shown("")
}

func (s *script) commit() string {
	st := s.c.db(3).Stats()
	one, two := st.OneRound.Load(), st.TwoRound.Load()
	_, err := s.x.Commit(ctx(s.t))
	s.x.Rollback(ctx(s.t))
	time.Sleep(time.Second) // what is sent in the background has been answered
	end := fmt.Sprintf("committed: %d in one group, %d in several", st.OneRound.Load()-one, st.TwoRound.Load()-two)
	if err != nil {
		end = fmt.Sprintf("failed with code %v", base.CodeOf(err))
	}
	return s.shown(end)
}

func (s *script) shown(end string) string {
	lines := s.rec.take()
	if end != "" {
		lines = append(lines, end)
	}
	return strings.Join(lines, "\n")
}
