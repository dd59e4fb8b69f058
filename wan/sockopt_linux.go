package wan

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// setUserTimeout breaks the connection when sent bytes stay unacknowledged for
// d. Failure is harmless: the kernel's default is just much longer.
func setUserTimeout(c *net.TCPConn, d time.Duration) {
	if raw, err := c.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) {
			unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(d/time.Millisecond))
		})
	}
}
