package cost

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// callCounter counts the system calls of a process: all of them, where the kernel lets us.
type callCounter struct{ events []int }

// countCalls begins to count those of a process, of all its threads and of those that they will
// make. It fails where the kernel has no tracepoints, or keeps them from this user.
func countCalls(pid int) (*callCounter, error) {
	id, err := tracepoint("raw_syscalls/sys_enter")
	if err != nil {
		return nil, err
	}
	attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_TRACEPOINT, Config: id, Bits: unix.PerfBitInherit}
	attr.Size = uint32(unsafe.Sizeof(attr))
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return nil, err
	}
	// One listing: what those threads make is counted with them, and must not be counted twice.
	c := &callCounter{}
	for _, t := range threads {
		tid, err := strconv.Atoi(t.Name())
		if err != nil {
			return nil, errors.Join(err, c.close())
		}
		fd, err := unix.PerfEventOpen(&attr, tid, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
		switch {
		case errors.Is(err, unix.ESRCH): // it has ended
		case err != nil:
			return nil, errors.Join(err, c.close())
		default:
			c.events = append(c.events, fd)
		}
	}
	return c, nil
}

// tracepoint returns the number of a tracepoint.
func tracepoint(name string) (id uint64, err error) {
	for _, dir := range []string{"/sys/kernel/tracing", "/sys/kernel/debug/tracing"} {
		var text []byte
		if text, err = os.ReadFile(dir + "/events/" + name + "/id"); err == nil {
			return strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
		}
	}
	return 0, err
}

// end returns how many there were.
func (c *callCounter) end() (n float64, err error) {
	for _, fd := range c.events {
		var b [8]byte
		if _, rerr := unix.Read(fd, b[:]); rerr != nil {
			err = errors.Join(err, rerr)
		}
		n += float64(binary.NativeEndian.Uint64(b[:]))
	}
	return n, errors.Join(err, c.close())
}

func (c *callCounter) close() (err error) {
	for _, fd := range c.events {
		err = errors.Join(err, unix.Close(fd))
	}
	c.events = nil
	return err
}
