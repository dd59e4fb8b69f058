//go:build !linux

package wan

import (
	"errors"
	"net"
	"time"
)

func setUserTimeout(*net.TCPConn, time.Duration) {}

func setCongestion(*net.TCPConn, string) error { return nil }

func knowsCongestion(name string) error {
	if name != "" {
		return errors.New("only on Linux")
	}
	return nil
}
