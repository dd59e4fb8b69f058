package kill

import (
	"context"
	"time"
)

// Client is who waits for statements at a connection.
type Client interface {
	// Runs reports whether a statement of the client runs.
	Runs() bool
	// Gone reports whether the client has gone away.
	Gone() bool
}

// While statements run, clients are looked at each busyPause, and else each idlePause. Both keep
// the end of a statement within 100 ms of that of its client.
const (
	busyPause = 10 * time.Millisecond
	idlePause = 20 * time.Millisecond
	// thrift bounds what looking takes: a 50th of one processor.
	thrift = 50
)

// WatchGone has kill end the statements of clients that have gone away, until ctx ends: wherever a
// statement is, in a queue, in a planner, or at another node, nobody waits for it. each goes
// through all clients, with the ids of their connections. To look at those whose statements run is
// cheaper than a timer for each statement.
func WatchGone(ctx context.Context, each func(func(id uint32, c Client)), kill func(id uint32)) {
	timer := time.NewTimer(idlePause)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		begin, pause := time.Now(), idlePause
		each(func(id uint32, c Client) {
			if !c.Runs() {
				return
			}
			if pause = busyPause; c.Gone() {
				kill(id)
			}
		})
		timer.Reset(max(pause, thrift*time.Since(begin)))
	}
}
