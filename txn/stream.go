package txn

import (
	"context"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/txn/known"
	"github.com/godwitdb/godwit/txn/writes"
)

// early is what a transaction logs of the rows of one table while it still writes others
// (docs/protocol.md, STAGE-7).
type early struct {
	*pieceLog
	// ctx is that of the statement, and ends with the transaction; nil: nothing has been sent.
	ctx    context.Context
	cancel context.CancelFunc
}

var _ kv.Streamer = (*Txn)(nil)

const (
	// streamPart and streamWrites are the parts of what one entry of a log holds, of its bytes and
	// of its writes, from which on rows are logged early. A transaction that is smaller is better
	// off with one entry. With many small writes what takes time is to make them and to look at
	// their keys, and the two go on beside each other.
	streamPart   = 2
	streamWrites = 8
	// streamSections is of how many sections rows are logged early: each has a piece in memory.
	streamSections = 16
)

// sent are the pieces that have been sent; nil: there are none.
func (e *early) sent() *pieceLog {
	if e == nil || e.ctx == nil {
		return nil
	}
	return e.pieceLog
}

// end gives up the pieces that are under way, if there are any.
func (e *early) end() {
	if e != nil && e.cancel != nil {
		e.cancel()
		e.Await()
	}
}

// Stream implements kv.Streamer.
func (t *Txn) Stream(ctx context.Context, table base.TableID, indexes ...base.IndexID) error {
	if err := t.usable(); err != nil {
		return err
	}
	if t.early == nil {
		if t.atOnce() || t.opts.ReadOnly {
			return nil
		}
		t.early = &early{pieceLog: t.newPieceLog()}
		t.buf.Apart(table, indexes, t.db.cfg.Rewrites)
	}
	if l := &t.db.cfg.Limits; t.mode == bySlot ||
		t.buf.Bytes < l.EntryBytes/streamPart && t.buf.Len() < l.EntryWrites/streamWrites {
		return nil
	}
	t.lockOnly()
	err := t.named(ctx, true)
	if err == nil {
		err = t.early.send(ctx, t.buf.Take(streamSections))
	}
	if err == nil {
		return nil
	}
	err = t.failed(refusal(unvoted(ctx, err)))
	t.refuse(err) // also if another try might do: some of what was taken is nowhere
	return err
}

// send adds rows to the pieces.
func (e *early) send(ctx context.Context, ws []*writes.Write) error {
	if len(ws) > 0 && e.ctx == nil {
		e.ctx, e.cancel = context.WithCancel(e.t.trace(ctx))
	}
	walk := known.WalkOf(&e.t.rows)
	for i, w := range ws {
		if !base.GoesOn(ctx, i) {
			return base.Ended(ctx)
		}
		if err := e.add(e.ctx, &walk, w, w.Size()); err != nil {
			return err
		}
	}
	return nil
}
