package store

import (
	"os"
	"syscall"
	"unsafe"
)

// fileSyncer syncs one file by the kernel's asynchronous I/O. A goroutine in a system call keeps its
// processor until the scheduler finds out, after 20 µs to 10 ms: on few cores, half of the machine would stand
// still while the log is synced. A goroutine that waits for an event descriptor gives its processor away at once.
type fileSyncer struct {
	ring  uintptr
	event *os.File
	cb    *iocb
}

// iocb is the kernel's struct iocb.
type iocb struct {
	_     uint64    // data
	_     [2]uint32 // key, rw_flags
	op    uint16
	_     int16 // priority
	fd    uint32
	_     [4]uint64 // buf, nbytes, offset, reserved
	flags uint32
	event uint32
}

// ioEvent is the kernel's struct io_event.
type ioEvent struct {
	data, obj uint64
	res, res2 int64
}

const (
	iocbFdsync = 3 // IOCB_CMD_FDSYNC
	iocbEvent  = 1 // IOCB_FLAG_RESFD
)

// newFileSyncer returns nil where the kernel does not offer it.
func newFileSyncer(fd uintptr) *fileSyncer {
	s := &fileSyncer{}
	if _, _, e := syscall.Syscall(syscall.SYS_IO_SETUP, 1, uintptr(unsafe.Pointer(&s.ring)), 0); e != 0 {
		return nil
	}
	ev, _, e := syscall.Syscall(syscall.SYS_EVENTFD2, 0, syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if e != 0 {
		s.close()
		return nil
	}
	s.event = os.NewFile(ev, "wal sync")
	s.cb = &iocb{op: iocbFdsync, fd: uint32(fd), flags: iocbEvent, event: uint32(ev)}
	return s
}

// sync is fdatasync; done is false if it was not even begun.
func (s *fileSyncer) sync() (done bool, err error) {
	if _, _, e := syscall.RawSyscall(syscall.SYS_IO_SUBMIT, s.ring, 1, uintptr(unsafe.Pointer(&s.cb))); e != 0 {
		return false, e
	}
	var b [8]byte
	if _, err := s.event.Read(b[:]); err != nil {
		return true, err
	}
	var ev ioEvent
	for {
		n, _, e := syscall.RawSyscall6(syscall.SYS_IO_GETEVENTS, s.ring, 1, 1, uintptr(unsafe.Pointer(&ev)), 0, 0)
		switch {
		case e == syscall.EINTR:
		case e != 0:
			return true, e
		case n == 1 && ev.res < 0:
			return true, syscall.Errno(-ev.res)
		case n == 1:
			return true, nil
		}
	}
}

func (s *fileSyncer) close() {
	if s.event != nil {
		_ = s.event.Close()
	}
	_, _, _ = syscall.Syscall(syscall.SYS_IO_DESTROY, s.ring, 0, 0)
}
