package group

import (
	"context"
	"sync"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/wire"
	pb "go.etcd.io/raft/v3/raftpb"
)

// outbound is a stream being sent.
type outbound struct {
	s      *snapshots
	k      streamKey
	exp    *store.Export
	id     uint64
	groups []base.GroupID
	heads  [][]byte // of each group
	seq    uint32   // of the next chunk
	bytes  int64

	first  *wire.SnapshotChunk // held back until it is known whether more follow
	begun  bool
	window chan struct{}
	calls  sync.WaitGroup
	ctx    context.Context // ends with the first chunk that fails
	fail   context.CancelCauseFunc
}

// send sends a copy of a shard, with the header of each group that it is of.
func (s *snapshots) send(within context.Context, k streamKey, exp *store.Export, groups []base.GroupID,
	heads []*pb.Message) (bytes int64, err error) {
	o := &s.h.opts
	out := &outbound{s: s, k: k, exp: exp, id: s.id.Add(1), groups: groups, window: make(chan struct{}, o.SnapshotWindow)}
	for _, m := range heads {
		body, err := marshalMessage(m)
		if err != nil {
			return 0, err
		}
		out.heads = append(out.heads, body)
	}
	out.ctx, out.fail = context.WithCancelCause(within)
	defer out.fail(nil)
	err = exp.Chunks(o.SnapshotChunkBytes, out.chunk)
	if err == nil && !out.begun {
		whole, err := out.begin(true)
		if whole || err != nil {
			return out.bytes, err
		}
	}
	out.calls.Wait()
	if err == nil {
		err = context.Cause(out.ctx)
	}
	if err != nil {
		return out.bytes, err
	}
	// The merge of a large shard takes its time.
	return out.bytes, s.call(within, k.to, &wire.SnapshotChunk{Group: uint32(groups[0]), Id: out.id, Seq: out.seq, Last: true},
		20*o.SnapshotTimeout)
}

// chunk sends a part of the shard, without waiting for the answer.
func (o *outbound) chunk(keys, vals [][]byte) error {
	c := &wire.SnapshotChunk{Group: uint32(o.groups[0]), Id: o.id, Keys: keys, Values: vals,
		GcThreshold: uint64(o.exp.Threshold)}
	if o.first == nil {
		o.first = c
		return nil
	}
	if !o.begun {
		if _, err := o.begin(false); err != nil {
			return err
		}
	}
	return o.push(c)
}

// begin sends the headers and the first chunk, and waits until the receiver has a place for the
// stream. whole is true if last is, and the receiver has merged the copy. A receiver of an older
// build, which takes headers in chunks of their own, finds the first one damaged and gets those.
func (o *outbound) begin(last bool) (whole bool, err error) {
	o.begun = true
	timeout := o.s.h.opts.SnapshotTimeout
	if !o.s.h.opts.LoneHeads {
		f := o.first
		c := &wire.SnapshotChunk{Group: f.Group, Id: f.Id, Keys: f.Keys, Values: f.Values, GcThreshold: f.GcThreshold,
			Last: last, Heads: o.heads, Incarnations: o.exp.Incarnations.Numbers()}
		for _, g := range o.groups {
			c.HeadGroups = append(c.HeadGroups, uint32(g))
		}
		size := sizeOf(c)
		if err := o.s.pace.wait(o.ctx, size); err != nil {
			return false, err
		}
		if err = o.s.call(o.ctx, o.k.to, c, timeout); err == nil {
			o.seq, o.bytes = 1, size
			return last, nil
		}
		if base.CodeOf(err) != base.CodeCorrupt {
			return false, err
		}
	}
	for i, h := range o.heads {
		c := &wire.SnapshotChunk{Group: uint32(o.groups[i]), Id: o.id, Seq: o.seq, Raft: h, Incarnations: o.exp.Incarnations.Numbers()}
		if err := o.s.call(o.ctx, o.k.to, c, timeout); err != nil {
			return false, err
		}
		o.seq++
	}
	return false, o.push(o.first)
}

// push sends a chunk as soon as the window has room.
func (o *outbound) push(c *wire.SnapshotChunk) error {
	select {
	case o.window <- struct{}{}:
	case <-o.ctx.Done():
		return context.Cause(o.ctx)
	}
	c.Seq = o.seq
	o.seq++
	size := sizeOf(c)
	o.bytes += size
	if err := o.s.pace.wait(o.ctx, size); err != nil {
		<-o.window
		return err
	}
	o.calls.Go(func() {
		if err := o.s.call(o.ctx, o.k.to, c, o.s.h.opts.SnapshotTimeout); err != nil {
			o.fail(err)
		}
		<-o.window
	})
	return nil
}

// sizeOf is how many bytes of rows a chunk has.
func sizeOf(c *wire.SnapshotChunk) (n int64) {
	for i := range c.Keys {
		n += int64(len(c.Keys[i]) + len(c.Values[i]))
	}
	return n
}
