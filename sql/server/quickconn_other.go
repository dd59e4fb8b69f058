//go:build !linux

package server

import (
	"context"
	"net"
)

func quick(l net.Listener) net.Listener { return l }

// whileThere does nothing: where connections are plain ones, the engine watches them itself.
func whileThere(ctx context.Context, _ net.Conn) (context.Context, func()) { return ctx, func() {} }
