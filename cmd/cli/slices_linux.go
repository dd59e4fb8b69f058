package cli

import (
	"log/slog"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// slice is for how long a thread of a node may compute before one that is woken takes its
// processor.
const slice = 100 * time.Microsecond

// shortSlices asks the operating system for short slices of processor time. Else a thread that has
// just been woken, by a client's statement or another node's message, waits until the one that
// computes has had its slice: 3 ms, and 4 to 8 as it is counted by ticks. All threads keep the same
// share. Threads that are made later inherit it. Kernels before 6.12 ignore it.
func shortSlices() {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		slog.Debug("keep the usual slices of processor time", "err", err)
		return
	}
	for _, t := range threads {
		id, err := strconv.Atoi(t.Name())
		if err != nil {
			continue
		}
		a, err := unix.SchedGetAttr(id, 0)
		if err == nil && a.Policy == unix.SCHED_NORMAL {
			a.Runtime = uint64(slice)
			err = unix.SchedSetAttr(id, a, 0)
		}
		if err != nil {
			slog.Debug("keep a thread's usual slices of processor time", "err", err)
		}
	}
}
