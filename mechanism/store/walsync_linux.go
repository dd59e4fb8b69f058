package store

import (
	"encoding/binary"
	"os"
	"syscall"
	"unsafe"
)

// fileSyncer writes and syncs one file by the kernel's asynchronous I/O. A goroutine in a system
// call keeps its processor until the scheduler finds out, after 20 µs to 10 ms: on few cores, half
// of the machine would stand still while the log is synced. A goroutine that waits for an event
// descriptor gives its processor away at once.
type fileSyncer struct {
	fd    uintptr
	ring  uintptr
	event *os.File
	ready syscall.RawConn
	poll  func(uintptr) bool
	cb    *iocb
	done  ioEvent
	err   error // of asking for the outcome
}

// iocb is the kernel's struct iocb.
type iocb struct {
	_      uint64    // data
	rw     [2]uint32 // key, flags; the other way round on big-endian machines
	op     uint16
	_      int16 // priority
	fd     uint32
	buf    uint64
	nbytes uint64
	offset int64
	_      uint64 // reserved
	flags  uint32
	event  uint32
}

// ioEvent is the kernel's struct io_event.
type ioEvent struct {
	data, obj uint64
	res, res2 int64
}

const (
	iocbWrite  = 1 // IOCB_CMD_PWRITE
	iocbFdsync = 3 // IOCB_CMD_FDSYNC
	iocbEvent  = 1 // IOCB_FLAG_RESFD
	rwDsync    = 2 // RWF_DSYNC
)

// newFileSyncer returns nil where the kernel does not offer it.
func newFileSyncer(fd uintptr) *fileSyncer {
	s := &fileSyncer{fd: fd}
	if _, _, e := syscall.Syscall(syscall.SYS_IO_SETUP, 1, uintptr(unsafe.Pointer(&s.ring)), 0); e != 0 {
		return nil
	}
	ev, _, e := syscall.Syscall(syscall.SYS_EVENTFD2, 0, syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if e != 0 {
		s.close()
		return nil
	}
	s.event = os.NewFile(ev, "wal sync")
	s.cb = &iocb{fd: uint32(fd), flags: iocbEvent, event: uint32(ev)}
	var err error
	if s.ready, err = s.event.SyscallConn(); err != nil {
		s.close()
		return nil
	}
	s.poll = s.reap
	return s
}

// sync is fdatasync; begun is false if it was not even tried.
func (s *fileSyncer) sync() (begun bool, err error) {
	s.cb.op, s.cb.buf, s.cb.nbytes, s.cb.offset, s.cb.rw = iocbFdsync, 0, 0, 0, [2]uint32{}
	begun, _, err = s.do()
	return begun, err
}

// write is pwrite; with sync what was written is durable when it returns. p is not Go's memory.
func (s *fileSyncer) write(p []byte, off int64, sync bool) (n int, err error) {
	for n < len(p) {
		rest := p[n:]
		s.cb.op, s.cb.offset, s.cb.rw = iocbWrite, off+int64(n), [2]uint32{}
		s.cb.buf, s.cb.nbytes = uint64(uintptr(unsafe.Pointer(unsafe.SliceData(rest)))), uint64(len(rest))
		if sync {
			s.cb.rw[rwFlags] = rwDsync
		}
		_, m, err := s.do()
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

// rwFlags is where the flags are in iocb.rw.
var rwFlags = 1 - int(binary.NativeEndian.Uint16([]byte{0, 1})&1)

// do has the kernel do what cb says, and waits.
func (s *fileSyncer) do() (begun bool, n int, err error) {
	s.done, s.err = ioEvent{}, nil
	for {
		// The scheduler must know of this call: a file system that stands still keeps it, and the
		// processor with it would stop the whole process, not only this log.
		_, _, e := syscall.Syscall(syscall.SYS_IO_SUBMIT, s.ring, 1, uintptr(unsafe.Pointer(&s.cb)))
		if e == syscall.EINTR {
			continue
		}
		if e != 0 {
			return false, 0, e
		}
		break
	}
	err = s.ready.Read(s.poll)
	switch {
	case err != nil:
		return true, 0, err
	case s.err != nil:
		return true, 0, s.err
	case s.done.res < 0:
		return true, 0, syscall.Errno(-s.done.res)
	}
	return true, int(s.done.res), nil
}

// reap looks for the outcome without waiting; false if it is not there yet.
func (s *fileSyncer) reap(uintptr) bool {
	var at syscall.Timespec
	for {
		n, _, e := syscall.RawSyscall6(syscall.SYS_IO_GETEVENTS, s.ring, 1, 1, uintptr(unsafe.Pointer(&s.done)),
			uintptr(unsafe.Pointer(&at)), 0)
		switch {
		case e == syscall.EINTR:
		case e != 0:
			s.err = e
			return true
		default:
			return n == 1
		}
	}
}

// direct makes the file pass the page cache by, or no longer.
func (s *fileSyncer) direct(on bool) bool {
	flags, _, e := syscall.Syscall(syscall.SYS_FCNTL, s.fd, syscall.F_GETFL, 0)
	if e != 0 {
		return false
	}
	flags &^= syscall.O_DIRECT
	if on {
		flags |= syscall.O_DIRECT
	}
	_, _, e = syscall.Syscall(syscall.SYS_FCNTL, s.fd, syscall.F_SETFL, flags)
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

func (s *fileSyncer) close() {
	if s.event != nil {
		_ = s.event.Close()
	}
	_, _, _ = syscall.Syscall(syscall.SYS_IO_DESTROY, s.ring, 0, 0)
}
