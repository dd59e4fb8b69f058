package wan

import (
	"context"
	"testing"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

// TestLostPeer: what waits for a lost peer's answer ends at once, is called off there, and may have
// run; what is asked later is not sent; snapshots go on. Once the peer is back, all is as before.
func TestLostPeer(t *testing.T) {
	onBoth(t, func(t *testing.T, mk pairMaker) {
		a, b := mk(t, Limits{})
		running, off, free := make(chan struct{}, 2), make(chan error, 1), make(chan struct{})
		b.Handle(wire.KindRead, func(ctx context.Context, _ base.NodeID, body []byte) (Msg, error) {
			if number(t, body) != 1 {
				return kv(7, nil), nil
			}
			running <- struct{}{}
			<-ctx.Done()
			off <- ctx.Err()
			return nil, ctx.Err()
		})
		b.Handle(wire.KindSnapshot, func(context.Context, base.NodeID, []byte) (Msg, error) {
			running <- struct{}{}
			<-free
			return kv(8, nil), nil
		})
		start(t, a, b)
		call := func(kind wire.Kind, n uint64) <-chan error {
			done := make(chan error, 1)
			go func() { done <- a.Call(context.Background(), 2, kind, kv(n, nil), new(wire.KV)) }()
			return done
		}
		read, snapshot := call(wire.KindRead, 1), call(wire.KindSnapshot, 1)
		<-running
		<-running
		a.SetLost(2, true)
		err := <-read
		wantCode(t, err, base.CodeUnavailable)
		if !NoAnswer(err) {
			t.Errorf("it may have run: %v", err)
		}
		if err := <-off; err != context.Canceled {
			t.Errorf("the handler's context ends with %v", err)
		}
		err = <-call(wire.KindRead, 2)
		wantCode(t, err, base.CodeUnavailable)
		if !NeverRan(err) {
			t.Errorf("it was not sent: %v", err)
		}
		close(free)
		if err := <-snapshot; err != nil {
			t.Error(err)
		}
		a.SetLost(2, false)
		if err := <-call(wire.KindRead, 2); err != nil {
			t.Error(err)
		}
		a.SetLost(1, true)
		a.SetLost(2, true)
		a.SetLost(2, true)
		a.SetLost(2, false)
		if err := <-call(wire.KindRead, 2); err != nil {
			t.Error(err)
		}
	})
}
