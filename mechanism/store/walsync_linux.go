//go:build !race && !msan && !asan

package store

import (
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// fileSyncer writes and syncs one file on a thread of its own that holds no processor of Go's
// scheduler. Whoever waits for it waits for an event descriptor, as for a socket, and gives its
// processor away at once. The other ways:
//
//   - A system call that the scheduler knows of keeps its processor until the monitor takes it,
//     after 20 µs to 10 ms: on few cores, half of the machine would stand still while the log is
//     written. And it wakes the monitor, which then looks about for a millisecond, with each write.
//   - A call that the scheduler does not know of keeps its processor as long as it lasts, be it
//     only the submission of asynchronous I/O. On a frozen file system that is for ever, and stops
//     the whole process when next the world is stopped.
type fileSyncer struct {
	event *os.File
	ready syscall.RawConn
	poll  func(uintptr) bool
	o     *order
}

// order is what the thread is to do, and what came of it. It holds no pointer that the collector
// would have to see, as the thread writes it unknown to the collector.
type order struct {
	state      uint32 // a futex
	op         uint32
	fd, evfd   uintptr
	base, size uintptr // struct iovec
	off        int64
	flags      uintptr
	n          uintptr
	errno      syscall.Errno
	one        uint64 // what the event descriptor is told
}

const (
	orderNone  = iota // or done
	orderGiven        // to the thread
	orderEnd          // of the thread
)

const (
	opWrite = iota
	opSync

	futexWait = 0 | 128 // FUTEX_WAIT_PRIVATE
	futexWake = 1 | 128 // FUTEX_WAKE_PRIVATE
	rwDsync   = 2       // RWF_DSYNC
)

// starts takes functions that are to run in goroutines of their own. A goroutine that made them
// itself could be in a bubble of testing/synctest, which would wait for ever for a system call.
var starts = make(chan func())

func init() {
	go func() {
		for f := range starts {
			go f()
		}
	}()
}

// newFileSyncer returns nil where the kernel does not offer it.
func newFileSyncer(fd uintptr) *fileSyncer {
	ev, _, e := syscall.Syscall(syscall.SYS_EVENTFD2, 0, syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if e != 0 {
		return nil
	}
	s := &fileSyncer{event: os.NewFile(ev, "wal sync"), o: &order{fd: fd, evfd: ev, one: 1}}
	var err error
	if s.ready, err = s.event.SyscallConn(); err != nil {
		_ = s.event.Close()
		return nil
	}
	s.poll = func(uintptr) bool { return atomic.LoadUint32(&s.o.state) == orderNone }
	starts <- func() { s.o.thread(s.event) }
	return s
}

// sync is fdatasync.
func (s *fileSyncer) sync() error {
	s.o.op = opSync
	_, err := s.do()
	return err
}

// write is pwrite; with sync what was written is durable when it returns. p is not Go's memory.
func (s *fileSyncer) write(p []byte, off int64, sync bool) (n int, err error) {
	o := s.o
	for n < len(p) {
		rest := p[n:]
		o.op, o.off, o.flags = opWrite, off+int64(n), 0
		o.base, o.size = uintptr(unsafe.Pointer(unsafe.SliceData(rest))), uintptr(len(rest))
		if sync {
			o.flags = rwDsync
		}
		m, err := s.do()
		if err != nil {
			return n, err
		}
		if m == 0 {
			return n, syscall.ENOSPC
		}
		n += m
	}
	return n, nil
}

// do has the thread do what the order says, and waits.
func (s *fileSyncer) do() (n int, err error) {
	s.o.give(orderGiven)
	if err := s.ready.Read(s.poll); err != nil {
		return 0, err
	}
	if s.o.errno != 0 {
		return 0, s.o.errno
	}
	return int(s.o.n), nil
}

// give hands the order to the thread. The call that wakes it does not wait for anything.
func (o *order) give(state uint32) {
	atomic.StoreUint32(&o.state, state)
	_, _, _ = syscall.RawSyscall(syscall.SYS_FUTEX, uintptr(unsafe.Pointer(&o.state)), futexWake, 1)
}

// The runtime keeps these two for packages outside. Between them a goroutine has a thread and no
// processor, as in a system call. It may make others, but not grow its stack, allocate, or write
// pointers. The functions of sync/atomic are instructions there; methods of its types may be calls.
// Under the race detector and the sanitizers both are calls and need more stack, so those builds
// leave this file out.

//go:linkname entersyscallblock runtime.entersyscallblock
func entersyscallblock()

//go:linkname exitsyscall runtime.exitsyscall
func exitsyscall()

// thread does what it is told until the end.
func (o *order) thread(event *os.File) {
	entersyscallblock()
	o.serve()
	exitsyscall()
	_ = event.Close() // not before: nothing else may get its number
	runtime.KeepAlive(o)
}

//go:nosplit
//go:norace
//go:nocheckptr
func (o *order) serve() {
	for {
		switch atomic.LoadUint32(&o.state) {
		case orderNone:
			_, _, _ = syscall.RawSyscall6(syscall.SYS_FUTEX, uintptr(unsafe.Pointer(&o.state)), futexWait, orderNone, 0, 0, 0)
		case orderGiven:
			o.carryOut()
			atomic.StoreUint32(&o.state, orderNone)
			_, _, _ = syscall.RawSyscall(syscall.SYS_WRITE, o.evfd, uintptr(unsafe.Pointer(&o.one)), 8)
		default:
			return
		}
	}
}

//go:nosplit
//go:norace
//go:nocheckptr
func (o *order) carryOut() {
	for {
		if o.op == opSync {
			o.n, _, o.errno = syscall.RawSyscall(syscall.SYS_FDATASYNC, o.fd, 0, 0)
		} else {
			o.n, _, o.errno = syscall.RawSyscall6(unix.SYS_PWRITEV2, o.fd, uintptr(unsafe.Pointer(&o.base)), 1,
				uintptr(o.off), uintptr(o.off>>32), o.flags)
		}
		if o.errno != syscall.EINTR {
			return
		}
	}
}

// direct makes the file pass the page cache by, or no longer.
func (s *fileSyncer) direct(on bool) bool {
	flags, _, e := syscall.Syscall(syscall.SYS_FCNTL, s.o.fd, syscall.F_GETFL, 0)
	if e != 0 {
		return false
	}
	flags &^= syscall.O_DIRECT
	if on {
		flags |= syscall.O_DIRECT
	}
	_, _, e = syscall.Syscall(syscall.SYS_FCNTL, s.o.fd, syscall.F_SETFL, flags)
	return e == 0
}

// pages is zeroed memory that begins at a page and never moves; nil if there is none.
func pages(n int) []byte {
	p, err := syscall.Mmap(-1, 0, n, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return nil
	}
	return p
}

func freePages(p []byte) { _ = syscall.Munmap(p) }

// close ends the thread.
func (s *fileSyncer) close() { s.o.give(orderEnd) }
