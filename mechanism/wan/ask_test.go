package wan

import (
	"context"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

// askAt sends one request to an address, as a stranger without a node's identity would, and waits
// for the answer. opt gives TLS and timeouts.
func askAt(ctx context.Context, opt TCPOptions, addr string, req, resp Msg) error {
	opt.setDefaults()
	lim := opt.Limits.withDefaults()
	conn, r, w, err := opt.connect(ctx, addr, hello{version: protocolVersion, class: classRPC})
	if err != nil {
		return dialError(0, addr, err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })()
	b, err := appendFrame(nil, typeRequest, wire.KindAsk, timeoutOf(ctx), 1, req, lim.MaxFrame)
	if err != nil {
		return unsent(base.CodeInvalid, err, "%v", err)
	}
	var f frame
	if _, err = conn.Write(b); err == nil {
		f, err = readFrame(r, lim.MaxFrame)
	}
	if err != nil {
		if ctx.Err() != nil {
			return unanswered(base.CodeCanceled, ctx.Err(), "no answer from %s in time: %v", addr, ctx.Err())
		}
		return unanswered(base.CodeUnavailable, err, "%s did not answer: %v", addr, err)
	}
	var c core
	cl := c.free.get()
	cl.f = f
	cl.done <- struct{}{}
	return c.await(context.Background(), nil, 1, cl, &counters{peer: w.node}, wire.KindAsk, len(b), resp, nil, nil)
}
