package cost

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/godwitdb/godwit/lab/bench/rig"
)

// floorName is the figure of the floor: what the parts of a statement cost a program that does
// nothing else.
const floorName = "floor"

// FloorArg is the first argument that makes a program call [FloorMain]: the steps of the floor run
// in a process of their own, so that its CPU time is theirs.
const FloorArg = "bench-floor"

// Sizes of packets of a statement on one row: its parameters, and a row of 120 bytes with the
// description of its column.
const requestBytes, replyBytes = 24, 200

// entryBytes is about the size of sysbench's updates in the log of raft.
const entryBytes = 700

// floorStep is one part of a statement.
type floorStep struct {
	name, what string
	run        func(f *floorRun) error
	// drive is what the benchmark itself does meanwhile, given the first line that the step
	// printed; nil: nothing.
	drive func(ctx context.Context, line string, n int) error
}

var floorSteps = []floorStep{
	{"socket", "read a request and write a reply, two system calls", serveSockets, driveSockets},
	{"pebble commit", "commit of 3 keys with sync", commitKeys, nil},
	{"raft entry in memory", "one proposal and its entry, a sole voter", appendInMemory, nil},
	{"raft entry, synced", "the same, with the entry in a file and a sync", appendSynced, nil},
}

// floorRun is a step under way, which is repeated.
type floorRun struct {
	n    int // at once
	time time.Duration
	dir  string // empty
	out  io.Writer

	end   time.Time
	times atomic.Int64
	used  floorResult // when it began, then the difference
}

// floorResult is what the process of a step prints last.
type floorResult struct {
	Times   int64
	CPU     time.Duration
	Written float64 // bytes that go to the disk; 0 where the system does not say
}

// repeat calls step until the time is over, n times at once. What was done to prepare does not
// count.
func (f *floorRun) repeat(step func(i int) error) error {
	f.begin()
	err := rig.Each(f.n, func(i int) error {
		for !f.over() {
			if err := step(i); err != nil {
				return err
			}
			f.times.Add(1)
		}
		return nil
	})
	f.finish()
	return err
}

func (f *floorRun) begin() {
	f.end = time.Now().Add(f.time)
	f.used = floorResult{0, rig.CPUTime(), ownWritten()}
}

func (f *floorRun) over() bool { return time.Now().After(f.end) }

func (f *floorRun) finish() {
	f.used = floorResult{f.times.Load(), rig.CPUTime() - f.used.CPU, ownWritten() - f.used.Written}
}

// FloorMain runs one step of the floor: args are its name, how many at once, for how many
// milliseconds, and an empty directory.
func FloorMain(args []string, out io.Writer) error {
	if len(args) != 4 {
		return errors.New("give a step, how many at once, milliseconds, and a directory")
	}
	n, err1 := strconv.Atoi(args[1])
	ms, err2 := strconv.Atoi(args[2])
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	for _, s := range floorSteps {
		if s.name == args[0] {
			f := &floorRun{n: n, time: time.Duration(ms) * time.Millisecond, dir: args[3], out: out}
			if err := s.run(f); err != nil {
				return err
			}
			return json.NewEncoder(out).Encode(f.used)
		}
	}
	return fmt.Errorf("there is no step %q", args[0])
}

// ownWritten is how many bytes this process has sent to the disk; 0 where the system does not say.
func ownWritten() float64 {
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return 0
	}
	_, _, written, _ := parseIO(text) // then it is 0
	return written
}

// floor measures and emits all steps.
func (b *bench) floor(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for _, s := range floorSteps {
		for _, n := range b.threads {
			r, err := b.floorStep(ctx, self, s, n)
			if err != nil {
				return fmt.Errorf("the floor, %s, %d at once: %w", s.name, n, err)
			}
			each := float64(r.CPU.Nanoseconds()) / 1e3 / float64(max(r.Times, 1))
			fmt.Fprintf(b.p.Log, "floor: %s (%s), %d at once: %.1f µs CPU, %d times\n", s.name, s.what, n, each, r.Times)
			line := rig.Line{Figure: "cost/" + floorName, Series: s.name, X: fmt.Sprintf("%d at once", n), Metric: "CPU each",
				Unit: "µs", Value: each, Better: rig.Lower}
			wrote := line
			wrote.Metric, wrote.Unit, wrote.Value = "written to the disk each", "bytes", r.Written/float64(max(r.Times, 1))
			if err := errors.Join(b.p.Emit(line), b.p.Emit(wrote)); err != nil {
				return err
			}
		}
	}
	return nil
}

// floorTime is how long a step is repeated, in ms.
func (b *bench) floorTime() int { return rig.Pick(b.p, 500, 2000) }

// floorStep runs a step in a process of its own.
func (b *bench) floorStep(ctx context.Context, self string, s floorStep, n int) (r floorResult, err error) {
	dir, err := os.MkdirTemp(b.p.Dir, "floor-")
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	var errs strings.Builder
	cmd := exec.CommandContext(ctx, self, FloorArg, s.name, strconv.Itoa(n), strconv.Itoa(b.floorTime()), dir)
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		return r, err
	}
	if err := cmd.Start(); err != nil {
		return r, err
	}
	rest := bufio.NewReader(out)
	if s.drive != nil {
		line, rerr := rest.ReadString('\n')
		if err = rerr; err == nil {
			err = s.drive(ctx, strings.TrimSpace(line), n)
		}
	}
	if err == nil {
		err = json.NewDecoder(rest).Decode(&r)
	}
	if err != nil {
		_ = cmd.Process.Kill() // it may wait for us
	}
	if werr := cmd.Wait(); err != nil || werr != nil {
		return r, fmt.Errorf("%w\n%s", errors.Join(err, werr), errs.String())
	}
	return r, nil
}

// driveSockets sends requests over n connections until the other side has had enough.
func driveSockets(ctx context.Context, addr string, n int) error {
	return rig.Each(n, func(int) error {
		var d net.Dialer
		c, err := d.DialContext(ctx, "tcp", addr)
		if err != nil {
			return err
		}
		defer c.Close()
		request, answer := make([]byte, requestBytes), make([]byte, replyBytes)
		for {
			if _, err := c.Write(request); err != nil {
				return nil // the time is over
			}
			if _, err := io.ReadFull(c, answer); err != nil {
				return nil // the time is over
			}
		}
	})
}
