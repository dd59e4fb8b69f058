package spare

import (
	"os"
	"runtime"
	"sync"
)

// Look has the Go scheduler look at the network if something has come from there that no thread has
// seen, and returns once it has.
//
// The scheduler looks only where it finds nothing else to run, and every 10 ms: while statements
// and the collector compute on all processors, a request that has come waits for that long before
// it is as much as in a queue. A goroutine that gives up its processor by [runtime.Gosched] is in
// the queue itself, so the scheduler finds that first. This one waits for something from the
// network, a byte of a pipe. So the scheduler looks on the processor of the caller, and goes on
// there with what has waited.
//
// Elsewhere than on Linux nothing tells whether something has come, and it does nothing.
func Look() {
	if l := theLook(); l != nil && unseen(l.files) {
		l.wait()
	}
}

var theLook = sync.OnceValue(newLook)

// look is the pipe by which callers wait until the scheduler has looked.
type look struct {
	files int // by which the scheduler waits for the network
	w     *os.File
	seen  chan struct{}
}

// newLook is nil if it is not known by which file the scheduler waits, or there is no pipe.
func newLook() *look {
	r, w, err := os.Pipe()
	if err != nil {
		return nil
	}
	l := &look{files: schedulerFile(r), w: w, seen: make(chan struct{})}
	if l.files < 0 {
		_, _ = r.Close(), w.Close() // nothing was written
		return nil
	}
	go func() {
		for b := make([]byte, 1); ; l.seen <- struct{}{} { // until the process ends
			if _, err := r.Read(b); err != nil {
				panic(err) // a pipe of our own that nobody closes
			}
			runtime.Gosched() // the scheduler runs first what came last
		}
	}()
	return l
}

// wait returns when the byte that it writes has come back.
func (l *look) wait() {
	if _, err := l.w.Write([]byte{0}); err == nil {
		<-l.seen
	}
}
