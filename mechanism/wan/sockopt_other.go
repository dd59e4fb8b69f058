//go:build !linux

package wan

import (
	"errors"
	"net"
	"time"
)

func setUserTimeout(*net.TCPConn, time.Duration) {}

// kernelBackoff says nothing: there TCP alone decides when it sends again.
func kernelBackoff(*net.TCPConn) backoff { return backoff{} }

func setCongestion(*net.TCPConn, string) error { return nil }

func knowsCongestion(name string) error {
	if name != "" {
		return errors.New("only on Linux")
	}
	return nil
}
