package node

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/godwitdb/godwit/mechanism/clock"
)

// offsetPoll is how often the file of a clock that is off is read.
const offsetPoll = 10 * time.Millisecond

// offsetSource is a fixed source that is off by the nanoseconds that a file holds, read again and
// again. Tests make the clock of a real process wrong by it.
func offsetSource(path string, bound time.Duration) (*TimeSource, error) {
	off, err := readOffset(path)
	if err != nil {
		return nil, err
	}
	src := clock.NewSimulated(bound, 0)
	src.Set(off, 0, 0)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		t := time.NewTicker(offsetPoll)
		defer t.Stop()
		for {
			select {
			case <-stop:
				return
			case <-t.C:
			}
			if now, err := readOffset(path); err == nil && now != off {
				off = now
				src.Set(off, 0, 0)
			}
		}
	})
	return &TimeSource{Source: src, name: func() string { return "fixed, off by a file" }, close: func() error {
		close(stop)
		wg.Wait()
		return nil
	}}, nil
}

func readOffset(path string) (time.Duration, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("clock-offset-file: %w", err)
	}
	ns, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("clock-offset-file: %s holds no number of nanoseconds: %w", path, err)
	}
	return time.Duration(ns), nil
}
