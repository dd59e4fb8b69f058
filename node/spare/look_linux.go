package spare

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"unsafe"
)

// schedulerFile is the file by which Go's scheduler waits for the network: the epoll set of this
// process that a pipe of package os is in; -1 if there is none.
func schedulerFile(pipe *os.File) int {
	c, err := pipe.SyscallConn()
	if err != nil {
		return -1
	}
	var member string
	if err := c.Control(func(fd uintptr) { member = fmt.Sprintf("tfd: %8d ", fd) }); err != nil {
		return -1
	}
	files, err := os.ReadDir("/proc/self/fdinfo")
	if err != nil {
		return -1
	}
	for _, f := range files {
		text, err := os.ReadFile("/proc/self/fdinfo/" + f.Name())
		n, numErr := strconv.Atoi(f.Name())
		if err == nil && numErr == nil && strings.Contains(string(text), member) {
			return n
		}
	}
	return -1
}

// unseen reports whether an epoll set has something to tell. It takes half a microsecond.
func unseen(set int) bool {
	const pollIn = 1
	p := struct {
		fd              int32
		events, revents int16
	}{fd: int32(set), events: pollIn}
	var atOnce syscall.Timespec
	n, _, errno := syscall.RawSyscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&p)), 1, uintptr(unsafe.Pointer(&atOnce)), 0, 0, 0)
	return errno == 0 && n == 1
}
