package cost

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"syscall"
	"unsafe"
)

// serveSockets answers requests on n connections, with two blocking system calls each and nothing
// else: no poller, no scheduler.
func serveSockets(f *floorRun) error {
	runtime.GOMAXPROCS(f.n + 2) // a raw system call keeps its processor
	debug.SetGCPercent(-1)      // the collector would wait for those that are in one
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer ln.Close()
	if _, err := fmt.Fprintln(f.out, ln.Addr()); err != nil {
		return err
	}
	files := make([]*os.File, f.n)
	for i := range files {
		if files[i], err = accepted(ln); err != nil {
			return err
		}
		defer files[i].Close()
	}
	return f.repeat(func(i int) error { return answer(files[i].Fd()) })
}

// accepted returns the next connection as a socket that blocks.
func accepted(ln net.Listener) (file *os.File, err error) {
	c, err := ln.Accept()
	if err != nil {
		return nil, err
	}
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("a %T is no TCP connection", c), c.Close())
	}
	file, err = tcp.File()
	if err = errors.Join(err, c.Close()); err != nil {
		return nil, err
	}
	return file, syscall.SetNonblock(int(file.Fd()), false)
}

// answer replies to one request of a connection.
func answer(fd uintptr) error {
	var request [requestBytes]byte
	var reply [replyBytes]byte
	n, _, e := syscall.RawSyscall(syscall.SYS_READ, fd, uintptr(unsafe.Pointer(&request[0])), requestBytes)
	if e != 0 {
		return e
	}
	if n == 0 {
		return io.ErrUnexpectedEOF
	}
	if _, _, e := syscall.RawSyscall(syscall.SYS_WRITE, fd, uintptr(unsafe.Pointer(&reply[0])), replyBytes); e != 0 {
		return e
	}
	return nil
}
