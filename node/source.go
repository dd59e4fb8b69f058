package node

import (
	"fmt"
	"net"
	"time"

	"github.com/godwitdb/godwit/mechanism/clock"
	"github.com/godwitdb/godwit/mechanism/clock/timeserver"
)

// TimeSource is a clock source that a flag has named.
type TimeSource struct {
	clock.Source
	name   func() string
	counts func() map[string]uint64
	close  func() error
}

// Name says where the time and its bound come from.
func (s *TimeSource) Name() string { return s.name() }

// Close ends its work in the background.
func (s *TimeSource) Close() error {
	if s.close == nil {
		return nil
	}
	return s.close()
}

// timeServerReady is how long the first answer of a time server may take.
const timeServerReady = 5 * time.Second

// DefaultClockPoll is how often a time server is asked, as in the paper.
const DefaultClockPoll = time.Millisecond

func (c *Config) clockSource() (*TimeSource, error) {
	if c.ClockOffsetFile != "" {
		return offsetSource(c.ClockOffsetFile, c.MaxClockError)
	}
	return ClockSource(c.ClockSource, c.MaxClockError, c.ClockPoll)
}

// ClockSource makes the source that a flag names: auto, fixed, kernel, or HOST:PORT of a time
// server. fixed is the bound where nothing better is known.
func ClockSource(name string, fixed, poll time.Duration) (*TimeSource, error) {
	if poll <= 0 {
		poll = DefaultClockPoll
	}
	if name == "auto" {
		if name = "fixed"; clock.KernelSynced() {
			name = "kernel"
		}
	}
	switch name {
	case "fixed":
		return &TimeSource{Source: clock.NewWall(fixed), name: func() string { return "fixed" }}, nil
	case "kernel":
		src, err := clock.NewKernel(fixed)
		if err != nil {
			return nil, fmt.Errorf("clock-source: %w; use fixed or a time server", err)
		}
		return &TimeSource{Source: src, name: src.(interface{ Name() string }).Name}, nil
	}
	if err := checkClockSource(name); err != nil {
		return nil, err
	}
	c, err := timeserver.Dial(name, poll, timeServerReady)
	if err != nil {
		return nil, err
	}
	return &TimeSource{Source: c, name: c.Name, counts: c.Counts, close: c.Close}, nil
}

func checkClockSource(name string) error {
	switch name {
	case "auto", "fixed", "kernel":
		return nil
	}
	if host, port, err := net.SplitHostPort(name); err != nil || host == "" || port == "" {
		return fmt.Errorf("clock-source: %q is none of auto, fixed, kernel, nor HOST:PORT of a time server", name)
	}
	return nil
}
