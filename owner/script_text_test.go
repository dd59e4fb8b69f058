package owner_test

import (
	"fmt"
	"strings"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/clock"
	"github.com/godwitdb/godwit/owner"
	"github.com/godwitdb/godwit/wire"
)

func (s *script) status(st *wire.Status) string {
	err := owner.ErrorOf(st)
	if err == nil {
		return "ok"
	}
	e := err.(*base.Error)
	out := e.Code.String()
	if e.Node != 0 {
		out += fmt.Sprintf(", ask n%d", e.Node)
	}
	if len(e.Key) > 0 {
		out += ", key " + keyName(e.Key)
	}
	if e.After != 0 {
		out += ", not before " + s.c.at(e.After)
	}
	return out
}

func (s *script) failed(err error) string {
	return s.status(&wire.Status{Code: uint32(base.CodeOf(err)), Msg: "failed"})
}

func (s *script) foreign(fs []*wire.Foreign) (out string) {
	for _, f := range fs {
		sp := base.Span{Start: f.Span.Start}
		if len(f.Span.End) > 0 {
			sp.End = f.Span.End
		}
		out += fmt.Sprintf("; %s is of %s", spanName(sp), groupName(base.GroupID(f.Group)))
		for _, w := range f.Since {
			out += fmt.Sprintf(" by entry %d of g%d", w.Index, w.Region)
		}
	}
	return out
}

func (s *script) rows(rows []*wire.KV) string {
	var out []string
	for _, r := range rows {
		switch {
		case r.Absent:
			out = append(out, keyName(r.Key)+" absent")
		default:
			line := fmt.Sprintf("%s=%s @%s", keyName(r.Key), r.Value, s.c.at(base.Timestamp(r.Ts)))
			if h := base.Label(r.Label).Home(); h > 1 {
				line += fmt.Sprintf(" of r%d", h)
			}
			if r.Advice != 0 {
				line += fmt.Sprintf(" (take it to r%d)", r.Advice)
			}
			out = append(out, line)
		}
	}
	if len(out) == 0 {
		return "nothing"
	}
	return strings.Join(out, ", ")
}

func (s *script) readAnswer(resp *wire.ReadResponse) string {
	if resp.Status != nil {
		return s.status(resp.Status)
	}
	out := s.rows(resp.Rows) + s.foreign(resp.Foreign)
	if len(resp.Along) > 0 {
		out += "; along: " + s.rows(resp.Along)
	}
	if len(resp.Resume) > 0 {
		out += fmt.Sprintf("; more from %s of span %d", keyName(resp.Resume), resp.ResumeSpan)
	}
	if resp.Bounded {
		out += "; bounded by a slot"
	}
	if resp.Newer != 0 {
		out += "; newer: " + s.c.at(base.Timestamp(resp.Newer))
	}
	return out
}

func (s *script) commitAnswer(q *wire.CommitRequest, resp *wire.CommitResponse) string {
	if resp.Status != nil {
		out := s.status(resp.Status) + s.foreign(resp.Foreign)
		if resp.NeedTs != 0 {
			out += "; needs " + s.c.at(base.Timestamp(resp.NeedTs))
		}
		return out
	}
	out := "committed @" + s.c.at(base.Timestamp(resp.Ts))
	if q.Prepare {
		out = fmt.Sprintf("voted [%s, %s)", s.c.at(base.Timestamp(resp.Ts)), s.c.at(base.Timestamp(resp.Hi)))
	}
	for _, k := range resp.Moved {
		out += "; moved " + keyName(k)
	}
	if resp.Moves > 0 {
		out += fmt.Sprintf("; %d more to move", resp.Moves)
	}
	return out
}

func (s *script) writesOf(ws []*wire.Write) (out string) {
	for _, w := range ws {
		switch {
		case w.Patch != nil:
			out += fmt.Sprintf(" %s+%s", keyName(w.Key), w.Patch.Ops[0].Value)
		case w.Kind == wire.WriteKind_DELETE:
			out += fmt.Sprintf(" %s deleted", keyName(w.Key))
		default:
			out += fmt.Sprintf(" %s=%s", keyName(w.Key), w.Value)
		}
		if h := base.Label(w.Label).Home(); h > 1 {
			out += fmt.Sprintf(" of r%d", h)
		}
	}
	return out
}

// entry shows a log entry; with vectors also what its proposer had applied of other groups.
func (s *script) entry(i int, e *entry, vectors bool) string {
	c := e.cmd
	if c == nil {
		return fmt.Sprintf("%d: first of term %d", i, e.term)
	}
	what := ""
	name := func(b []byte) string { return s.txnName(base.TxnID(b)) }
	switch {
	case c.Commit != nil:
		what = fmt.Sprintf("commit %s @%s%s", name(c.Commit.Txn), s.c.at(base.Timestamp(c.Ts)), s.writesOf(c.Commit.Writes))
	case c.Prepare != nil:
		v := c.Prepare
		what = fmt.Sprintf("vote %s [%s, %s)", name(v.Txn), s.c.at(base.Timestamp(v.Lo)), s.c.at(base.Timestamp(v.Hi)))
		for _, p := range v.Participants {
			what += " " + groupName(base.GroupID(p))
		}
		if len(v.Writes) > 0 {
			what += ":" + s.writesOf(v.Writes)
		}
	case c.Decide != nil:
		what = "abort " + name(c.Decide.Txn)
		if c.Decide.Commit {
			what = fmt.Sprintf("decide %s @%s", name(c.Decide.Txn), s.c.at(base.Timestamp(c.Decide.Ts)))
			for _, v := range c.Decide.Values {
				what += fmt.Sprintf(" %q", v)
			}
		}
	case len(c.Refuse) > 0:
		what = "refuse " + name(c.Refuse)
	case c.Clock != nil:
		what = fmt.Sprintf("clock mode %s, epoch %d", clock.Mode(c.Clock.Mode), c.Clock.Epoch)
	case c.Collect != nil:
		what = "collect"
		for _, k := range c.Collect.Keys {
			what += " " + keyName(k)
		}
		what += " up to " + s.c.at(base.Timestamp(c.Collect.Below))
	}
	if q := c.LeaseTransfer; q != nil {
		what += fmt.Sprintf("lease for n%d until %s, the last entry of term %d", q.Target, s.c.at(base.Timestamp(q.End)), e.term)
	}
	if c.Ended != nil {
		what += fmt.Sprintf(" (the lease of n%d ended at %s)", c.Ended.Holder, s.c.at(base.Timestamp(c.Ended.End)))
	}
	if c.Lease != nil {
		if what != "" {
			what += ", "
		}
		what += fmt.Sprintf("lease of n%d until %s", c.Lease.Holder, s.c.at(base.Timestamp(c.Lease.End)))
		if c.Lease.Virtual {
			what += " (virtual)"
		}
	}
	for _, v := range c.Vector {
		if vectors {
			what += fmt.Sprintf(", has g%d up to %d", v.Region, v.Index)
		}
	}
	return fmt.Sprintf("%d: %s", i, strings.TrimSpace(what))
}

// ---- steps ----
