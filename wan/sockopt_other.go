//go:build !linux

package wan

import (
	"net"
	"time"
)

func setUserTimeout(*net.TCPConn, time.Duration) {}
