package wan

import (
	"net"
	"os"
	"strings"
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

// kernelBackoff asks the kernel what it does with a connection.
func kernelBackoff(c *net.TCPConn) (b backoff) {
	raw, err := c.SyscallConn()
	if err != nil {
		return b
	}
	var info *unix.TCPInfo
	if raw.Control(func(fd uintptr) {
		info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	}) != nil || err != nil {
		return b // it was closed
	}
	b.packets, b.resent = info.Data_segs_out, info.Total_retrans
	b.rtt = time.Duration(info.Rtt) * time.Microsecond
	if info.Unacked > 0 {
		b.tries, b.wait = int(info.Retransmits), time.Duration(info.Rto)*time.Microsecond
	}
	return b
}

// setCongestion sets the congestion control of a connection; "" is the kernel's default.
func setCongestion(c *net.TCPConn, name string) error {
	if name == "" {
		b, err := os.ReadFile("/proc/sys/net/ipv4/tcp_congestion_control")
		if err != nil {
			return err
		}
		name = strings.TrimSpace(string(b))
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var set error
	if err := raw.Control(func(fd uintptr) {
		set = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, name)
	}); err != nil {
		return err
	}
	return set
}

// knowsCongestion tries a congestion control on a socket of its own.
func knowsCongestion(name string) error {
	if name == "" {
		return nil
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, name)
}
